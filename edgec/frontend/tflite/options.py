"""The options of an operator as a dictionary, whatever operator it is: fields by their name in snake case."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

#: Ends of accessors that belong to another one.
_AUXILIARY = ("AsNumpy", "Length", "IsNone", "BufferHasIdentifier")


def options_of(package: Any, operator: Any, spend: Callable[[int], int]) -> Mapping[str, Any]:
    """The fields of the table of options, with the format's defaults; empty where there is none."""
    kind, table = int(operator.BuiltinOptionsType()), operator.BuiltinOptions()
    name = _kinds(package.BuiltinOptions).get(kind)
    if table is None or name is None or name == "NONE":
        return {}
    kind_of: Any = getattr(package, name)
    options = kind_of()
    options.Init(table.Bytes, table.Pos)
    return {_snake(field): _value(options, field, spend) for field in _fields(kind_of)}


def _value(options: Any, field: str, spend: Callable[[int], int]) -> Any:
    if hasattr(options, f"{field}Length"):
        spend(getattr(options, f"{field}Length")())
        numbers = getattr(options, f"{field}AsNumpy")()
        return tuple(numbers.tolist()) if isinstance(numbers, np.ndarray) else ()
    value = getattr(options, field)()
    if isinstance(value, bytes):
        spend(len(value))
        return value.decode("utf-8", "replace")
    return value


@cache
def _fields(kind: Any) -> tuple[str, ...]:
    """The accessors of a generated class: methods that are neither its construction nor helpers of another one."""
    own = [name for name, member in vars(kind).items() if callable(member) and name[0].isupper() and name != "Init"]
    return tuple(name for name in own if not name.endswith(_AUXILIARY) and not name.startswith("GetRootAs"))


def _kinds(enumeration: Any) -> dict[int, str]:
    return {number: name for name, number in vars(enumeration).items() if isinstance(number, int)}


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()

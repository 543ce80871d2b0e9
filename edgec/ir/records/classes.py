"""The classes that a text of records may name: those that the annotations of a root class reach, and no others."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from enum import Enum
from typing import Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from edgec.ir.expr import Expr
from edgec.ir.graph import Graph, Node, Procedure
from edgec.ir.types import Type

#: Classes with a text of their own.
WRITTEN = (Expr, Node, Graph, Procedure, Type)
_UNIONS = (Union, types.UnionType)


@dataclass(frozen=True)
class Classes:
    """Dataclasses and enumerations by name, with the annotations of their fields."""

    by_name: Mapping[str, type]
    names: Mapping[type, str]
    annotations: Mapping[type, Mapping[str, Any]]

    def fields(self, cls: type) -> list[Field[Any]]:
        """The fields that the constructor takes."""
        return [f for f in fields(cls) if f.init]


def reachable(root: type) -> Classes:
    """The classes that the annotations of ``root`` reach, with their subclasses inside the package.

    Classes of one name have the name of their module in front of it.
    """
    annotations: dict[type, Mapping[str, Any]] = {}
    stack: list[Any] = [root]
    while stack:
        found = stack.pop()
        stack += [a for a in get_args(found) if get_origin(found) is not Literal]
        if not isinstance(found, type) or found in annotations or found in WRITTEN or get_origin(found):
            continue
        if _is_ours(found):
            below: list[type] = found.__subclasses__()
            stack += [c for c in below if c.__module__.startswith("edgec.")]
        if not (is_dataclass(found) or issubclass(found, Enum)):
            continue
        hints = get_type_hints(found, localns={"Expr": Expr}) if is_dataclass(found) else {}
        annotations[found] = {k: v for k, v in hints.items() if get_origin(v) is not ClassVar}
        stack += annotations[found].values()
    known = [cls.__name__ for cls in annotations]
    names = {cls: cls.__name__ if known.count(cls.__name__) == 1 else _qualified(cls) for cls in annotations}
    return Classes({name: cls for cls, name in names.items()}, names, annotations)


def _qualified(cls: type) -> str:
    module = cls.__module__.removeprefix("edgec.").replace(".", "_")
    return f"{module}_{cls.__name__}"


def _is_ours(cls: type) -> bool:
    return cls.__module__.startswith("edgec.") and not issubclass(cls, Enum)


def is_default(field: Field[Any], value: Any) -> bool:
    """Is it the value that the field has where nothing is written?"""
    default = field.default_factory() if field.default_factory is not MISSING else field.default
    if default is MISSING or isinstance(value, np.ndarray) or type(value) is not type(default):
        return False
    return bool(value == default)


def accepts(annotation: Any, value: Any) -> bool:
    """May a field with this annotation hold the value? An int is also a float, as in annotations."""
    origin, args = get_origin(annotation), get_args(annotation)
    if annotation is Any:
        return True
    if origin in _UNIONS:
        return any(accepts(a, value) for a in args)
    if origin is Literal:
        return any(type(value) is type(a) and value == a for a in args)
    if origin is tuple:
        return type(value) is tuple and _tuple(args, value)
    if origin is not None and isinstance(origin, type):
        return _collection(origin, args, value)
    if annotation in (float, int):
        return type(value) is int or (annotation is float and type(value) is float)
    if annotation is None:
        return value is None
    return isinstance(annotation, type) and isinstance(value, annotation)


def _tuple(args: tuple[Any, ...], value: tuple[Any, ...]) -> bool:
    if len(args) == 2 and args[1] is Ellipsis:
        return all(accepts(args[0], v) for v in value)
    return len(args) == len(value) and all(map(accepts, args, value))


def _collection(origin: type, args: tuple[Any, ...], value: Any) -> bool:
    if issubclass(origin, np.ndarray):
        return isinstance(value, np.ndarray)
    if not isinstance(value, origin) or isinstance(value, str):
        return False
    if isinstance(value, Mapping):
        key, held = args
        return all(accepts(key, k) and accepts(held, v) for k, v in value.items())
    return isinstance(value, (Sequence, frozenset)) and all(accepts(args[0], v) for v in value)

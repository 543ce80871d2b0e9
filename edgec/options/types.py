"""Types of option values, read from the annotations of the table."""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

from edgec.device.device import Device
from edgec.options.table import Settings

_HINTS = get_type_hints(Settings, localns={"Device": Device})
#: Types of numbers that count as others: those of numpy, and whole numbers where there may be fractions.
_NUMBERS: Mapping[Any, Any] = {int: Integral, float: Real}
#: Types in words, for errors.
WORDS: Mapping[Any, str] = {
    int: "a whole number", float: "a number", str: "a text", Path: "a path", bool: "True or False",
    Mapping: "a dictionary", Sequence: "a list", Iterable: "a list",
}  # fmt: skip


def _parts(key: str) -> tuple[Any, ...]:
    """The types that a value of an option may have; None is always one."""
    hint = _HINTS[key]
    parts = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    return tuple(part for part in parts if part is not type(None))


def value_fits(key: str, value: Any) -> bool:
    """True for a value of one of the option's types. A text is no list of texts, and a truth value no number."""
    return value is None or any(_fits(part, value) for part in _parts(key))


def _fits(part: Any, value: Any) -> bool:
    kind, inside = get_origin(part) or part, get_args(part)
    if kind in (Sequence, Iterable):
        if kind is Iterable and isinstance(value, (str, Path)):  # one folder
            return True
        is_list = isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping))
        return is_list and all(any(_fits(i, item) for i in get_args(inside[0]) or inside) for item in value)
    return fits_kind(value, kind)


def fits_kind(value: Any, kind: type) -> bool:
    """True for a value of a plain type: a truth value is no number, a whole number is one with a fraction of 0."""
    if isinstance(value, bool) and kind in _NUMBERS:
        return False
    return isinstance(value, _NUMBERS.get(kind, kind))


def expected(key: str) -> str:
    """The types of an option in words."""
    kinds = [get_origin(part) or part for part in _parts(key)]
    return " or ".join(dict.fromkeys(WORDS.get(kind, f"a {kind.__name__}") for kind in kinds))

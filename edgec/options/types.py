"""Types of option values, read from the annotations of the table."""

from __future__ import annotations

import types
from typing import Any, Union, get_args, get_origin, get_type_hints

from edgec.device.device import Device
from edgec.options.table import Settings
from edgec.options.typed import WORDS, fits

_HINTS = get_type_hints(Settings, localns={"Device": Device})


def _parts(key: str) -> tuple[Any, ...]:
    """The types that a value of an option may have; None is always one."""
    hint = _HINTS[key]
    parts = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    return tuple(part for part in parts if part is not type(None))


def value_fits(key: str, value: Any) -> bool:
    """True for a value of one of the option's types. A text is no list of texts, and a truth value no number."""
    return value is None or any(fits(part, value) for part in _parts(key))


def expected(key: str) -> str:
    """The types of an option in words."""
    kinds = [get_origin(part) or part for part in _parts(key)]
    return " or ".join(dict.fromkeys(WORDS.get(kind, f"a {kind.__name__}") for kind in kinds))

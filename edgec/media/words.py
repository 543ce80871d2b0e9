"""Preparations of samples, written as ``name=value`` with commas between them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, TypeVar

from edgec.errors import UsageError
from edgec.text import one_of, printable

Found = TypeVar("Found")


def parse(text: str, readers: Mapping[str, Callable[[str], Any]], option: str) -> dict[str, Any]:
    """The value of each name in a text. Raises UsageError for unknown names, names given twice, and odd values."""
    found: dict[str, Any] = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, equals, value = (p.strip() for p in part.partition("="))
        if name not in readers:
            raise UsageError(f"'{printable(part)}' is no preparation", hint=one_of(name, readers), where=option)
        if name in found:
            raise UsageError(f"'{name}' is given twice", hint="give it once", where=option)
        try:
            found[name] = readers[name](value if equals else "")
        except ValueError as error:
            raise UsageError(f"cannot read '{printable(part)}'", hint=str(error), where=option) from None
    return found


def choice(*choices: str) -> Callable[[str], str]:
    """A reader of a word out of a list."""

    def read(text: str) -> str:
        if text not in choices:
            raise ValueError(one_of(text, choices))
        return text

    return read


def numbers(text: str) -> tuple[float, ...]:
    """Numbers, one or one a channel, with slashes between them."""
    try:
        found = tuple(float(t) for t in text.split("/"))
    except ValueError:
        found = ()
    if not found or not all(map(isfinite, found)):
        raise ValueError("it is a number, or one a channel as in 0.485/0.456/0.406")
    return found


def positive(text: str) -> tuple[float, ...]:
    """Numbers above 0, one or one a channel, with slashes between them."""
    found = numbers(text)
    if min(found) <= 0:
        raise ValueError("it is above 0")
    return found


def whole(most: int) -> Callable[[str], int]:
    """A reader of a whole number from 1 to ``most``."""

    def read(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,9}", text) or not 1 <= int(text) <= most:
            raise ValueError(f"it is a whole number from 1 to {most}")
        return int(text)

    return read

"""Strings as rows of bytes: a tensor of strings [..] is a tensor of bytes [.., width], zero behind the end of each.

This is how C keeps them in arrays, how ``strncpy`` writes them, and what numpy's type ``S`` has in memory. The width of
an input is chosen at build time; that of a result follows from those of its operands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from onnx import TensorProto

from edgec.errors import ModelError
from edgec.frontend.values import MAX_ELEMENTS, Value, check_table, constant
from edgec.text import printable


@dataclass(frozen=True, eq=False)
class Strings:
    """A tensor of strings: bytes (u8) of UTF-8, [*shape, width]."""

    rows: Value

    @property
    def shape(self) -> Any:
        """The extents without the width."""
        return self.rows.shape[:-1]

    @property
    def width(self) -> int:
        """The most bytes of a string."""
        width = self.rows.shape[-1]
        if not isinstance(width, int):
            raise ModelError("a width of strings is open", hint="give it as a number: --dim NAME.AXIS=32")
        return width

    def widened(self, width: int) -> Value:
        """The rows with zeros up to ``width`` bytes."""
        return self.rows.pad([0] * self.rows.rank, [0] * (self.rows.rank - 1) + [width - self.width])

    def lengths(self) -> Value:
        """Bytes of each string (i64)."""
        return (self.rows > 0).cast("i64").sum([-1], keep=False)


def rows_of(strings: Any, width: int | None = None) -> np.ndarray:
    """Strings (an array of str or bytes) as rows of bytes (u8) [*shape, width].

    Raises ModelError for a string with a zero byte, and for one that is longer than ``width``.
    """
    array = np.asarray(strings)
    texts = [t.encode() if isinstance(t, str) else bytes(t) for t in array.reshape(-1).tolist()]
    longest = max(map(len, texts), default=0)
    if any(b"\0" in t for t in texts):
        raise ModelError("a string has a zero byte", hint="a zero is the end of a string")
    if width is not None and longest > width:
        raise ModelError(f"a string of {longest} bytes for a width of {width}", hint="build for a larger width")
    width = max(longest, 1) if width is None else width
    if len(texts) * width > MAX_ELEMENTS:
        raise ModelError("strings that would take too much memory as rows")
    check_table(len(texts), width)
    joined = b"".join(t.ljust(width, b"\0") for t in texts)
    return np.frombuffer(joined, np.uint8).reshape(*array.shape, width)


def strings_of(rows: np.ndarray) -> np.ndarray:
    """Rows of bytes [*shape, width] as an array of str."""
    flat = rows.reshape(-1, rows.shape[-1])
    found = np.empty(len(flat), object)
    found[:] = [bytes(row).partition(b"\0")[0].decode("utf-8", "replace") for row in flat]
    return found.reshape(rows.shape[:-1])


def strings(proto: TensorProto) -> Strings:
    """The strings of a tensor of a model; raises ModelError where they do not fit its shape."""
    texts = np.empty(len(proto.string_data), object)
    texts[:] = list(proto.string_data)
    if any(d < 0 for d in proto.dims) or prod(proto.dims) != len(texts):
        told = f"tensor '{printable(proto.name)}' of shape {list(proto.dims)} has {len(texts)} strings"
        raise ModelError(told, hint="the file is damaged")
    return Strings(constant(rows_of(texts.reshape(tuple(proto.dims)))))


def of_one_width(parts: Sequence[Strings]) -> list[Value]:
    """The rows of several, all as wide as the widest."""
    width = max(p.width for p in parts)
    return [p.widened(width) for p in parts]

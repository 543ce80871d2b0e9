"""Tensor types; element types are in ``edgec.ir.dtypes`` and named here too."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

from edgec.ir import expr as X
from edgec.ir.dtypes import CODED, DTYPES, FLOATS, MINIFLOATS, STORED, bits, dtype_name, ends, is_float, plain
from edgec.ir.expr import Expr, Extent
from edgec.ir.index import upper

#: What has more elements is never computed at build time, as a whole or on the way, nor are its places listed.
FOLD_ELEMENTS = 1 << 25
#: What is stored may grow this many times on the way, however large it is: weights of few bits become floats.
_GROWTH = 4

__all__ = [
    "CODED", "DTYPES", "FLOATS", "FOLD_ELEMENTS", "MINIFLOATS", "STORED", "Type",
    "bits", "dtype_name", "ends", "extent_text", "is_float", "is_worth_computing", "plain",
]  # fmt: skip


def is_worth_computing(elements: int, stored: int) -> bool:
    """May a value be computed at build time? ``elements`` has the largest result on the way, ``stored`` the largest
    constant that it is computed from."""
    return elements <= max(FOLD_ELEMENTS, _GROWTH * stored)


def extent_text(extent: Extent) -> str:
    """An extent as the text form writes it: a number, or a formula in braces."""
    return f"{{{extent}}}" if isinstance(extent, Expr) else str(extent)


@lru_cache(maxsize=100_000)  # rules ask for every node they would make
def _elements(shape: tuple[Extent, ...]) -> int:
    return prod(map(upper, shape))


@dataclass(frozen=True, slots=True)
class Type:
    """Element type and shape of a tensor; the shape is in elements, outermost dimension first.

    An extent is a number, or a formula of run-time sizes. What counts elements or bytes counts the most there can be.
    """

    dtype: str
    shape: Any

    def __post_init__(self) -> None:
        if any(type(extent) is not int for extent in self.shape):
            object.__setattr__(self, "shape", tuple(X.plain(extent) for extent in self.shape))

    @property
    def is_fixed(self) -> bool:
        """Is every extent a number?"""
        return all(type(extent) is int for extent in self.shape)

    @property
    def bounds(self) -> tuple[int, ...]:
        """The greatest shape it can have."""
        return tuple(upper(extent) for extent in self.shape)

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def elements(self) -> int:
        return _elements(self.shape)

    @property
    def bytes(self) -> int:
        return self.elements * DTYPES[self.dtype].itemsize

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(extent_text, self.shape))}]"

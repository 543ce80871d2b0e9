"""Order: where elements stand when they are sorted."""

from __future__ import annotations

from math import prod

import numpy as np

from edgec.errors import ModelError
from edgec.ir.expr import Extent
from edgec.ir.graph import Procedure
from edgec.ir.index import upper
from edgec.ir.registry import Tensor, procedure
from edgec.ir.types import STORED, Type

#: Places are kept in 32 bits while they are sorted.
_LONGEST = 2**32
#: Where at most this part of a sorted row is wanted, the rest is never put in order.
_PART = 4


@procedure
def argsort(x: Tensor, *, axis: int, descending: bool = False, count: Extent | None = None) -> Procedure:
    """Places along ``axis`` (i64) of the elements in order, equal ones as they stand; the first ``count`` of them.

    NaN counts as greater than every number, and -0 as equal to 0: numpy's ascending order.
    """
    extent = x.shape[axis]
    _check(x, extent)
    outer, inner = prod(x.shape[:axis]), prod(x.shape[axis + 1 :])
    count = extent if count is None else count
    if not 0 <= count <= extent:
        raise ModelError(f"the first {count} of {extent} elements")
    # Which of two run-time sizes is the greater is not known yet: then all is sorted.
    is_part = isinstance(count, int) and isinstance(extent, int) and count * _PART <= extent
    item = 16 if x.dtype in ("f64", "i64", "u64") else 8

    def compute(values: np.ndarray) -> np.ndarray:
        keys = _sortable(values, x.dtype)
        if not descending:
            places = np.argsort(keys, axis=axis, kind="stable")
        else:  # backwards twice, so that equal elements still stand as they stood
            places = np.flip(extent - 1 - np.argsort(np.flip(keys, axis), axis=axis, kind="stable"), axis)
        return np.take(places, np.arange(int(count)), axis=axis).astype(np.int64)

    return Procedure(
        Type("i64", (*x.shape[:axis], count, *x.shape[axis + 1 :])),
        compute,
        tasks=outer * inner,
        steps=x.type.elements * max(1, upper(count if is_part else extent).bit_length()),
        scratch=item * (count if is_part else 2 * extent),
        room=item * extent,
        sizes={"extent": extent, "inner": inner, "is_part": is_part, "wanted": count},
    )


@procedure
def argsort_rows(x: Tensor) -> Procedure:
    """Numbers (i64) of the rows of x [rows, columns] in order: by the first column, where that is equal by the next.

    Equal rows stay as they stand; elements are ordered as in ``argsort``.
    """
    if x.rank != 2:
        raise ModelError(f"rows are those of a matrix, not of {x.type}")
    rows, columns = x.shape
    _check(x, rows)

    def compute(values: np.ndarray) -> np.ndarray:
        order = np.arange(rows)
        for column in reversed(range(columns)):
            order = order[np.argsort(_sortable(values[order, column], x.dtype), kind="stable")]
        return order.astype(np.int64)

    return Procedure(
        Type("i64", (rows,)),
        compute,
        tasks=1,
        steps=x.type.elements * max(1, upper(rows).bit_length()),
        scratch=8 * rows,
        sizes={"rows": rows, "columns": columns},
    )


def _check(x: Tensor, extent: int) -> None:
    if x.dtype in STORED:
        raise ModelError(f"sorting {x.dtype}", hint="cast to a wider type first")
    if extent >= _LONGEST:
        raise ModelError(f"{extent} elements are too many to sort")


def _sortable(values: np.ndarray, dtype: str) -> np.ndarray:
    """The same order in a type that numpy sorts as is meant here."""
    if dtype in ("f16", "bf16"):
        return values.astype(np.float64)
    return values.view(np.uint8) if dtype == "bool" else values

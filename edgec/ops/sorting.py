"""Order: where elements stand when they are sorted."""

from __future__ import annotations

from math import prod

import numpy as np

from edgec.errors import ModelError
from edgec.ir.graph import Procedure
from edgec.ir.types import STORED, Type, is_float
from edgec.ops.registry import Tensor, procedure

#: Places are kept in 32 bits while they are sorted.
_LONGEST = 2**32
#: Where at most this part of a sorted row is wanted, the rest is never put in order.
_PART = 4


@procedure
def argsort(x: Tensor, *, axis: int, descending: bool = False, count: int | None = None) -> Procedure:
    """Places along ``axis`` (i64) of the elements in order, equal ones as they stand; the first ``count`` of them.

    NaN counts as greater than every number, and -0 as equal to 0: numpy's ascending order.
    """
    if x.dtype in STORED:
        raise ModelError(f"sorting {x.dtype}", hint="cast to a wider type first")
    extent = x.shape[axis]
    outer, inner = prod(x.shape[:axis]), prod(x.shape[axis + 1 :])
    count = extent if count is None else count
    if extent >= _LONGEST or not 0 <= count <= extent:
        raise ModelError(f"{count} elements of {extent} cannot be put in order")
    is_part = count * _PART <= extent
    item = 16 if x.dtype in ("f64", "i64", "u64") else 8

    def compute(values: np.ndarray) -> np.ndarray:
        keys = values.astype(np.float64 if is_float(x.dtype) else np.uint8) if _needs_key(x.dtype) else values
        if not descending:
            places = np.argsort(keys, axis=axis, kind="stable")
        else:  # backwards twice, so that equal elements still stand as they stood
            places = np.flip(extent - 1 - np.argsort(np.flip(keys, axis), axis=axis, kind="stable"), axis)
        return np.take(places, np.arange(count), axis=axis).astype(np.int64)

    return Procedure(
        Type("i64", (*x.shape[:axis], count, *x.shape[axis + 1 :])),
        compute,
        tasks=outer * inner,
        steps=x.type.elements * max(1, (count if is_part else extent).bit_length()),
        scratch=item * (count if is_part else 2 * extent),
        sizes={"extent": extent, "inner": inner, "is_part": is_part, "wanted": count},
    )


def _needs_key(dtype: str) -> bool:
    """Types that numpy does not sort in the order meant here."""
    return dtype in ("f16", "bf16", "bool")

"""Operators whose true size is data: what they find comes first, and -1 fills the rest of the largest size."""

from __future__ import annotations

from math import prod

import numpy as np

from edgec.errors import ModelError
from edgec.ir import expr as X
from edgec.ir.expr import Extent
from edgec.ir.graph import Procedure
from edgec.ir.index import upper
from edgec.ir.registry import Tensor, procedure
from edgec.ir.types import Type

Array = np.ndarray


@procedure
def compact(mask: Tensor) -> Procedure:
    """Row-major positions (i64) of the true elements in order, then -1 up to as many as there are elements."""
    if mask.dtype != "bool":
        raise ModelError(f"a mask is made of truth values, not {mask.dtype}")
    size = X.plain(prod(mask.shape))

    def compute(values: Array) -> Array:
        found = np.flatnonzero(values)
        return np.concatenate([found, np.full(values.size - len(found), -1)]).astype(np.int64)

    return Procedure(Type("i64", (size,)), compute, tasks=1, steps=2 * mask.type.elements)


@procedure
def non_max_suppression(
    boxes: Tensor,
    scores: Tensor,
    limit: Tensor,
    overlap: Tensor,
    least: Tensor | None = None,
    *,
    center: bool = False,
    most: Extent,
) -> Procedure:
    """The boxes of every class, best score first, without those that overlap a better one of the class too much.

    ``boxes`` [batch, n, 4] are two opposite corners (y, x, y, x), or center and size (x, y, width, height) if
    ``center``; ``scores`` is [batch, classes, n]. The result [batch, classes, most] (i64) numbers at most ``limit``
    boxes, filled up with -1. Of equal scores the first comes first; only scores above ``least`` count, which NaN never
    is. A box goes when its intersection with a chosen one exceeds ``overlap`` times their union; boxes without area
    overlap nothing. ``limit``, ``overlap`` and ``least`` have one element each.
    """
    options = (limit, overlap) if least is None else (limit, overlap, least)
    if boxes.rank != 3 or boxes.shape[2] != 4 or scores.rank != 3:
        raise ModelError(f"boxes are [batch, n, 4] and scores [batch, classes, n], not {boxes.type} and {scores.type}")
    if scores.shape[0] != boxes.shape[0] or scores.shape[2] != boxes.shape[1]:
        raise ModelError(f"scores {scores.type} do not belong to boxes {boxes.type}")
    if boxes.dtype not in ("f32", "f64") or any(t.dtype != boxes.dtype for t in (scores, *options[1:])):
        raise ModelError("boxes, scores and thresholds are of one type, f32 or f64")
    if limit.dtype != "i64" or any(t.type.elements != 1 for t in options):
        raise ModelError("the limit is one i64, the thresholds are one number each")
    batch, classes, n = scores.shape
    if not 0 <= most <= n:
        raise ModelError(f"{most} of {n} boxes cannot be chosen")

    def compute(corners: Array, ranks: Array, *given: Array) -> Array:
        result = np.full((*ranks.shape[:2], int(most)), -1, np.int64)
        count, ratio, *threshold = (v.reshape(-1)[0] for v in given)
        for b in range(batch):
            low, high = _sides(corners[b], center)
            area = np.prod(high - low, axis=1)
            for c in range(classes):
                order = n - 1 - np.argsort(ranks[b, c][::-1], kind="stable")[::-1]
                chosen: list[int] = []
                for i in order:
                    if len(chosen) >= min(count, most):
                        break
                    if threshold and not ranks[b, c, i] > threshold[0]:
                        continue
                    sides = np.minimum(high[i], high[chosen]) - np.maximum(low[i], low[chosen])
                    shared = np.prod(sides, axis=1)
                    union = area[i] + area[chosen] - shared
                    real = (sides > 0).all(axis=1) & (shared > 0) & (area[i] > 0) & (area[chosen] > 0) & (union > 0)
                    if not (real & (shared / union > ratio)).any():
                        chosen.append(i)
                result[b, c, : len(chosen)] = chosen
        return result

    item = 8 if boxes.dtype == "f32" else 16
    return Procedure(
        Type("i64", (batch, classes, most)),
        compute,
        tasks=batch * classes,
        steps=scores.type.elements * max(1, upper(n).bit_length() + upper(most)),
        scratch=item * n + item // 2 * 5 * most,
        sizes={"classes": classes, "n": n, "has_least": least is not None},
    )


def _sides(boxes: Array, center: bool) -> tuple[Array, Array]:
    """The lower and the upper corner [n, 2] of boxes [n, 4]."""
    first, second = boxes[:, :2], boxes[:, 2:]
    if center:
        half = second / 2
        return first - half, first + half
    return np.minimum(first, second), np.maximum(first, second)

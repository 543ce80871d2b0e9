"""Pairwise coupling: probabilities of classes from those of every pair (Wu, Lin and Weng 2004, their second method)."""

from __future__ import annotations

import numpy as np

from edgec.errors import ModelError
from edgec.ir.graph import Procedure
from edgec.ir.index import upper
from edgec.ir.registry import Tensor, procedure
from edgec.ir.types import Type

#: Passes over the classes at most, and the largest residual at the end, over the number of classes: those of libsvm.
PASSES, RESIDUAL = 100, 0.005


@procedure
def pairwise_coupling(r: Tensor, *, classes: int) -> Procedure:
    """The probabilities [rows, classes] of which ``r`` [rows, pairs] are those of the first of each pair.

    Pairs are in the order (0, 1), (0, 2), .., (1, 2), ... The probabilities p minimize the sum of (r_ji p_i - r_ij
    p_j)^2. They are found by coordinate descent, which ends early, as in libsvm: its results are not exact.
    """
    if r.dtype not in ("f32", "f64") or r.rank != 2 or classes < 2 or r.shape[1] != classes * (classes - 1) // 2:
        raise ModelError(f"probabilities {r.type} are not those of the pairs of {classes} classes")

    def compute(first: np.ndarray) -> np.ndarray:
        rows, dtype = len(first), first.dtype
        p, q = np.full((rows, classes), 1 / classes, dtype), np.zeros((rows, classes, classes), dtype)
        for (i, j), of_i in zip(_pairs(classes), first.T):
            of_j = 1 - of_i
            q[:, i, i] += of_j * of_j
            q[:, j, j] += of_i * of_i
            q[:, i, j] = q[:, j, i] = -of_j * of_i
        open_ = np.arange(rows)
        for _ in range(PASSES):
            gradient = (q[open_] @ p[open_, :, None])[..., 0]
            value = (p[open_] * gradient).sum(1)
            is_off = np.abs(gradient - value[:, None]).max(1, initial=0) >= dtype.type(RESIDUAL / classes)
            open_, gradient, value = open_[is_off], gradient[is_off], value[is_off]
            if not len(open_):
                break
            for i in range(classes):
                row = q[open_, i]
                step = (value - gradient[:, i]) / row[:, i]
                p[open_, i] += step
                more = 1 + step
                value = (value + step * (step * row[:, i] + 2 * gradient[:, i])) / more / more
                gradient = (gradient + step[:, None] * row) / more[:, None]
                p[open_] /= more[:, None]
        return p

    return Procedure(
        Type(r.dtype, (r.shape[0], classes)),
        compute,
        tasks=r.shape[0],
        steps=10 * upper(r.shape[0]) * classes * classes * 4,
        scratch=(8 if r.dtype == "f64" else 4) * classes * (classes + 1),
        sizes={"pairs": classes * (classes - 1) // 2, "passes": PASSES, "residual": f"{RESIDUAL / classes:.9g}f"},
    )


def _pairs(classes: int) -> list[tuple[int, int]]:
    return [(i, j) for i in range(classes) for j in range(i + 1, classes)]

"""Operators whose index is data: gather and its relatives.

Indices are clamped into their dimension, so that no data can make a kernel read outside its buffers.
"""

from __future__ import annotations

from edgec.ir import expr as X
from edgec.ir import index
from edgec.ir.expr import Expr, Extent
from edgec.ir.graph import Formula
from edgec.ops.registry import Tensor, compute, op


def wrapped(position: Expr, extent: Extent) -> Expr:
    """ONNX's negative indices count from the end; the result is always inside 0 .. extent-1."""
    position = X.cast(position, "i64")
    from_end = X.select(position < 0, position + extent, position)
    return X.call("min", X.call("max", from_end, X.const(0)), X.lift(index.greater(extent - 1, 0), "i64"))


@op
def gather(x: Tensor, positions: Tensor, *, axis: int) -> Formula:
    """y[a, p, b] = x[a, positions[p], b]: whole slices of x along ``axis``."""
    r = positions.rank

    def body(*i: Expr) -> Expr:
        k = wrapped(positions[i[axis : axis + r]], x.shape[axis])
        return x[(*i[:axis], k, *i[axis + r :])]

    return compute((*x.shape[:axis], *positions.shape, *x.shape[axis + 1 :]), body)


@op
def gather_elements(x: Tensor, positions: Tensor, *, axis: int) -> Formula:
    """y[i] = x[i with the index along ``axis`` taken from positions[i]]."""

    def body(*i: Expr) -> Expr:
        return x[(*i[:axis], wrapped(positions[i], x.shape[axis]), *i[axis + 1 :])]

    return compute(positions.shape, body)


@op
def gather_nd(x: Tensor, positions: Tensor, *, batch: int = 0) -> Formula:
    """y[b, p, c] = x[b, positions[b, p, :], c]."""
    depth = positions.shape[-1]
    outer = positions.shape[:-1]

    def body(*i: Expr) -> Expr:
        head = i[: len(outer)]
        chosen = (wrapped(positions[(*head, k)], x.shape[batch + k]) for k in range(depth))
        return x[(*i[:batch], *chosen, *i[len(outer) :])]

    return compute((*outer, *x.shape[batch + depth :]), body)

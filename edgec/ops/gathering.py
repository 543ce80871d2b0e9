"""Operators whose index is data: gather and its relatives.

Indices are clamped into their dimension, so that no data can make a kernel read outside its buffers.
"""

from __future__ import annotations

from collections.abc import Sequence

from edgec.errors import ModelError
from edgec.ir import expr as X
from edgec.ir import index
from edgec.ir.expr import Expr, Extent
from edgec.ir.graph import Formula, Node
from edgec.ir.registry import Tensor, adjoint, compute, node, op
from edgec.ops import graphs


def wrapped(position: Expr, extent: Extent) -> Expr:
    """ONNX's negative indices count from the end; the result is always inside 0 .. extent-1."""
    position = X.cast(position, "i64")
    from_end = X.select(position < 0, position + extent, position)
    return X.call("min", X.call("max", from_end, X.const(0)), X.lift(index.greater(extent - 1, 0), "i64"))


def _require_inside(
    x: Tensor, positions: Tensor, shape: Sequence[Extent], pairs: Sequence[tuple[Extent, Extent]]
) -> None:
    """Raises ModelError where the result would have elements that x has not.

    ``pairs`` are extents of positions that count along a dimension of x as they are, and of that dimension.
    """
    if 0 in x.shape and all(isinstance(n, Expr) or n > 0 for n in shape):
        raise ModelError(f"{positions.type} positions in {x.type}, which has no elements")
    if not all(p == n or p <= n for p, n in pairs):
        raise ModelError(f"positions {positions.type} do not fit {x.type}")


@op
def gather(x: Tensor, positions: Tensor, *, axis: int) -> Formula:
    """y[a, p, b] = x[a, positions[p], b]: whole slices of x along ``axis``."""
    r = positions.rank
    shape = (*x.shape[:axis], *positions.shape, *x.shape[axis + 1 :])
    _require_inside(x, positions, shape, ())

    def body(*i: Expr) -> Expr:
        k = wrapped(positions[i[axis : axis + r]], x.shape[axis])
        return x[(*i[:axis], k, *i[axis + r :])]

    return compute(shape, body)


@op
def gather_elements(x: Tensor, positions: Tensor, *, axis: int) -> Formula:
    """y[i] = x[i with the index along ``axis`` taken from positions[i]]."""
    if positions.rank != x.rank:
        raise ModelError(f"positions {positions.type} do not fit {x.type}")
    beside = [pair for d, pair in enumerate(zip(positions.shape, x.shape)) if d != axis]
    _require_inside(x, positions, positions.shape, beside)

    def body(*i: Expr) -> Expr:
        return x[(*i[:axis], wrapped(positions[i], x.shape[axis]), *i[axis + 1 :])]

    return compute(positions.shape, body)


@op
def gather_nd(x: Tensor, positions: Tensor, *, batch: int = 0) -> Formula:
    """y[b, p, c] = x[b, positions[b, p, :], c]."""
    depth = positions.shape[-1]
    outer = positions.shape[:-1]
    if batch + depth > x.rank:
        raise ModelError(f"positions {positions.type} do not fit {x.type}")
    shape = (*outer, *x.shape[batch + depth :])
    _require_inside(x, positions, shape, list(zip(outer[:batch], x.shape)))

    def body(*i: Expr) -> Expr:
        head = i[: len(outer)]
        chosen = (wrapped(positions[(*head, k)], x.shape[batch + k]) for k in range(depth))
        return x[(*i[:batch], *chosen, *i[len(outer) :])]

    return compute(shape, body)


# ---- derivatives: gradients are added where the elements were read


@adjoint("gather")
def _gather_back(n: Node, g: Node, k: int) -> Node:
    """Whole slices added at their positions: the axis in front, so that a position is one number."""
    x, positions = n.args
    axis, r = n.attributes["axis"], positions.type.rank
    shape = x.type.shape
    rest = [d for d in range(x.type.rank) if d != axis]
    zeros = graphs.full(0, x.type.dtype, (shape[axis], *(shape[d] for d in rest)))
    slices = graphs.transpose(g, [*range(axis, axis + r), *range(axis), *range(axis + r, n.type.rank)])
    where = graphs.clamped(graphs.reshape(positions, (*positions.type.shape, 1)), (shape[axis],))
    summed = node("scatter_nd", zeros, where, slices, combine="add")
    perm = [axis, *rest]
    return graphs.transpose(summed, [perm.index(d) for d in range(len(perm))])


@adjoint("gather_elements")
def _gather_elements_back(n: Node, g: Node, k: int) -> Node:
    """The gradient added at the positions."""
    (x, positions), axis = n.args, n.attributes["axis"]
    zeros = graphs.full(0, x.type.dtype, x.type.shape)
    where = graphs.clamped(positions, (x.type.shape[axis],))
    return node("scatter_elements", zeros, where, g, axis=axis, combine="add")


@adjoint("gather_nd")
def _gather_nd_back(n: Node, g: Node, k: int) -> Node:
    """Slices added at their positions, in front of which the numbers of the batches are written."""
    x, positions = n.args
    zeros = graphs.full(0, x.type.dtype, x.type.shape)
    batch, dtype = n.attributes["batch"], positions.type.dtype
    one = (*positions.type.shape[:-1], 1)
    numbers = [graphs.broadcast(_count(d, one, dtype), one) for d in range(batch)]
    where = graphs.clamped(positions, x.type.shape[batch : batch + positions.type.shape[-1]])
    return node("scatter_nd", zeros, graphs.concat([*numbers, where], len(one) - 1), g, combine="add")


def _count(axis: int, shape: tuple[Extent, ...], dtype: str) -> Node:
    """0, 1, ... along one dimension."""
    return node("iota", shape=tuple(n if d == axis else 1 for d, n in enumerate(shape)), axis=axis, dtype=dtype)

"""Operators that only move elements: their formula is a load at another index."""

from __future__ import annotations

from itertools import accumulate
from math import prod

from edgec.errors import ModelError, Unequal
from edgec.ir import expr as X
from edgec.ir import positions
from edgec.ir.graph import Formula, Node
from edgec.ir.registry import Tensor, adjoint, compute, node, op
from edgec.ops import graphs
from edgec.ops.elementwise import at, broadcast_shape


@op
def reshape(x: Tensor, *, shape: tuple[int, ...]) -> Formula:
    """Same elements in row-major order under another shape."""
    if X.plain(prod(shape)) != X.plain(prod(x.shape)):
        raise Unequal(f"cannot reshape {x.shape} to {shape}", (X.plain(prod(shape)), X.plain(prod(x.shape))))
    return compute(shape, lambda *i: x[positions.regrouped(i, shape, x.shape)])


@op
def transpose(x: Tensor, *, perm: tuple[int, ...]) -> Formula:
    """y[i] = x[i permuted back]: dimension d of the result is dimension perm[d] of x."""
    if sorted(perm) != list(range(x.rank)):
        raise ModelError(f"{perm} is no permutation of {x.rank} dimensions")
    return compute([x.shape[p] for p in perm], lambda *i: x[tuple(i[perm.index(d)] for d in range(x.rank))])


@op
def broadcast(x: Tensor, *, shape: tuple[int, ...]) -> Formula:
    if broadcast_shape(x.shape, shape) != tuple(shape):
        raise Unequal(f"cannot broadcast {x.shape} to {shape}", *zip(x.shape[::-1], shape[::-1]), may_be_one=True)
    return compute(shape, lambda *i: at(x, i))


@op
def slice_(x: Tensor, *, starts: tuple[int, ...], steps: tuple[int, ...], shape: tuple[int, ...]) -> Formula:
    """y[i] = x[starts + steps * i]; steps may be negative."""
    for extent, start, step, size in zip(x.shape, starts, steps, shape):
        last = start + step * (size - 1)  # of what may be nothing, it is enough that no element leaves the dimension
        low, high = (start, last) if step > 0 else (last, start)
        if size != 0 and not (low >= 0 and high < extent):
            raise ModelError(f"slice {start}:{step} of {size} elements leaves a dimension of {extent}")
    return compute(shape, lambda *i: x[tuple(i[d] * steps[d] + starts[d] for d in range(x.rank))])


@op
def pad(x: Tensor, *, before: tuple[int, ...], after: tuple[int, ...], value: float = 0.0) -> Formula:
    """``value`` around x."""
    shape = [b + n + a for b, n, a in zip(before, x.shape, after)]

    def body(*i: X.Expr) -> X.Expr:
        inside = X.const(True, "bool")
        for d in range(x.rank):
            if before[d] != 0 or after[d] != 0:
                inside = inside & (i[d] >= before[d]) & (i[d] < before[d] + x.shape[d])
        source = x[tuple(i[d] - before[d] for d in range(x.rank))]
        return X.select(inside, source, X.const(value, x.dtype))

    return compute(shape, body)


@op
def windows(
    x: Tensor,
    *,
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
    before: tuple[int, ...],
    places: tuple[int, ...],
    columns: int,
) -> Formula:
    """The windows of a convolution of x [N, C, S...] as the rows of a matrix [N * places, columns].

    A row has the elements [C, K...] of a window in row-major order, then zeros up to ``columns``. The first window
    begins ``before`` elements ahead of x; there and behind x are zeros.
    """
    batch, channels, *space = x.shape
    inner = (channels, *kernel)
    if len(space) != len(kernel) or columns < prod(inner):
        raise ModelError(f"{columns} columns for windows of {kernel} over {x.shape}")

    def body(row: X.Expr, column: X.Expr) -> X.Expr:
        n, *position = positions.delinearize(row, (batch, *places))
        c, k = column // prod(kernel), positions.delinearize(column, kernel)
        inside = column < prod(inner)
        source = []
        for extent, place, tap, d in zip(space, position, k, range(len(space))):
            at = place * strides[d] + tap * dilations[d] - before[d]
            last = (places[d] - 1) * strides[d] + (kernel[d] - 1) * dilations[d] - before[d]
            inside = inside & (at >= 0) if before[d] > 0 else inside
            inside = inside & (at < extent) if last >= extent else inside
            source.append(at)
        return X.select(inside, x[(n, c, *source)], X.const(0, x.dtype))

    return compute((batch * prod(places), columns), body)


@op
def concat(*parts: Tensor, axis: int) -> Formula:
    first = parts[0]
    for p in parts[1:]:
        if p.rank != first.rank or any(a != b for d, (a, b) in enumerate(zip(p.shape, first.shape)) if d != axis):
            pairs = [pair for d, pair in enumerate(zip(p.shape, first.shape)) if d != axis and pair[0] != pair[1]]
            raise Unequal(f"cannot concatenate {first.shape} and {p.shape} along {axis}", *pairs)
    starts = [0, *accumulate(p.shape[axis] for p in parts[:-1])]
    shape = list(first.shape)
    shape[axis] = starts[-1] + parts[-1].shape[axis]
    used = [k for k, p in enumerate(parts) if p.shape[axis] != 0] or [0]

    def body(*i: X.Expr) -> X.Expr:
        def chosen(first: int, last: int) -> X.Expr:
            """Of the parts from ``first`` to before ``last``: halved, so that the formula is no deeper than it must."""
            if last - first == 1:
                part = used[first]
                return parts[part][(*i[:axis], i[axis] - starts[part], *i[axis + 1 :])]
            middle = (first + last) // 2
            return X.select(i[axis] < starts[used[middle]], chosen(first, middle), chosen(middle, last))

        return chosen(0, len(used))

    return compute(shape, body)


@op
def update(x: Tensor, part: Tensor, *, starts: tuple[int, ...]) -> Formula:
    """x, with ``part`` in the place of its elements from ``starts`` on."""
    if part.rank != x.rank or part.dtype != x.dtype:
        raise ModelError(f"{part.dtype}{list(part.shape)} is no part of {x.dtype}{list(x.shape)}")
    for extent, start, count in zip(x.shape, starts, part.shape):
        if not (start >= 0 and start + count <= extent):
            raise ModelError(f"a part of {count} elements from {start} on leaves a dimension of {extent}")

    def body(*i: X.Expr) -> X.Expr:
        inside = X.const(True, "bool")
        for d in range(x.rank):
            if part.shape[d] != x.shape[d]:
                inside = inside & (i[d] >= starts[d]) & (i[d] < starts[d] + part.shape[d])
        return X.select(inside, part[tuple(i[d] - starts[d] for d in range(x.rank))], x[i])

    return compute(x.shape, body)


@op
def size(*, value: X.Extent) -> Formula:
    """A number that only sizes decide, as a scalar."""
    return compute((), lambda: X.lift(value, "i64"))


@op
def iota(*, shape: tuple[int, ...], axis: int, dtype: str = "i64") -> Formula:
    """The index along ``axis``."""
    return compute(shape, lambda *i: X.cast(i[axis], dtype))


# ---- derivatives: gradients go back to where the elements came from


@adjoint("reshape")
def _reshape_back(n: Node, g: Node, k: int) -> Node:
    """The gradient in the operand's shape."""
    return graphs.reshape(g, n.args[0].type.shape)


@adjoint("transpose")
def _transpose_back(n: Node, g: Node, k: int) -> Node:
    """The gradient, transposed back."""
    perm = n.attributes["perm"]
    return graphs.transpose(g, [perm.index(d) for d in range(len(perm))])


@adjoint("broadcast")
def _broadcast_back(n: Node, g: Node, k: int) -> Node:
    """The sum over all that was repeated."""
    return graphs.totaled(g, n.args[0].type.shape)


@adjoint("slice")
def _slice_back(n: Node, g: Node, k: int) -> Node:
    """Every element in its place, zeros elsewhere."""
    (x,) = n.args
    starts, steps = n.attributes["starts"], n.attributes["steps"]
    g = graphs.flip(g, (d for d, step in enumerate(steps) if step < 0))
    lows = [
        start if step > 0 else start + step * (count - 1)
        for start, step, count in zip(starts, steps, n.type.shape)
    ]  # fmt: skip
    if any(count == 0 for count in n.type.shape):
        return graphs.full(0, x.type.dtype, x.type.shape)
    g = graphs.spread(g, [abs(step) for step in steps])
    after = [extent - low - count for extent, low, count in zip(x.type.shape, lows, g.type.shape)]
    return graphs.pad(g, lows, after)


@adjoint("pad")
def _pad_back(n: Node, g: Node, k: int) -> Node:
    """The part of the gradient inside the padding."""
    return graphs.part(g, n.attributes["before"], n.args[0].type.shape)


@adjoint("concat")
def _concat_back(n: Node, g: Node, k: int) -> Node:
    """The part of the gradient that belongs to the operand."""
    axis = n.attributes["axis"]
    before = sum(a.type.shape[axis] for a in n.args[:k])
    starts = [before if d == axis else 0 for d in range(n.type.rank)]
    return graphs.part(g, starts, n.args[k].type.shape)


@adjoint("update")
def _update_back(n: Node, g: Node, k: int) -> Node:
    """The gradient outside of the part, and that of the part itself."""
    starts, (dtype, shape) = n.attributes["starts"], (n.type.dtype, n.args[1].type.shape)
    if k == 1:
        return graphs.part(g, starts, shape)
    return node("update", g, graphs.full(0, dtype, shape), starts=starts)

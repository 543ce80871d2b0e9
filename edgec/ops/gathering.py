"""Operators whose index is data: gather and its relatives.

Indices are clamped into their dimension, so that no data can make a kernel read outside its buffers.
"""

from __future__ import annotations

from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.graph import Formula
from edgec.ops.registry import Tensor, compute, op, over, reduce_over


def wrapped(position: Expr, extent: int) -> Expr:
    """ONNX's negative indices count from the end; the result is always inside 0 .. extent-1."""
    position = X.cast(position, "i64")
    from_end = X.select(position < 0, position + extent, position)
    return X.call("min", X.call("max", from_end, X.const(0)), X.const(max(extent - 1, 0)))


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


@op
def scatter_elements(x: Tensor, positions: Tensor, updates: Tensor, *, axis: int, combine: str = "last") -> Formula:
    """x with updates[p] written (or combined) at p, its index along ``axis`` taken from positions[p].

    Every element asks which update reaches it: quadratic along ``axis``, but free of write conflicts.
    """
    extent = positions.shape[axis]

    def body(*i: Expr) -> Expr:
        inside = X.const(True, "bool")
        for d in range(x.rank):
            if d != axis:
                inside = inside & (i[d] < positions.shape[d])
        (k,) = over(extent)
        place = (*i[:axis], k, *i[axis + 1 :])
        here = X.call("eq", wrapped(positions[place], x.shape[axis]), i[axis])
        return _combined(x[i], inside, here, (k,), lambda last: updates[(*i[:axis], last[0], *i[axis + 1 :])], combine)

    return compute(x.shape, body)


@op
def scatter_nd(x: Tensor, positions: Tensor, updates: Tensor, *, combine: str = "last") -> Formula:
    """x with updates[p, c] written (or combined) at x[positions[p, :], c]."""
    depth = positions.shape[-1]
    outer = positions.shape[:-1]

    def body(*i: Expr) -> Expr:
        p = over(*outer)
        here = X.const(True, "bool")
        for k in range(depth):
            here = here & X.call("eq", wrapped(positions[(*p, k)], x.shape[k]), i[k])
        return _combined(x[i], X.const(True, "bool"), here, p, lambda last: updates[(*last, *i[depth:])], combine)

    return compute(x.shape, body)


def _combined(old: Expr, inside: Expr, here: Expr, domain: tuple[Expr, ...], update, combine: str) -> Expr:  # type: ignore[no-untyped-def]
    from edgec.ir import index

    if combine == "last":  # the greatest position that hits; -1 when none does
        extents = tuple(v.value.extent if v.op == "var" else 1 for v in domain)
        position = index.linearize(domain, extents)
        last = reduce_over("max", domain, X.select(here, position, X.const(-1)))
        chosen = index.delinearize(X.call("max", last, X.const(0)), extents)
        # Outside, there are no positions to look at: nothing of the search may be computed there.
        return X.select(inside, X.select(last >= 0, update(chosen), old), old)
    neutral = {"add": 0, "mul": 1}
    if combine in neutral:
        value = reduce_over(combine, domain, X.select(here, update(domain), X.const(neutral[combine], old.dtype)))
    else:
        value = reduce_over(combine, domain, X.select(here, update(domain), old))
    return X.select(inside, X.call(combine, old, value), old)

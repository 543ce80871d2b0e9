"""Reductions over whole dimensions and over windows."""

from __future__ import annotations

from edgec.ir.expr import Expr
from edgec.ir.graph import Formula
from edgec.ir.registry import Tensor, compute, op, over, reduce_over
from edgec.ops.contraction import window_extent


@op
def reduce(x: Tensor, *, combine: str, axes: tuple[int, ...]) -> Formula:
    """Combine over ``axes`` (add, mul, max, min, and, or), which stay as dimensions of extent 1."""
    shape = [1 if d in axes else extent for d, extent in enumerate(x.shape)]

    def body(*i: Expr) -> Expr:
        inner = over(*(x.shape[d] for d in axes))
        place = list(i)
        for d, k in zip(axes, inner):
            place[d] = k
        return reduce_over(combine, inner, x[tuple(place)])

    return compute(shape, body)


@op
def pool(
    x: Tensor, *, combine: str, kernel: tuple[int, ...], strides: tuple[int, ...], dilations: tuple[int, ...]
) -> Formula:
    """Combine over windows of the trailing dimensions, without padding."""
    lead = x.rank - len(kernel)
    shape = [window_extent(*sizes) for sizes in zip(x.shape[lead:], kernel, strides, dilations)]

    def body(*i: Expr) -> Expr:
        k = over(*kernel)
        source = (p * s + q * d for p, s, q, d in zip(i[lead:], strides, k, dilations))
        return reduce_over(combine, k, x[(*i[:lead], *source)])

    return compute((*x.shape[:lead], *shape), body)

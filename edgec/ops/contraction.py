"""Sums of products: matrix products and convolutions."""

from __future__ import annotations

from edgec.errors import Unequal
from edgec.ir.expr import Expr, Extent
from edgec.ir.graph import Formula
from edgec.ir.registry import Tensor, compute, op, over, reduce_over
from edgec.ops.elementwise import broadcast_shape


@op
def matmul(a: Tensor, b: Tensor) -> Formula:
    """y[.., m, n] = sum over k of a[.., m, k] * b[.., k, n]; leading dimensions broadcast (numpy.matmul)."""
    if a.rank < 2 or b.rank < 2 or a.shape[-1] != b.shape[-2]:
        pairs = [(a.shape[-1], b.shape[-2])] if min(a.rank, b.rank) >= 2 else []
        raise Unequal(f"cannot multiply matrices of shapes {a.shape} and {b.shape}", *pairs)
    batch = broadcast_shape(a.shape[:-2], b.shape[:-2]) if a.rank > 2 or b.rank > 2 else ()

    def body(*i: Expr) -> Expr:
        *outer, m, n = i
        (k,) = over(a.shape[-1])
        left = a[(*outer[len(outer) - a.rank + 2 :], m, k)]
        right = b[(*outer[len(outer) - b.rank + 2 :], k, n)]
        return reduce_over("add", (k,), left * right)

    return compute((*batch, a.shape[-2], b.shape[-1]), body)


def window_extent(extent: Extent, kernel: int, stride: int, dilation: int) -> Extent:
    """Number of windows that fit."""
    return max((extent - (kernel - 1) * dilation - 1) // stride + 1, 0)


@op
def conv(x: Tensor, w: Tensor, *, strides: tuple[int, ...], dilations: tuple[int, ...], groups: int = 1) -> Formula:
    """Cross-correlation without padding, any number of spatial dimensions.

    x [N, groups*Cg, S...], w [O, Cg, K...], y [N, O, ...]; output channel o belongs to group o // (O/groups).
    """
    n, channels, *space = x.shape
    outputs, per_group, *kernel = w.shape
    if channels != per_group * groups or outputs % groups:
        message = f"convolution of {channels} channels by weights {w.shape} in {groups} groups"
        raise Unequal(message, (channels, per_group * groups))
    shape = [window_extent(*sizes) for sizes in zip(space, kernel, strides, dilations)]

    def body(*i: Expr) -> Expr:
        batch, o, *position = i
        c, *k = over(per_group, *kernel)
        channel = (o // (outputs // groups)) * per_group + c
        source = [p * s + q * d for p, s, q, d in zip(position, strides, k, dilations)]
        return reduce_over("add", (*k, c), x[(batch, channel, *source)] * w[(o, c, *k)])

    return compute((n, outputs, *shape), body)

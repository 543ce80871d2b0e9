"""Sums of products: matrix products and convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

from edgec.errors import ModelError, Unequal
from edgec.ir.expr import Expr, Extent
from edgec.ir.graph import Formula, Node
from edgec.ir.registry import Tensor, adjoint, compute, node, op, over, reduce_over
from edgec.ops import graphs
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


@adjoint("matmul")
def _matmul_back(n: Node, g: Node, k: int) -> Node:
    """g @ b' for a, and a' @ g for b: one matrix product over all rows where a alone has leading dimensions."""
    a, b = n.args
    if k == 0:
        return graphs.totaled(node("matmul", g, _turned(b)), a.type.shape)
    if b.type.rank == 2 and a.type.rank > 2:
        rows = graphs.elements(a.type.shape[:-1])
        a, g = graphs.reshape(a, (rows, a.type.shape[-1])), graphs.reshape(g, (rows, g.type.shape[-1]))
    return graphs.totaled(node("matmul", _turned(a), g), b.type.shape)


def _turned(x: Node) -> Node:
    """Every matrix transposed."""
    rank = x.type.rank
    return graphs.transpose(x, [*range(rank - 2), rank - 1, rank - 2])


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


def is_by_image(n: Node) -> bool:
    """Is this a convolution by values that a run computes and that are larger than its result, such as a gradient?"""
    if n.op != "conv" or n.args[1].is_const or not n.type.is_fixed or not n.args[1].type.is_fixed:
        return False
    return bool(n.type.shape[0] > 1 and prod(n.type.shape[2:]) < prod(n.args[1].type.shape[2:]))


@adjoint("conv")
def _conv_back(n: Node, g: Node, k: int) -> Node:
    """For x a transposed convolution of the gradient by w; for w a convolution of x by the gradient.

    In that channels and batch change places, strides are dilations, and dilations strides.
    """
    x, w = n.args
    strides, dilations, groups = (n.attributes[name] for name in ("strides", "dilations", "groups"))
    if 0 in n.type.shape:
        return graphs.full(0, g.type.dtype, n.args[k].type.shape)
    plain, scale = _by_channel(g)
    if k == 1:
        found = _weights_back(n, plain)
        return found if scale is None else node("mul", found, scale)
    if scale is not None and _fewer(w.type.elements, g.type.elements):
        g, w = plain, node("mul", w, scale)
    wanted = _ends(x)
    whole = transposed_conv(g, w, strides, dilations, groups, wanted[2:], apart=True)
    found = graphs.part(whole, (0,) * whole.type.rank, wanted)
    return graphs.pad(found, (0,) * x.type.rank, tuple(n - m for n, m in zip(x.type.shape, wanted)))


def _ends(x: Node) -> graphs.Shape:
    """The extents up to which a gradient for ``x`` is read: what is padded behind has none."""
    shape: graphs.Shape = x.type.shape
    if x.op != "pad" or not x.type.is_fixed or 0 in x.args[0].type.shape:
        return shape
    return tuple(n - a for n, a in zip(shape, x.attributes["after"]))


def _weights_back(n: Node, g: Node) -> Node:
    """The gradient for the weights of a convolution: a convolution by the gradient, with as many results as taps.

    Samples take the place of channels. Where a group reads one channel, they are one more dimension of space instead,
    so that the channels of all groups stay neighbors in memory.
    """
    x, w = n.args
    strides, dilations, groups = (n.attributes[name] for name in ("strides", "dilations", "groups"))
    (batch, channels, *_), (outputs, per_group, *kernel) = x.type.shape, w.type.shape
    sizes = zip(n.type.shape[2:], strides, kernel, dilations)
    space = [(extent - 1) * s + (k - 1) * d + 1 for extent, s, k, d in sizes]  # no window fits beyond the last tap
    x = graphs.part(x, (0,) * x.type.rank, (batch, channels, *space))
    swapped = [1, 0, *range(2, n.type.rank)]
    filters = graphs.transpose(g, swapped)
    if groups > 1 and per_group == 1 and batch != 1:
        images = graphs.reshape(graphs.transpose(x, swapped), (1, groups, batch, *space))
        filters = graphs.reshape(filters, (outputs, 1, *filters.type.shape[1:]))
        y = node("conv", images, filters, strides=(1, *dilations), dilations=(1, *strides), groups=groups)
        return graphs.reshape(y, w.type.shape)
    if groups == 1:
        images = graphs.transpose(x, swapped)
    else:
        split = graphs.reshape(x, (batch, groups, per_group, *space))
        turned = graphs.transpose(split, [2, 1, 0, *range(3, len(space) + 3)])
        images = graphs.reshape(turned, (per_group, groups * batch, *space))
    y = node("conv", images, filters, strides=dilations, dilations=strides, groups=groups)
    return graphs.transpose(y, [1, 0, *range(2, n.type.rank)])


def _by_channel(g: Node) -> tuple[Node, Node | None]:
    """A gradient without the factors that depend on its channel alone, as those of a normalization, and their product
    for the outputs of weights."""
    scale: Node | None = None
    ones = (1,) * (g.type.rank - 2)
    while g.op == "mul":
        found = ((rest, factor) for rest, factor in (g.args, g.args[::-1]) if rest.type == g.type)
        rest, factor = next(((r, f) for r, f in found if _is_by_channel(f, g)), (g, g))
        if rest is g:
            break
        channels = g.type.shape[1]
        factor = graphs.reshape(factor, (1,) * (g.type.rank - factor.type.rank) + factor.type.shape)
        factor = graphs.reshape(graphs.broadcast(factor, (1, channels, *ones)), (channels, 1, *ones))
        scale, g = factor if scale is None else node("mul", scale, factor), rest
    return g, scale


def _is_by_channel(factor: Node, g: Node) -> bool:
    lead = g.type.rank - factor.type.rank
    return all(s == 1 for d, s in enumerate(factor.type.shape) if d + lead != 1)


def _fewer(a: Extent, b: Extent) -> bool:
    """Is one number known to be less than the other?"""
    return isinstance(a, int) and isinstance(b, int) and a < b


def transposed_conv(
    x: Node,
    w: Node,
    strides: Sequence[int],
    dilations: Sequence[int],
    groups: int,
    least: Sequence[Extent],
    apart: bool = False,
) -> Node:
    """The transposed convolution of x [N, C, ..] by w [C, O/g, ..] without padding, at least ``least`` elements of it.

    Every output position p belongs to the phase p % stride, and only the weights of that phase meet it: all
    phases together are one ordinary convolution with O*prod(strides) outputs, interleaved afterwards. Where phases have
    different numbers of taps, those of the largest are computed for all; ``apart`` makes a convolution of each instead.
    """
    rank = len(strides)
    inputs, per_group, *kernel = w.type.shape
    outputs = per_group * groups
    if x.type.shape[1] != inputs or inputs % groups:
        raise ModelError(f"transposed convolution of {x.type.shape[1]} channels by weights {list(w.type.shape)}")
    if any(d > 1 and s > 1 for s, d in zip(strides, dilations)):
        w = graphs.spread(w, (1, 1, *dilations))
        dilations, kernel = (1,) * rank, list(w.type.shape[2:])
    # [C, O/g, K...] -> [g * O/g, C/g, K...]
    w = graphs.reshape(w, (groups, inputs // groups, per_group, *kernel))
    w = graphs.transpose(w, [0, 2, 1, *range(3, rank + 3)])
    w = graphs.reshape(w, (outputs, inputs // groups, *kernel))
    taps = [-(-k // s) for k, s in zip(kernel, strides)]
    reach = [(t - 1) * d for t, d in zip(taps, dilations)]
    # Enough input behind the end that every phase reaches the last wanted position.
    behind = [max(0, -(-m // s) - n) for m, s, n in zip(least, strides, x.type.shape[2:])]
    padded = graphs.pad(x, (0, 0, *reach), (0, 0, *behind))
    if apart and any(k % s for k, s in zip(kernel, strides)):
        return _phases_apart(padded, w, strides, dilations, groups, reach)
    w = graphs.pad(w, (0,) * (rank + 2), (0, 0, *(t * s - k for t, s, k in zip(taps, strides, kernel))))
    phases = []
    for phase in product(*(range(s) for s in strides)):
        sub = graphs.part(w, (0, 0, *phase), (*w.type.shape[:2], *taps), (1, 1, *strides))
        phases.append(graphs.flip(sub, range(2, rank + 2)))
    weights = phases[0]
    if len(phases) > 1:
        one = (outputs, 1, inputs // groups, *taps)
        stacked = graphs.concat([graphs.reshape(p, one) for p in phases], 1)
        weights = graphs.reshape(stacked, (outputs * len(phases), inputs // groups, *taps))
    y = node("conv", padded, weights, strides=(1,) * rank, dilations=tuple(dilations), groups=groups)
    return _interleaved(y, outputs, strides)


def _phases_apart(
    padded: Node, w: Node, strides: Sequence[int], dilations: Sequence[int], groups: int, reach: Sequence[int]
) -> Node:
    """A convolution of [N, C, reach + A..] for each phase of the weights [O, C/g, K..], side by side."""
    batch, _, *there = padded.type.shape
    extents = [n - r for n, r in zip(there, reach)]
    made = {}
    for phase in product(*(range(s) for s in strides)):
        taps = [-(-(k - p) // s) for k, p, s in zip(w.type.shape[2:], phase, strides)]
        if not all(taps):
            made[phase] = graphs.full(0, padded.type.dtype, (batch, w.type.shape[0], *extents))
            continue
        sub = graphs.part(w, (0, 0, *phase), (*w.type.shape[:2], *taps), (1, 1, *strides))
        own = [(t - 1) * d for t, d in zip(taps, dilations)]
        begin = (0, 0, *(r - o for r, o in zip(reach, own)))
        seen = graphs.part(padded, begin, (*padded.type.shape[:2], *(a + o for a, o in zip(extents, own))))
        flipped = graphs.flip(sub, range(2, w.type.rank))
        made[phase] = node("conv", seen, flipped, strides=(1,) * len(taps), dilations=tuple(dilations), groups=groups)
    return graphs.interleaved(made, strides, 2)


def _interleaved(y: Node, outputs: Extent, strides: Sequence[int]) -> Node:
    """[N, O*S.., A..] -> [N, O, A*S..]: the phases side by side."""
    rank = len(strides)
    if prod(strides) == 1:
        return y
    batch, _, *space = y.type.shape
    split = graphs.reshape(y, (batch, outputs, *strides, *space))
    perm = [0, 1] + [axis for d in range(rank) for axis in (2 + rank + d, 2 + d)]
    return graphs.reshape(graphs.transpose(split, perm), (batch, outputs, *(a * s for a, s in zip(space, strides))))

"""Reductions over whole dimensions and over windows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

import numpy as np

from edgec.errors import ModelError
from edgec.ir.expr import Expr
from edgec.ir.graph import Formula, Node, constant
from edgec.ir.registry import Tensor, adjoint, compute, node, op, over, reduce_over
from edgec.ops import graphs
from edgec.ops.contraction import window_extent

Sizes = tuple[int, ...]


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


@adjoint("reduce")
def _reduce_back(n: Node, g: Node, k: int) -> Node:
    """The gradient for every term; several greatest (or least) elements share it evenly, as in torch."""
    (x,) = n.args
    shape, axes = x.type.shape, n.attributes["axes"]
    if n.attributes["combine"] == "add":
        return graphs.broadcast(g, shape)
    if n.attributes["combine"] == "mul":
        return node("mul", g, _product_of_others(x, axes))
    is_extreme = node("eq", x, n)
    count = graphs.total(node("cast", is_extreme, to=x.type.dtype), axes)
    return node("select", is_extreme, node("div", g, count), graphs.number(0, x.type.dtype))


def _product_of_others(x: Node, axes: tuple[int, ...]) -> Node:
    """For every element the product of all others that it is multiplied with: exact where some are zero, too."""
    kept = [d for d in range(x.type.rank) if d not in axes]
    perm = [*kept, *axes]
    moved = graphs.transpose(x, perm)
    shape = [x.type.shape[d] for d in kept]
    lines = graphs.reshape(moved, (*shape, graphs.elements([x.type.shape[d] for d in axes])))
    before, after = (
        node("prefix", lines, combine="mul", axis=len(kept), exclusive=True, reverse=reverse)
        for reverse in (False, True)
    )
    others = graphs.reshape(node("mul", before, after), moved.type.shape)
    return graphs.transpose(others, [perm.index(d) for d in range(len(perm))])


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


@adjoint("pool")
def _pool_back(n: Node, g: Node, k: int) -> Node:
    """Of a sum the gradient for every term; of several greatest (or least) elements the first has it, as in torch."""
    combine, (x,) = n.attributes["combine"], n.args
    if combine not in ("add", "max", "min"):
        raise ModelError(f"pools by '{combine}' have no derivative")
    if 0 in n.type.shape:
        return graphs.full(0, x.type.dtype, x.type.shape)
    kernel, strides, dilations = (n.attributes[name] for name in ("kernel", "strides", "dilations"))
    if combine == "add":
        found = _spread_over_windows(g, kernel, strides, dilations)
    elif strides == kernel and set(dilations) == {1}:
        found = _first_apart(n, g, kernel)
    else:
        found = _first_overlapping(n, g, kernel, strides, dilations)
    after = [extent - reached for extent, reached in zip(x.type.shape, found.type.shape)]
    return graphs.pad(found, (0,) * x.type.rank, after)


def _spread_over_windows(g: Node, kernel: Sizes, strides: Sizes, dilations: Sizes) -> Node:
    """For every element the sum of ``g`` over the windows that it is in: again a pool, of ``g`` with gaps."""
    lead = g.type.rank - len(kernel)
    for d, (size, stride, dilation) in enumerate(zip(kernel, strides, dilations)):
        if size == stride and dilation == 1:
            g = _repeated(g, lead + d, size)
    windows = [(1, 1, 1) if k == s and d == 1 else (k, s, d) for k, s, d in zip(kernel, strides, dilations)]
    kernel, strides, dilations = (tuple(sizes) for sizes in zip(*windows))
    if set(kernel) == {1}:
        return graphs.spread(g, (*(1,) * lead, *strides))
    around = (*(0,) * lead, *((k - 1) * d for k, d in zip(kernel, dilations)))
    g = graphs.pad(graphs.spread(g, (*(1,) * lead, *strides)), around, around)
    return node("pool", g, combine="add", kernel=kernel, strides=(1,) * len(kernel), dilations=dilations)


def _repeated(x: Node, axis: int, count: int) -> Node:
    """Every element along ``axis`` so many times."""
    before, after = x.type.shape[: axis + 1], x.type.shape[axis + 1 :]
    wide = graphs.broadcast(graphs.reshape(x, (*before, 1, *after)), (*before, count, *after))
    return graphs.reshape(wide, (*before[:-1], before[-1] * count, *after))


def _first_apart(n: Node, g: Node, kernel: Sizes) -> Node:
    """The gradient where the first extreme of a window is, for windows that lie side by side."""
    (x,) = n.args
    lead, space = n.type.shape[: -len(kernel)], n.type.shape[-len(kernel) :]
    covered = graphs.part(x, (0,) * x.type.rank, (*lead, *(p * k for p, k in zip(space, kernel))))
    axes = tuple(len(lead) + 2 * d + 1 for d in range(len(kernel)))
    split = graphs.reshape(covered, (*lead, *(e for pair in zip(space, kernel) for e in pair)))
    one = (*lead, *(e for p in space for e in (p, 1)))
    numbers = _numbers(split.type.rank, axes, kernel)
    nothing = graphs.number(prod(kernel), "i32")
    is_extreme = node("eq", split, graphs.reshape(n, one))
    first = node("reduce", node("select", is_extreme, numbers, nothing), combine="min", axes=axes)
    zero = graphs.number(0, g.type.dtype)
    return graphs.reshape(node("select", node("eq", numbers, first), graphs.reshape(g, one), zero), covered.type.shape)


def _numbers(rank: int, axes: Sequence[int], kernel: Sizes) -> Node:
    """The number of every element of a window, whose dimensions are ``axes``."""
    shape = [1] * rank
    for axis, size in zip(axes, kernel):
        shape[axis] = size
    return constant(np.arange(prod(kernel), dtype=np.int32).reshape(shape))


def _first_overlapping(n: Node, g: Node, kernel: Sizes, strides: Sizes, dilations: Sizes) -> Node:
    """The same for windows of any kind: for every element the sum over the windows whose first extreme it is.

    Element p * stride + tap * dilation belongs to a phase of the stride; of each phase a tap is a shift of the windows.
    """
    (x,) = n.args
    lead = n.type.rank - len(kernel)
    head, space = n.type.shape[:lead], n.type.shape[lead:]
    taps = list(enumerate(product(*(range(size) for size in kernel))))
    first = graphs.number(-1, "i32")
    for number, tap in reversed(taps):
        starts = (*(0,) * lead, *(t * d for t, d in zip(tap, dilations)))
        element = graphs.part(x, starts, n.type.shape, (*(1,) * lead, *strides))
        first = node("select", node("eq", element, n), graphs.number(number, "i32"), first)
    reach = [(size - 1) * d // s for size, s, d in zip(kernel, strides, dilations)]
    around = (*(0,) * lead, *reach)
    first, g = graphs.pad(first, around, around, -1), graphs.pad(g, around, around)
    shape, zero = (*head, *(p + r for p, r in zip(space, reach))), graphs.number(0, g.type.dtype)
    phases: dict[tuple[int, ...], list[Node]] = {p: [] for p in product(*(range(s) for s in strides))}
    for number, tap in taps:
        offsets = [t * d for t, d in zip(tap, dilations)]
        starts = (*(0,) * lead, *(r - o // s for r, o, s in zip(reach, offsets, strides)))
        is_first = node("eq", graphs.part(first, starts, shape), graphs.number(number, "i32"))
        term = node("select", is_first, graphs.part(g, starts, shape), zero)
        phases[tuple(o % s for o, s in zip(offsets, strides))].append(term)
    empty = graphs.full(0, g.type.dtype, shape)
    return graphs.interleaved({p: graphs.added(terms or [empty]) for p, terms in phases.items()}, strides, lead)

"""Small graphs of core operators that adjoints are made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from math import prod

import numpy as np

from edgec.ir.dtypes import DTYPES
from edgec.ir.expr import Extent, plain
from edgec.ir.graph import Node, constant
from edgec.ir.registry import node

Shape = Sequence[Extent]


def number(value: float, dtype: str) -> Node:
    return constant(np.array(value, DTYPES[dtype]))


def full(value: float, dtype: str, shape: Shape) -> Node:
    return broadcast(number(value, dtype), shape)


def broadcast(x: Node, shape: Shape) -> Node:
    return x if x.type.shape == tuple(shape) else node("broadcast", x, shape=shape)


def reshape(x: Node, shape: Shape) -> Node:
    shape = tuple(plain(extent) for extent in shape)
    return x if x.type.shape == shape else node("reshape", x, shape=shape)


def transpose(x: Node, perm: Sequence[int]) -> Node:
    return x if list(perm) == sorted(perm) else node("transpose", x, perm=perm)


def total(x: Node, axes: Iterable[int]) -> Node:
    """Sum over ``axes``, which stay as extent 1; in the order in which they stand."""
    axes = tuple(sorted(a for a in axes if x.type.shape[a] != 1))
    return node("reduce", x, combine="add", axes=axes) if axes else x


def totaled(g: Node, shape: Shape) -> Node:
    """The sum of ``g`` over all dimensions along which ``shape`` was broadcast to it."""
    lead = g.type.rank - len(shape)
    repeated = (d for d, n in enumerate(g.type.shape) if d < lead or (shape[d - lead] == 1 and n != 1))
    return reshape(total(g, repeated), shape)


def part(x: Node, starts: Shape, shape: Shape, steps: Sequence[int] | None = None) -> Node:
    """x[starts + steps * i] for i inside ``shape``."""
    steps = steps or (1,) * x.type.rank
    if x.type.shape == tuple(shape) and set(steps) <= {1}:
        return x
    return node("slice", x, starts=starts, steps=steps, shape=shape)


def flip(x: Node, axes: Iterable[int]) -> Node:
    """x with the elements along ``axes`` in reverse."""
    turned = {a for a in axes if x.type.shape[a] != 1}
    if not turned or 0 in x.type.shape:
        return x
    starts = [n - 1 if d in turned else 0 for d, n in enumerate(x.type.shape)]
    steps = [-1 if d in turned else 1 for d in range(x.type.rank)]
    return node("slice", x, starts=starts, steps=steps, shape=x.type.shape)


def pad(x: Node, before: Shape, after: Shape, value: float = 0.0) -> Node:
    """``value`` around x; a negative amount crops."""
    shape = x.type.shape
    if any(not isinstance(p, int) or p < 0 for p in (*before, *after)):
        starts = [max(-b, 0) for b in before]
        x = part(x, starts, [n - s - max(-a, 0) for n, s, a in zip(shape, starts, after)])
        before, after = [max(b, 0) for b in before], [max(a, 0) for a in after]
    if all(isinstance(p, int) and p == 0 for p in (*before, *after)):
        return x
    return node("pad", x, before=before, after=after, value=value)


def spread(x: Node, steps: Sequence[int]) -> Node:
    """Zeros between the elements of every dimension, so that they lie ``steps`` apart."""
    for axis, step in enumerate(steps):
        shape = x.type.shape
        if step == 1 or shape[axis] == 1 or shape[axis] == 0:
            continue
        wide = reshape(x, (*shape[: axis + 1], 1, *shape[axis + 1 :]))
        after = [step - 1 if d == axis + 1 else 0 for d in range(len(shape) + 1)]
        wide = reshape(pad(wide, (0,) * len(after), after), (*shape[:axis], shape[axis] * step, *shape[axis + 1 :]))
        x = part(wide, (0,) * len(shape), [(n - 1) * step + 1 if d == axis else n for d, n in enumerate(shape)])
    return x


def concat(parts: Sequence[Node], axis: int) -> Node:
    return parts[0] if len(parts) == 1 else node("concat", *parts, axis=axis)


def added(terms: Sequence[Node]) -> Node:
    """The sum of values of one type; by halves, so that it is no deeper than it must."""
    if len(terms) == 1:
        return terms[0]
    middle = len(terms) // 2
    return node("add", added(terms[:middle]), added(terms[middle:]))


def interleaved(phases: Mapping[tuple[int, ...], Node], steps: Sequence[int], lead: int) -> Node:
    """Values side by side: the one of phase p, {p: value}, gives every element p + steps * i of the trailing
    dimensions. All have one type; there is one for every phase."""
    ordered = [phases[p] for p in product(*(range(s) for s in steps))]
    if len(ordered) == 1:
        return ordered[0]
    head, space = ordered[0].type.shape[:lead], ordered[0].type.shape[lead:]
    stacked = concat([reshape(x, (*head, 1, *space)) for x in ordered], lead)
    split = reshape(stacked, (*head, *steps, *space))
    count = len(steps)
    perm = [*range(lead), *(axis for d in range(count) for axis in (lead + count + d, lead + d))]
    return reshape(transpose(split, perm), (*head, *(n * s for n, s in zip(space, steps))))


def elements(shape: Shape) -> Extent:
    return plain(prod(shape))


def extents(shape: Shape, dtype: str) -> Node:
    """A shape as a row of numbers."""
    if all(isinstance(extent, int) for extent in shape):
        return constant(np.array(shape, DTYPES[dtype]))
    sizes = [reshape(node("cast", node("size", value=extent), to=dtype), (1,)) for extent in shape]
    return concat(sizes, 0)


def clamped(positions: Node, shape: Shape) -> Node:
    """Positions as reading takes them: the nearest one inside, where the last dimension counts along ``shape``."""
    end = extents(shape, positions.type.dtype)
    one = number(1, positions.type.dtype)
    return node("max", node("min", positions, node("sub", end, one)), node("neg", end))


def inside(positions: Node, shape: Shape) -> Node:
    """Truth values: the positions that writing takes."""
    end = extents(shape, positions.type.dtype)
    return node("and", node("ge", positions, node("neg", end)), node("lt", positions, end))

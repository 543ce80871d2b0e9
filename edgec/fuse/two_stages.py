"""Reductions to few results in two stages: partial results that a whole device computes, then theirs.

One thread of a processor, or one thread block of a GPU, computes a result, or what is made of it along the same row. A
mean over a whole picture would leave all others idle, as would the normalization of a whole layer. Here the terms are
divided along a dimension: the partial results are as many as keep every thread busy, and a second, short reduction
combines them. Whether that pays is a choice by price: it has one more kernel, and what was one kernel along a row is
several.

Means of channels have results for all threads of a processor. But what is before them, and behind them in networks that
weigh channels by such a mean, is divided by rows of the picture: a thread that adds up some channels reads what others
have just written. Partial sums of rows are added up where the rows are.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import partial
from math import ceil, log2, prod
from typing import NamedTuple

import numpy as np

from edgec import ops
from edgec.fuse import classify
from edgec.fuse.block import Block, Composer
from edgec.fuse.choice import BlockCosts, Choice
from edgec.fuse.cost_model import CostModel
from edgec.fuse.kind import kind_of
from edgec.ir import expr as X
from edgec.ir.expr import Extent
from edgec.ir.functions import FUNCTIONS
from edgec.ir.graph import Graph, Node, constant, rewrite
from edgec.ir.types import DTYPES, is_float
from edgec.ops import formula
from edgec.rewrite.facts import is_static

#: Partial results for each thread of a processor at best: even shares where lanes run along them. A thread block of a
#: GPU computes one, and half of the multiprocessors are enough.
EACH, HALF = 32, 2
#: Partial results of one result at most, and terms of a partial result at least.
MOST, TERMS = 4096, 32
#: Elements that a thread block of a GPU loads before it waits for them.
LOADED = 1024
#: Operations of a function that is not free to be repeated.
COSTLY = 8
#: Most operators that are passed in the search for a reshape.
REACH = 32
AT_ONCE, IN_TWO = "at once", "in two stages"

Shape = tuple[Extent, ...]
#: Of a reshape: before and after.
Shapes = tuple[Shape, Shape]


class Parts(NamedTuple):
    """Partial results of a reduction: the fewest that pay, times that is best, and whether each has several rows."""

    fewest: int
    each: int
    in_rows: bool = False


def in_two_stages(graph: Graph, prices: BlockCosts, units: int) -> tuple[Graph, list[Choice]]:
    """The graph with reductions in two stages where ``units`` compute them sooner, and the choices about them.

    The units of a device are the threads of a processor, or the multiprocessors of a GPU.
    """
    if units == 1 or not isinstance(prices.model, CostModel):
        return graph, []
    parts = Parts(-(-units // HALF), HALF) if prices.model.on_gpu else Parts(units, EACH)
    model = partial(_seconds, prices.model, units)
    own = replace(prices, model=model, measured=lambda _: None, unknown={}, estimated={})
    users, choices = graph.users(), list[Choice]()
    taken: set[Node] = set()
    shapes: set[Shapes] = set()
    for row in _rows(graph, units, prices.model.on_gpu):
        variants: dict[str, list[Block]] = {AT_ONCE: [], IN_TWO: []}
        for node in row:
            x, found = node.args[0], _divided(_on(_source(node.args[0]), node), _parts_of(node, parts, units))
            is_again = len(users[x]) > 1 and _is_costly(x) and not _is_of_channels(node, units)
            if found is None or (is_again and units <= 2 * node.type.elements):
                break  # what is computed twice by all would take as long as once by few
            variants[AT_ONCE].append(_block(node))
            variants[IN_TWO] += map(_block, found[:2])
        else:
            choices.append(own.choose("stages", row[-1], variants))
            if choices[-1].taken.name == IN_TWO:
                taken.update(row)
                shapes.update((_source(n.args[0]).type.shape, n.args[0].type.shape) for n in row)
    return (_rebuilt(graph, taken, shapes, parts, units) if taken else graph), choices


def _rows(graph: Graph, units: int, on_gpu: bool) -> list[list[Node]]:
    """Reductions to fewer results than units, those of one row together: one depends on another and has its terms.

    On a processor sums of channels too, each by itself.
    """
    rows: dict[Node, list[Node]] = {}
    for node in graph.operations():
        if not on_gpu and _is_of_channels(node, units):
            rows[node] = [node]
        if not _is_alone(node, units):
            continue
        shapes, stack, seen = (node.type.shape, node.args[0].type.shape), [node.args[0]], set[Node]()
        while stack and len(seen) < REACH:
            n = stack.pop()
            if n in rows and n.attributes["axes"] == node.attributes["axes"] and n.args[0].type.shape == shapes[1]:
                rows[node] = rows[n]
                break
            if n not in seen and n.type.shape in shapes:
                seen.add(n)
                stack += n.args
        rows.setdefault(node, []).append(node)
    return [*{id(row): row for row in rows.values()}.values()]


def _rebuilt(graph: Graph, taken: Collection[Node], shapes: Collection[Shapes], parts: Parts, units: int) -> Graph:
    """The graph with ``taken`` in two stages. What was reshaped for them, of ``shapes``, is computed as it was before:
    its dimensions are then those of its readers."""

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        if old in taken:
            x = args[0].args[0] if _is_reshaped(args[0], shapes) else args[0]
            found = _divided(_on(x, old), _parts_of(old, parts, units))
            assert found is not None
            return _shaped(found[-1], old.type.shape)
        if old.op == "reshape" and args[0].op == "reshape" and args != old.args:
            return _shaped(args[0].args[0], old.type.shape)
        reshaped = [a for a in args if _is_reshaped(a, shapes)]
        if reshaped and classify.is_elementwise(old):
            before = reshaped[0].args[0].type.shape
            own = [_in_shape(a, before, old.type.shape, shapes) for a in args]
            if None not in own:
                made = ops.node(old.op, *(a for a in own if a is not None), **old.attributes)
                return _shaped(made, old.type.shape)
        return old if args == old.args else ops.node(old.op, *args, **old.attributes)

    return rewrite(graph, change, within=True)


def _is_reshaped(node: Node, shapes: Collection[Shapes]) -> bool:
    return node.op == "reshape" and (node.args[0].type.shape, node.type.shape) in shapes


def _in_shape(node: Node, before: Shape, after: Shape, shapes: Collection[Shapes]) -> Node | None:
    """An operand of an element-wise operator as it is before the reshape of all; None where it has no such form."""
    if _is_reshaped(node, shapes) and node.args[0].type.shape == before and node.type.shape == after:
        return node.args[0]
    return _shaped(node, (1,) * len(before)) if node.type.is_fixed and node.type.elements == 1 else None


def _shaped(node: Node, shape: Shape) -> Node:
    return node if node.type.shape == shape else ops.node("reshape", node, shape=shape)


def _is_alone(node: Node, units: int) -> bool:
    """Is a node a reduction, of sizes that are known, to fewer results than there are units?"""
    if node.op != "reduce" or not node.args[0].type.is_fixed or is_static(node):
        return False
    return node.type.elements < units


def _is_of_channels(node: Node, units: int) -> bool:
    """Is a node a sum of each channel of a picture that a window over each channel made, to a result for all units?"""
    if node.op != "reduce" or node.attributes["combine"] != "add" or not is_float(node.type.dtype):
        return False
    x = node.args[0]
    if not x.type.is_fixed or node.attributes["axes"] != (*range(2, x.type.rank),) or x.type.rank < 4:
        return False
    if node.type.elements < units or node.type.elements != x.type.bounds[1]:
        return False
    for _ in range(REACH):
        if x.op == "pool" or (x.op == "conv" and x.attributes["groups"] == node.type.elements):
            return True
        alike = [a for a in x.args if not a.is_const and a.type.shape == x.type.shape]
        if not alike or not classify.is_elementwise(x):
            return False
        x = alike[0]
    return False


def _parts_of(node: Node, parts: Parts, units: int) -> Parts:
    """The partial results of a reduction: of a sum of channels, parts of each for all units, in whole rows.

    Several of them are one: terms of a single row would be neighbors in memory, and channels lie apart then.
    """
    return Parts(units * node.type.elements, parts.each, True) if _is_of_channels(node, units) else parts


def _source(x: Node) -> Node:
    """The value of which ``x``, or an operand of as many elements of the element-wise operators before it, is a
    reshape; ``x`` itself where nothing is reshaped."""
    node = x
    for _ in range(REACH):
        if node.op == "reshape":
            return node.args[0] if node.args[0].type.is_fixed else x
        alike = [a for a in node.args if not a.is_const and a.type.shape == x.type.shape]
        if not alike or not classify.is_elementwise(node):
            break
        node = alike[0]
    return x


def _is_costly(node: Node) -> bool:
    """Is each element computed by a function that should not be repeated for nothing?"""
    if not node.args or not classify.is_elementwise(node):
        return False
    return any(FUNCTIONS[e.op].flops >= COSTLY for e in X.walk(formula(node).body) if e.op in FUNCTIONS)


def _on(x: Node, node: Node) -> Node:
    """The reduction ``node`` on ``x``, of the dimensions that a reshape made the reduced ones; on its own operand where
    they are not whole dimensions of ``x``."""
    shape, bounds = node.args[0].type.bounds, x.type.bounds
    if shape == bounds:
        return ops.node("reduce", x, **node.attributes)
    axes: list[int] = []
    for axis in node.attributes["axes"]:
        before, extent = prod(shape[:axis]), shape[axis]
        first = next((d for d in range(len(bounds)) if prod(bounds[:d]) == before and bounds[d] > 1), None)
        last = next((d for d in range(len(bounds)) if prod(bounds[: d + 1]) == before * extent), None)
        if first is None or last is None:
            return ops.node("reduce", node.args[0], **node.attributes)
        axes += range(first, last + 1)
    return ops.node("reduce", x, combine=node.attributes["combine"], axes=tuple(sorted({*axes})))


def _seconds(model: CostModel, units: int, block: Block) -> float:
    """Seconds of a reduction of which each result is the work of one of ``units``."""
    results, device = block.output.type.elements, model.device
    if device is None or not model.on_gpu:
        is_across = _is_of_channels(block.nodes[0], units)
        seconds = model.rates.launch + model.barrier + max(model.limits(block)) / min(units, results)
        return seconds + is_across * model.exchange(block.nodes[0].args[0].type.bytes, units)
    rounds = ceil(block.nodes[0].args[0].type.elements / results / LOADED) * ceil(results / units)
    waiting = rounds * device.costs.tensor_tile.copy_latency / (device.gpu.clock_mhz * 1e6)
    return model.rates.launch + max(waiting, model.limits(block)[1])


def _block(node: Node) -> Block:
    """The kernel of a reduction, with the scaling of its result."""
    nodes = (node,) if node.op == "reduce" else (node.args[0], node)
    derived = Composer().compose(node, nodes.__contains__)
    return Block(node, nodes, derived, kind_of(derived))


def _divided(node: Node, parts: Parts) -> tuple[Node, Node, Node] | None:
    """A reduction in two: that to partial results, that of these, and the latter in the type of ``node``.

    Partial results keep the outermost of the reduced dimensions, or equal parts of one; None where they would be too
    many or too few. The terms of one are neighbors where that is possible: memory is read from its beginning to its
    end, a thread block of a GPU loads whole lines, and what computes such a row already adds it up.
    """
    (x,), axes, bounds = node.args, node.attributes["axes"], node.args[0].type.bounds
    terms, fewest = prod(bounds[d] for d in axes), -(-parts.fewest // node.type.elements)
    most = min(MOST, terms // TERMS)
    if is_float(node.type.dtype) and DTYPES[node.type.dtype].itemsize < 4:
        x = ops.node("cast", x, to="f32")
    whole = [axes[:k] for k in range(1, len(axes))] + [(d,) for d in axes[1:] if len(axes) > 1]
    kept = [part for part in whole if fewest <= prod(bounds[d] for d in part) <= most and not parts.in_rows]
    cut = [(d, most) for d in axes] if not parts.in_rows else [(axes[0], min(most, bounds[axes[0]] // 2))]
    first = next(((d, n) for d, limit in cut if (n := _equal(bounds[d], fewest, limit, parts.each)) is not None), None)
    in_rows = [part for part in kept if part == axes[: len(part)]]
    if in_rows or (kept and (first is None or first[0] != axes[0])):
        distances = {part: abs(prod(bounds[d] for d in part) - parts.each * fewest) for part in kept}
        best = min(in_rows or kept, key=lambda part: distances[part])
        inner, outer = tuple(d for d in axes if d not in best), best
    elif first is None:
        return None
    else:
        axis, count = first
        x = ops.node("reshape", x, shape=(*bounds[:axis], count, bounds[axis] // count, *bounds[axis + 1 :]))
        inner, outer = tuple(d + (d >= axis) for d in axes), (axis,)
    combine = node.attributes["combine"]
    partials = ops.node("reduce", x, combine=combine, axes=inner)
    if combine != "add" or not is_float(partials.type.dtype):
        second = ops.node("reduce", partials, combine=combine, axes=outer)
        return partials, second, second
    # Stored as means, or nearly so, they are in the range of their terms, where devices store 16 bits.
    scale = 2.0 ** round(log2(x.type.elements / partials.type.elements))
    partials = ops.node("mul", partials, constant(np.array(1 / scale, DTYPES[partials.type.dtype])))
    second = ops.node("reduce", partials, combine="add", axes=outer)
    result = ops.node("mul", second, constant(np.array(scale, DTYPES[partials.type.dtype])))
    return (
        partials,
        second,
        result if result.type.dtype == node.type.dtype else ops.node("cast", result, to=node.type.dtype),
    )


def _equal(extent: int, fewest: int, most: int, each: int) -> int | None:
    """The number of equal parts of a dimension, nearest to that which keeps every unit busy."""
    divisors = [d for d in range(fewest, min(extent, most) + 1) if extent % d == 0]
    return min(divisors, key=lambda d: (abs(d - each * fewest), d), default=None)

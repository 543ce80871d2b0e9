"""Layouts: which dimension of each buffer lies innermost, chosen for the kernels that write and read it.

The graph is logical; a layout is a property of a buffer alone. Values that live inside another (``Placement``) share
its layout. Inputs and outputs keep the caller's row-major order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import prod

from edgec.fuse import Block, Plan
from edgec.ir import expr as X
from edgec.ir.graph import Node
from edgec.schedule.program import Buffer, View


def root_of(node: Node, plan: Plan) -> tuple[Node, tuple[int, ...]]:
    """The value that owns the memory ``node`` lies in, and where inside it."""
    offset = (0,) * node.type.rank
    while node in plan.placements:
        place = plan.placements[node]
        offset = tuple(a + b for a, b in zip(offset, place.offset))
        node = place.parent
    return node, offset


def innermost_dimensions(plan: Plan) -> dict[Node, int]:
    """For every owner of memory, the dimension that should be contiguous."""
    fixed = {n for _, n in plan.outputs} | set(plan.graph.inputs)
    votes: dict[Node, Counter[int]] = {}

    def vote(node: Node, dimension: int, weight: int = 1) -> None:
        root, _ = root_of(node, plan)
        votes.setdefault(root, Counter())[dimension] += weight

    for block in plan.blocks:
        for node, dimension in _wishes(block):
            vote(node, dimension, node.type.elements)
    # Blocks without a wish pass on their neighbors', so that lanes run along one dimension through all of them.
    for order in (plan.blocks, tuple(reversed(plan.blocks)), plan.blocks):
        for block in order:
            _propagate(block, plan, votes, fixed)
    return {
        root: (root.type.rank - 1 if root in fixed or root.op in ("input", "const") else _winner(count, root))
        for root, count in votes.items()
    }


def _winner(count: Counter[int], root: Node) -> int:
    return max(sorted(count), key=lambda d: (count[d], d))


def _wishes(block: Block) -> list[tuple[Node, int]]:
    """(value, dimension) pairs: what this block would like to find contiguous."""
    wishes: list[tuple[Node, int]] = []
    channel_last = any(n.op in ("conv", "pool") for n in block.nodes)
    output = block.output
    if channel_last and output.type.rank >= 3:
        anchor = next(n for n in block.nodes if n.op in ("conv", "pool"))
        if output.type.shape == anchor.type.shape:
            wishes.append((output, 1))
        for load in X.loads(block.formula.body):
            node = load.value
            few = node.type.rank < 3 or node.type.shape[1] < 8  # as good as broadcast from rows as they are
            if not node.is_const and not few and node.type.rank == anchor.type.rank:
                wishes.append((node, 1))
        return wishes
    for node in block.nodes:
        if node.op == "reduce":
            axes = node.attributes["axes"]
            rank = node.args[0].type.rank
            if rank - 1 in axes and rank > 1 and not (rank >= 3 and set(axes) == set(range(2, rank))):
                wishes += [(i, rank - 1) for i in block.inputs if i.type.rank == rank and not i.is_const]
    if any(n.op == "matmul" for n in block.nodes) and output.op == "matmul":
        wishes.append((output, output.type.rank - 1))
    return wishes


def _propagate(block: Block, plan: Plan, votes: dict[Node, Counter[int]], fixed: set[Node]) -> None:
    shape = block.output.type.shape
    if len(shape) < 3 or block.kind in ("contract", "window"):
        return
    values = [block.output, *(i for i in block.inputs if i.type.shape == shape and not i.is_const)]
    roots = [root_of(v, plan)[0] for v in values]
    known = [r for r in roots if r in votes and r not in fixed]
    if not known:
        return
    chosen = _winner(votes[known[0]], known[0])
    for r in roots:
        if r not in votes and r.type.rank == len(shape):
            votes[r] = Counter({chosen: 1})


def strides_of(shape: tuple[int, ...], innermost: int) -> tuple[int, ...]:
    """Row-major strides with dimension ``innermost`` moved last."""
    order = [d for d in range(len(shape)) if d != innermost] + ([innermost] if shape else [])
    strides = [0] * len(shape)
    step = 1
    for d in reversed(order):
        strides[d] = step
        step *= shape[d]
    return tuple(strides)


def views_of(plan: Plan, buffer_for: Callable[[Node, int], Buffer]) -> dict[Node, View]:
    """Where every value of a plan lies; ``buffer_for(owner, elements)`` makes the buffers."""
    inner = innermost_dimensions(plan)
    views: dict[Node, View] = {}

    def view(node: Node) -> View:
        if node not in views:
            root, offset = root_of(node, plan)
            shape = root.type.shape
            strides = strides_of(shape, inner.get(root, len(shape) - 1))
            if root is node:
                views[node] = View(buffer_for(node, prod(shape)), shape, strides)
            else:
                start = sum(o * s for o, s in zip(offset, strides))
                views[node] = View(view(root).buffer, node.type.shape, strides, start)
        return views[node]

    for block in plan.blocks:
        view(block.output)
        for i in block.inputs:
            if not i.is_const:
                view(i)
    for _, node in plan.outputs:
        if not node.is_const:
            view(node)
    return views

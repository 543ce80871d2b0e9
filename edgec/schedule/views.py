"""Views: the strides of every value of a plan in its buffer, by the layout that its kernels chose."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

from edgec.fuse import Plan
from edgec.ir import expr as X
from edgec.ir.expr import Extent
from edgec.ir.graph import Node
from edgec.ir.index import upper
from edgec.ir.lanes import NARROWEST
from edgec.schedule.layout import innermost_dimensions
from edgec.schedule.program import Buffer, View


def strides_of(shape: tuple[Extent, ...], innermost: int) -> tuple[Extent, ...]:
    """Row-major strides with dimension ``innermost`` moved last."""
    order = [d for d in range(len(shape)) if d != innermost] + ([innermost] if shape else [])
    strides: list[Extent] = [0] * len(shape)
    step: Extent = 1
    for d in reversed(order):
        strides[d] = step
        step = X.plain(step * shape[d])
    return tuple(strides)


def views_of(plan: Plan, buffer_for: Callable[[Node, int], Buffer], lanes: int = NARROWEST) -> dict[Node, View]:
    """Views of all values of a plan; ``buffer_for(owner, elements)`` makes the buffers, for vectors of ``lanes``."""
    return views_in(plan, buffer_for, innermost_dimensions(plan, lanes))


def views_in(plan: Plan, buffer_for: Callable[[Node, int], Buffer], inner: Mapping[Node, int]) -> dict[Node, View]:
    """Views of all values of a plan, by the contiguous dimension of each owner of memory: the last by default."""
    outside = {*plan.graph.inputs, *(n for _, n in plan.outputs)}
    called = (n for b in plan.blocks if b.is_procedure for n in (b.output, *b.inputs))
    dense_roots = outside | {plan.root_of(n)[0] for n in called}
    views: dict[Node, View] = {}

    def view(node: Node) -> View:
        if node not in views:
            root, offset = plan.root_of(node)
            # What callers and procedures see is dense; all else lies as for the largest sizes: steps are numbers then.
            shape = root.type.shape if root in dense_roots else root.type.bounds
            if root in plan.halos:
                shape = tuple(map(upper, plan.halos[root].around(shape)))
                offset = tuple(X.plain(b + o) for b, o in zip(plan.halos[root].before, offset))
            strides = strides_of(shape, inner.get(root, len(shape) - 1))
            start = X.plain(sum(o * s for o, s in zip(offset, strides)))
            buffer = buffer_for(node, upper(X.plain(prod(shape)))) if root is node else view(root).buffer
            views[node] = View(buffer, node.type.shape, strides, start)
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

"""Bytes that every kernel, the whole network and the unfused graph read and write, and a lower bound of them.

An element counts once for a kernel, however often its windows, sums or broadcasts return to it (`edgec.ir.footprint`);
what a kernel reads again because a cache was too small is not counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from edgec.fuse import Block, Halo, Plan
from edgec.fuse import plan as plan_graph
from edgec.ir import expr as X
from edgec.ir.footprint import footprint
from edgec.ir.graph import Graph, Node
from edgec.ir.index import upper
from edgec.ir.types import DTYPES
from edgec.schedule.program import Kernel


@dataclass(frozen=True)
class Moved:
    """Bytes read and written."""

    read: int
    written: int

    @property
    def together(self) -> int:
        return self.read + self.written


def total(parts: Iterable[Moved]) -> Moved:
    found = tuple(parts)
    return Moved(sum(m.read for m in found), sum(m.written for m in found))


def of_block(block: Block) -> Moved:
    """A block by itself."""
    return Moved(sum(_reads(block).values()), int(block.output.type.bytes))


def of_kernel(kernel: Kernel) -> Moved:
    """A kernel: its blocks, what one step hands on to the next included, and the borders that it fills."""
    filled = sum(s.schedule.halo_bytes for s in kernel.steps)
    inside = total(of_block(s.block) for s in kernel.steps if s.block is not None)
    return Moved(inside.read, inside.written + filled)


def of_plan(plan: Plan) -> Moved:
    """A whole network: its blocks, and the borders of padded buffers."""
    borders = sum(_around(root, halo) for root, halo in plan.halos.items())
    inside = total(map(of_block, plan.blocks))
    return Moved(inside.read, inside.written + borders)


def _around(root: Node, halo: Halo) -> int:
    """Bytes of a halo."""
    elements = upper(X.plain(prod(halo.around(root.type.shape))))
    return elements * DTYPES[root.type.dtype].itemsize - int(root.type.bytes)


def unfused(graph: Graph) -> Moved:
    """The graph with a kernel for every operator of the model (`--fuse operators`)."""
    return of_plan(plan_graph(graph, "operators"))


def least(plan: Plan) -> Moved:
    """Bytes of the inputs and weights that are read and of the outputs, each once: no plan of this graph moves less."""
    read: dict[Node, int] = {}
    for block in plan.blocks:
        for node, n in _reads(block).items():
            if node.op in ("input", "const"):
                read[node] = max(read.get(node, 0), n)
    return Moved(sum(read.values()), sum(n.type.bytes for _, n in plan.outputs))


def _reads(block: Block) -> dict[Node, int]:
    """Bytes read of each operand; a procedure reads its operands whole."""
    if block.is_procedure:
        return {i: int(i.type.bytes) for i in block.inputs}
    return {node: _bytes(node, n) for node, n in footprint(block.formula).items()}


def _bytes(node: Node, elements: int) -> int:
    return int(elements * DTYPES[node.type.dtype].itemsize)

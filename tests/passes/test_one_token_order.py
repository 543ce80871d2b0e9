"""The order of blocks in a plan for one token: earlier where they may be, and everyone reads what it read before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import pytest

from edgec.frontend.states import describe
from edgec.fuse.single import _in_levels
from edgec.ir.expr import Expr
from edgec.ir.graph import Graph, Node, placeholder
from edgec.ir.types import Type

F32 = Type("f32", (4,))


@dataclass(frozen=True)
class Block:
    number: int
    output: Node
    inputs: tuple[Node, ...]


@dataclass(frozen=True)
class Planned:
    """The part of a plan that an order of blocks needs; ``owners`` are of values written in others' memory."""

    graph: Graph
    blocks: tuple[Block, ...]
    owners: Mapping[Node, Node]
    outputs: tuple[tuple[str, Node], ...] = ()
    guards: Mapping[Node, object] = field(default_factory=dict)
    sizes: Mapping[Expr, Node] = field(default_factory=dict)

    def root_of(self, node: Node) -> tuple[Node, tuple[int, ...]]:
        return self.owners.get(node, node), (0,)

    def read(self, memory: Mapping[Node, Node]) -> dict[int, tuple[object, ...]]:
        """By block, the blocks that last wrote to what it reads and to where it writes."""
        written: dict[Node, int] = {}
        found = {}
        for b in self.blocks:
            target, *sources = (memory.get(o, o) for o in (self.owners.get(n, n) for n in (b.output, *b.inputs)))
            found[b.number] = (written.get(target), *(written.get(s) for s in sources))
            written[target] = b.number
        return found


def drawn(seed: int) -> tuple[Planned, dict[Node, Node]]:
    """Blocks that read inputs and results, and write to memory of their own, of another result, or of a state."""
    random = Random(seed)
    state, inputs = placeholder("state", F32), [placeholder(f"x{k}", F32) for k in range(2)]
    values, owners, blocks = [state, *inputs], dict[Node, Node](), list[Block]()
    for k in range(14):
        output = placeholder(f"y{k}", F32)
        reads = tuple(dict.fromkeys(random.choice(values) for _ in range(random.randint(1, 3))))
        if blocks and not random.randrange(3):
            other = random.choice(blocks).output  # what is changed in place is read
            owners[output], reads = owners.get(other, other), tuple(dict.fromkeys((other, *reads)))
        blocks.append(Block(k, output, reads))
        values.append(output)
    kept = blocks[-1].output
    metadata = describe({"state": ("kept", np.zeros(4))})
    graph = Graph((state, *inputs), (("kept", kept),), metadata=metadata)
    return Planned(graph, tuple(blocks), owners, (("kept", kept),)), {owners.get(kept, kept): state}


@pytest.mark.parametrize("seed", range(40))
def test_every_block_reads_what_it_read_before(seed: int) -> None:
    plan, memory = drawn(seed)
    made: Any = plan
    for first in (0, 3):
        found = _in_levels(made, first)
        assert found.blocks[:first] == plan.blocks[:first]
        assert sorted(b.number for b in found.blocks) == [b.number for b in plan.blocks]  # type: ignore[attr-defined]
        assert found.read(memory) == plan.read(memory)  # type: ignore[attr-defined]


def test_blocks_move_ahead_of_those_they_do_not_wait_for() -> None:
    x = placeholder("x", F32)
    a, b, c, d = (placeholder(n, F32) for n in "abcd")
    chain = (Block(0, a, (x,)), Block(1, b, (a,)), Block(2, c, (b,)), Block(3, d, (x,)))
    plan: Any = Planned(Graph((x,), (("c", c), ("d", d))), chain, {}, (("c", c), ("d", d)))
    assert [b.number for b in _in_levels(plan, 0).blocks] == [0, 3, 1, 2]  # type: ignore[attr-defined]
    assert _in_levels(Planned(plan.graph, chain, {}, plan.outputs, {d: True}), 0).blocks == chain  # type: ignore

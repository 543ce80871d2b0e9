"""The plan of a language model for one token: the same network, of which every product has one row."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from edgec.frontend.language.facts import facts_of
from edgec.frontend.states import states
from edgec.fuse.aliasing import Plan
from edgec.fuse.plan import plan
from edgec.ir.graph import Graph, Node
from edgec.ir.sizes import dimensions, with_known_sizes


def one_token(graph: Graph) -> Graph | None:
    """The graph of a language model for runs of one token; None where it is no such model, or always has one."""
    chosen = dimensions(n.type for n in graph.inputs)
    if facts_of(graph) is None or len(chosen) != 1:
        return None
    ((size, dimension),) = chosen.items()
    return with_known_sizes(graph, {size: 1}) if dimension.low == dimension.step == 1 < dimension.high else None


def single_plan(graph: Graph, head: int) -> Plan | None:
    """The plan for one token on a GPU: copies of states come first, and blocks that wait for the same ones lie side by
    side, so that they can share launches."""
    one = one_token(graph)
    if one is None:
        return None
    made = plan(one, gpu=True, head=head, one_row=True, few_bits=True)
    given = set(one.inputs)
    first = [b for b in made.blocks if b.output.op == "copy" and given.issuperset(b.inputs)]
    return _in_levels(replace(made, blocks=(*first, *(b for b in made.blocks if b not in first))), len(first))


def _in_levels(plan: Plan, first: int) -> Plan:
    """The plan with its blocks as early as what they read allows; the ``first`` stay, and so does the order of a level.

    Whoever reads a value that is written in place stays before the writer, and whoever reads the new one behind it.
    """
    if plan.guards or not set(plan.sizes.values()) <= set(plan.graph.inputs):  # they need values that are no operands
        return plan
    inputs = {str(n.attributes["name"]): n for n in plan.graph.inputs}
    outputs = {name: plan.root_of(n)[0] for name, n in plan.outputs}
    memory = {outputs[s.output]: inputs[s.input] for s in states(plan.graph) if s.output in outputs}
    written: dict[Node, int] = defaultdict(int)  # the level behind the last writer, by the owner of the memory
    read: dict[Node, int] = defaultdict(int)
    levels = []

    def owner(node: Node) -> Node:
        root, _ = plan.root_of(node)
        return memory.get(root, root)

    for block in plan.blocks[first:]:
        target, sources = owner(block.output), {owner(n) for n in block.inputs}
        level = max([read[target], *(written[s] for s in sources)])
        levels.append(level)
        written[target] = max(written[target], level + 1)
        for s in sources:
            read[s] = max(read[s], level + 1)
    order = sorted(range(len(levels)), key=levels.__getitem__)
    return replace(plan, blocks=(*plan.blocks[:first], *(plan.blocks[first + k] for k in order)))

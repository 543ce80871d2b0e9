"""The plan of a language model for one token: the same network, of which every product has one row."""

from __future__ import annotations

from dataclasses import replace

from edgec.frontend.language.facts import facts_of
from edgec.fuse.aliasing import Plan
from edgec.fuse.plan import plan
from edgec.ir.graph import Graph
from edgec.ir.sizes import dimensions, with_known_sizes


def one_token(graph: Graph) -> Graph | None:
    """The graph of a language model for runs of one token; None where it is no such model, or always has one."""
    chosen = dimensions(n.type for n in graph.inputs)
    if facts_of(graph) is None or len(chosen) != 1:
        return None
    ((size, dimension),) = chosen.items()
    return with_known_sizes(graph, {size: 1}) if dimension.low == dimension.step == 1 < dimension.high else None


def single_plan(graph: Graph, head: int) -> Plan | None:
    """The plan for one token on a GPU; copies of states come first, so that products lie side by side."""
    one = one_token(graph)
    if one is None:
        return None
    made = plan(one, gpu=True, head=head, one_row=True, few_bits=True)
    given = set(one.inputs)
    first = [b for b in made.blocks if b.output.op == "copy" and given.issuperset(b.inputs)]
    return replace(made, blocks=(*first, *(b for b in made.blocks if b not in first)))

"""Concatenations that contain the parts of others: each contains the other, so that no part has to be copied.

A layer of a dense block (DenseNet) reads all results before it. As one list of parts for each layer, a part can lie in
the buffer of one list only and is copied to all others, a kernel each. Nested, every list is the beginning of the next
one's buffer, and the whole block is written once.
"""

from __future__ import annotations

from edgec import ops
from edgec.ir.graph import Graph, Node, rewrite

#: Concatenations with the same first part that are looked at: the last ones, of which the longest is taken.
CANDIDATES = 4


def with_shared_parts(graph: Graph) -> Graph:
    """The graph with every concatenation in place of its parts inside longer ones along the same axis."""
    known: dict[tuple[int, Node], list[Node]] = {}
    new: dict[Node, Node] = {}

    def longest(old: Node, k: int) -> Node | None:
        """The longest concatenation whose parts are those of ``old`` from ``k`` on."""
        found = known.get((old.attributes["axis"], old.args[k]), [])[-CANDIDATES:]
        fitting = [a for a in found if len(a.args) < len(old.args) and old.args[k : k + len(a.args)] == a.args]
        return max(fitting, key=lambda a: len(a.args), default=None)

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        if old.op != "concat":
            return old if args == old.args else ops.node(old.op, *args, **old.attributes)
        parts: list[Node] = []
        k = 0
        while k < len(args):
            inner = longest(old, k)
            parts.append(args[k] if inner is None else new[inner])
            k += 1 if inner is None else len(inner.args)
        if len(old.args) > 1:
            known.setdefault((old.attributes["axis"], old.args[0]), []).append(old)
        new[old] = old if tuple(parts) == old.args else ops.node("concat", *parts, **old.attributes)
        return new[old]

    if sum(n.op == "concat" for n in graph.nodes()) < 2:
        return graph
    return rewrite(graph, change)

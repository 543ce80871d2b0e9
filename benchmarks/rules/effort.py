"""Cost of a graph, by the same measure for every simplifier.

* operators: nodes of the ONNX file for the others; for edgec, the named operators its graph consists of.
* FLOPs: of the core graph after import, constants computed beforehand.
* bytes: what every operator reads and writes, intermediate results inside one not counted; reshapes move nothing, and a
  slice or a gather reads what it takes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from edgec.ir.graph import Graph, Node
from edgec.rewrite.facts import is_static
from edgec.rewrite.measure import is_widening, measure, read_bytes, stored
from edgec.rewrite.names import cover

#: What moves nothing where it is all an operator does; nor does widening integers, which whoever reads them does.
_VIEWS = frozenset({"reshape"})


@dataclass(frozen=True)
class Effort:
    """The three numbers; less is better."""

    operators: int
    flops: int
    bytes: int


def of_simplified(graph: Graph) -> Effort:
    """edgec's own simplified graph. Constants that it computes anew at every call would count as operators."""
    named = cover(graph)
    return Effort(len(named), flops(graph), traffic(graph, (n.nodes for n in named)))


def of_imported(operators: int, graph: Graph) -> Effort:
    """The graph another tool left, of ``operators`` nodes, grouped by those."""
    groups: dict[str, set[Node]] = {}
    for k, n in enumerate(graph.operations()):
        if not is_static(n):
            groups.setdefault((graph.names(n) or (f"#{k}",))[0], set()).add(n)
    return Effort(operators, flops(graph), traffic(graph, groups.values()))


def flops(graph: Graph) -> int:
    return sum(measure(n).flops for n in graph.operations())


def traffic(graph: Graph, groups: Iterable[Iterable[Node]]) -> int:
    """Bytes in and out of every group. A node in several groups is computed inside each."""
    users = graph.users()
    outputs = {n for _, n in graph.outputs}
    sets = [set(g) for g in groups]
    inside: dict[Node, list[set[Node]]] = {}
    for group in sets:
        for n in group:
            inside.setdefault(n, []).append(group)
    total = 0
    for group in sets:
        if all(n.op in _VIEWS or is_widening(n) for n in group):
            continue
        read: dict[Node, int] = {}
        for n in group:
            for a, amount in read_bytes(n).items():
                if a not in group:
                    read[a] = max(read.get(a, 0), amount)
        total += sum(read.values())
        for n in group:
            outside = any(all(n not in g for g in inside.get(u, [set()])) for u in users[n] if not is_static(u))
            total += stored(n) if n in outputs or outside else 0
    return total

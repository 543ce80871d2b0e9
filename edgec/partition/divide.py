"""A graph cut into segments that run one after the other, each as a whole on one side."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from itertools import count

from edgec.fuse.assignment import Assignment, Side
from edgec.ir.graph import Graph, Node, intern, placeholder


@dataclass(frozen=True)
class Segment:
    """Consecutive work of one side, as a graph of its own.

    ``reads`` and ``writes`` are the values of the whole graph that its inputs and outputs stand for, in order.
    """

    side: Side
    graph: Graph
    reads: tuple[Node, ...]
    writes: tuple[Node, ...]


def divide(graph: Graph, assignment: Assignment) -> tuple[Segment, ...]:
    """The segments in order: as few as following one side for as long as it has work leaves."""
    there = set(graph.nodes())
    sides = {n: side for n, side in assignment.side_of.items() if n in there}  # a plan may add copies
    operands = {n: operands_of(n, sides) for n in sides}
    runs = min((_runs(operands, sides, first) for first in ("cpu", "gpu")), key=len)
    results = {n for _, n in graph.outputs}
    names = {n: name for name, n in graph.outputs} | {n: str(n.attributes["name"]) for n in graph.inputs}
    taken = set(names.values())
    free = (name for number in count() if (name := f"value_{number}") not in taken)
    names |= {value: next(free) for value in sides if value not in names}
    found = []
    for k, (side, values) in enumerate(runs):
        inside = set(values)
        reads = tuple(dict.fromkeys(o for v in values for o in operands[v] if o not in inside))
        wanted = {o for _, later in runs[k + 1 :] for v in later for o in operands[v]} | results
        writes = tuple(v for v in values if v in wanted)
        found.append(Segment(side, part_of(graph, reads, writes, names), reads, writes))
    return tuple(found)


def operands_of(value: Node, sides: Container[Node]) -> tuple[Node, ...]:
    """The values in memory that computing ``value`` begins with."""
    found: dict[Node, None] = {}
    seen: set[Node] = set()
    stack = list(value.args)
    while stack:
        node = stack.pop()
        if node in seen or node.is_const:
            continue
        seen.add(node)
        if node in sides or node.op == "input":
            found[node] = None
        else:
            stack.extend(node.args)
    return tuple(found)


def _runs(
    operands: Mapping[Node, tuple[Node, ...]], sides: Mapping[Node, Side], first: Side
) -> list[tuple[Side, list[Node]]]:
    """Values by turns of the two sides, each taking whatever is ready; those without work are left out."""
    waiting = {v: sum(o in sides for o in mine) for v, mine in operands.items()}
    readers: dict[Node, list[Node]] = {}
    for v, mine in operands.items():
        for o in mine:
            readers.setdefault(o, []).append(v)
    ready: dict[Side, list[Node]] = {"cpu": [], "gpu": []}
    for v, left in waiting.items():
        if not left:
            ready[sides[v]].append(v)
    runs: list[tuple[Side, list[Node]]] = []
    side = first
    while ready["cpu"] or ready["gpu"]:
        taken: list[Node] = []
        while ready[side]:
            v = ready[side].pop(0)
            taken.append(v)
            for r in readers.get(v, ()):
                waiting[r] -= 1
                if not waiting[r]:
                    ready[sides[r]].append(r)
        if taken:
            runs.append((side, taken))
        side = "gpu" if side == "cpu" else "cpu"
    return runs


def part_of(graph: Graph, reads: tuple[Node, ...], writes: tuple[Node, ...], names: Mapping[Node, str]) -> Graph:
    """The graph from ``reads``, which become inputs, to ``writes``."""
    new: dict[Node, Node] = {n: n if n.op == "input" else placeholder(names[n], n.type) for n in reads}
    inputs = tuple(new[n] for n in reads)
    origin: dict[Node, tuple[str, ...]] = {}
    stack = [(n, False) for n in writes]
    while stack:
        node, expanded = stack.pop()
        if node in new:
            continue
        if node.is_const:
            new[node] = node
        elif not expanded:
            stack.append((node, True))
            stack.extend((a, False) for a in node.args)
        else:
            new[node] = intern(node.op, tuple(new[a] for a in node.args), node.attributes, node.type)
            if node in graph.origin:
                origin[new[node]] = tuple(dict.fromkeys((*origin.get(new[node], ()), *graph.origin[node])))
    return Graph(inputs, tuple((names[n], new[n]) for n in writes), graph.name, origin)

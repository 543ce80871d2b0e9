"""The result of every stage as a graph of plain data: nodes by number, edges between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from edgec.fuse import Plan, classify
from edgec.fuse.cost_model import work
from edgec.ir.graph import Graph, Node
from edgec.ops import meaning
from edgec.report.listing import operator_text
from edgec.report.record import Record
from edgec.schedule.program import Buffer, Program
from edgec.text import printable

#: Formulas are cut at this length.
FORMULA = 240


class _Drawing:
    """Nodes and edges in the making; constants are no nodes, their bytes count for who reads them."""

    def __init__(self, name: str, seconds: float) -> None:
        self.name, self.seconds = name, seconds
        self.nodes: list[Record] = []
        self.edges: dict[tuple[int, int], None] = {}

    def add(self, **fields: Any) -> int:
        self.nodes.append({"id": len(self.nodes), **fields})
        return len(self.nodes) - 1

    def edge(self, source: int, target: int) -> None:
        if source != target:
            self.edges[source, target] = None

    def record(self) -> Record:
        return {
            "name": self.name,
            "seconds": self.seconds,
            "nodes": self.nodes,
            "edges": [list(e) for e in self.edges],
        }


def of_graph(name: str, seconds: float, graph: Graph, numbers: dict[Node, int]) -> Record:
    """A graph of operators; ``numbers`` is filled with the number of every node."""
    drawn = _Drawing(name, seconds)
    numbers.clear()
    for node in graph.nodes():
        if not node.is_const:
            numbers[node] = drawn.add(**operator(node, graph))
            for a in node.args:
                if not a.is_const:
                    drawn.edge(numbers[a], numbers[node])
    outputs(drawn, ((name, numbers[n]) for name, n in graph.outputs if n in numbers))
    return drawn.record()


def operator(node: Node, graph: Graph) -> Record:
    """One operator: its label, formula and costs, and the nodes of the model that it comes from."""
    if node.op == "input":
        name = printable(node.attributes["name"])
        return {"op": "input", "label": name, "type": str(node.type), "names": [name], "bytes": int(node.type.bytes)}
    derived = meaning(node)
    return {
        "op": node.op,
        "type": str(node.type),
        "names": [printable(n) for n in graph.names(node)],
        "class": classify.mapping(node).label,
        "flops": int(classify.flops(derived)),
        "bytes": int(node.type.bytes),
        "weights": sum(int(a.type.bytes) for a in dict.fromkeys(node.args) if a.is_const),
        "formula": operator_text(node, FORMULA),
    }


def outputs(drawn: _Drawing, named: Iterable[tuple[str, int]]) -> None:
    """The results of the network, as nodes behind those that compute them."""
    for name, k in list(named):
        _output(drawn, name, drawn.nodes[k]["type"], [k])


def _output(drawn: _Drawing, name: str, type: str, sources: Sequence[int]) -> None:
    """A result, behind everything that writes a part of it."""
    label = printable(name)
    result = drawn.add(op="output", label=label, type=type, names=[label])
    for source in sources:
        drawn.edge(source, result)


def of_plan(seconds: float, plan: Plan, numbers: dict[Node, int]) -> Record:
    """Blocks and places; ``inside`` are the operators of a block, by their numbers in the graph that was planned."""
    drawn = _Drawing("fuse", seconds)
    known: dict[Node, int] = {}
    inlined = _inlined(plan)

    copies: dict[Node, list[Node]] = {}
    for block in plan.blocks:
        if block.output.op == "copy" and block.output in plan.aliases:
            copies.setdefault(plan.aliases[block.output].parent, []).append(block.output)

    def place(value: Node) -> int | None:
        """The box that has a value: a block, an input, or a place in memory that blocks write to."""
        if value in known or value.is_const:
            return known.get(value)
        lies = plan.aliases.get(value)
        if lies is not None and lies.is_view:  # nothing of its own: where its operand lies, or the operand's copy
            return place(lies.parent)
        if value.op == "input":
            known[value] = drawn.add(**operator(value, plan.graph))
            return known[value]
        known[value] = k = drawn.add(
            op="place", label=f"{value.op} in place", type=str(value.type), bytes=int(value.type.bytes),
            names=[printable(n) for n in plan.graph.names(value)],
        )  # fmt: skip
        copied = Counter(c.args[0] for c in copies.get(value, ()))
        lying = [a for a, n in Counter(value.args).items() if n > copied[a]]  # what is written there by itself
        for a in (*lying, *copies.get(value, ())):
            if (source := place(a)) is not None:
                drawn.edge(source, k)
        return k

    for k, block in enumerate(plan.blocks):
        names = dict.fromkeys(printable(o) for n in block.nodes for o in plan.graph.names(n))
        sources = [s for v in block.inputs if (s := place(v)) is not None]
        known[block.output] = mine = drawn.add(
            op=block.kind, block=k, type=str(block.output.type), names=list(names),
            label=" ".join(dict.fromkeys(n.op for n in block.nodes)),
            flops=int(work(block)), bytes=int(block.output.type.bytes),
            weights=sum(int(v.type.bytes) for v in block.inputs if v.is_const),
            inside=[numbers[n] for n in (*block.nodes, *inlined.get(block.output, ())) if n in numbers],
        )  # fmt: skip
        for s in sources:
            drawn.edge(s, mine)
    outputs(drawn, [(name, at) for name, n in plan.outputs if (at := place(n)) is not None])
    return drawn.record()


def _inlined(plan: Plan) -> dict[Node, list[Node]]:
    """Movement and repeated work that is part of a block without being one of its own operators."""
    stored = {b.output for b in plan.blocks} | plan.filled | set(plan.aliases)
    found: dict[Node, list[Node]] = {}
    for block in plan.blocks:
        mine, stops = set(block.nodes), {*block.inputs, *stored}
        stack = [a for n in block.nodes for a in n.args]
        while stack:
            a = stack.pop()
            if a not in mine and a not in stops and a.op not in ("input", "const"):
                mine.add(a)
                found.setdefault(block.output, []).append(a)
                stack += a.args
    return found


def of_program(seconds: float, program: Program) -> Record:
    """Kernels, and the buffers that one hands to another."""
    drawn = _Drawing("schedule", seconds)
    writers: dict[Buffer, list[int]] = {}
    for name, buffer, node in program.inputs:
        label = printable(name)
        writers[buffer] = [drawn.add(op="input", label=label, type=str(node.type), names=[label], bytes=buffer.bytes)]
    for k, kernel in enumerate(program.kernels):
        steps = kernel.steps
        blocks = [s.block for s in steps if s.block is not None]
        kind = kernel.template if kernel.template != "chain" else steps[-1].template
        mine = drawn.add(
            op=kind, kernel=k, label=" ".join(dict.fromkeys(n.op for b in blocks for n in b.nodes)) or "border",
            type=str(blocks[-1].output.type) if blocks else kernel.writes.dtype, template=kernel.describe,
            names=[printable(n) for n in kernel.names], bytes=kernel.writes.bytes,
            weights=kernel.weights_bytes,
        )  # fmt: skip
        for step in steps:
            for b in (*step.reads, *(guard for guard, _ in kernel.guards)):
                for source in writers.get(b, ()):
                    drawn.edge(source, mine)
        for step in steps:
            found = writers.setdefault(step.writes, [])
            if mine not in found:
                found.append(mine)
    for name, buffer, node in program.outputs:
        if writers.get(buffer):
            _output(drawn, name, str(node.type), writers[buffer])
    return drawn.record()

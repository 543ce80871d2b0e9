"""Loops over a sequence as the steps that they make: the steps have derivatives, the loop has none."""

from __future__ import annotations

from dataclasses import replace

from edgec.frontend.onnx.operators.recurrent import steps_of
from edgec.ir.graph import Graph, Node, intern, rewrite


def unrolled(graph: Graph) -> Graph:
    """The graph with every ``recurrence`` as steps one after the other; the same graph where it has none."""
    if not any(n.op == "recurrence" for n in graph.operations()):
        return graph

    def change(n: Node, args: tuple[Node, ...]) -> Node:
        made = n if args == n.args else intern(n.op, args, n.attributes, n.type)
        return steps_of(made) if n.op == "recurrence" else made

    return replace(rewrite(graph, change), metadata=graph.metadata)

"""Inputs of a rewritten graph."""

from __future__ import annotations

import numpy as np

from edgec import ops
from edgec.execute.executor import run_graph
from edgec.ir.graph import Graph, Node, constant, placeholder, rewrite
from edgec.ir.types import Type


def test_an_input_that_is_replaced_by_its_rounding_stays_an_input() -> None:
    x = placeholder("x", Type("f32", (4,)))
    graph = Graph(inputs=(x,), outputs=(("y", ops.node("neg", x)),))

    def halved(n: Node, args: tuple[Node, ...]) -> Node:
        return ops.node("mul", n, constant(np.float32(0.5))) if n is x else ops.node(n.op, *args, **n.attributes)

    found = rewrite(graph, halved)
    assert found.inputs == (x,)
    np.testing.assert_array_equal(run_graph(found, {"x": np.float32([2, 4, 6, 8])})["y"], [-1, -2, -3, -4])


def test_an_input_that_becomes_another_input_is_that() -> None:
    x, z = (placeholder(name, Type("f32", (4,))) for name in "xz")
    graph = Graph(inputs=(x,), outputs=(("y", ops.node("neg", x)),))
    found = rewrite(graph, lambda n, args: z if n is x else ops.node(n.op, *args, **n.attributes))
    assert found.inputs == (z,)

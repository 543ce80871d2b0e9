"""Scales inside gates: they go into the weights before and behind, whichever factor of the product is the gate."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from small_graphs import graph, number, value, weights

from edgec import ops
from edgec.execute.executor import run_graph
from edgec.ir.graph import Node
from edgec.rewrite import simplify

GATES: dict[str, Callable[[Node], Node]] = {
    "gelu": lambda z: ops.node("add", ops.node("erf", z), number(1.0)),
    "hard swish": lambda z: ops.node("min", ops.node("max", ops.node("add", z, number(0.5)), number(0.0)), number(1.0)),
}


@pytest.mark.parametrize("gate_first", [False, True])
@pytest.mark.parametrize("name", GATES)
def test_no_scale_is_left(name: str, gate_first: bool) -> None:
    x = ops.node("add", ops.node("matmul", value("x", 3, 4), weights(4, 5)), weights(5))
    gate = GATES[name](ops.node("mul", x, number(0.5)))
    product = ops.node("mul", gate, x) if gate_first else ops.node("mul", x, gate)
    made = graph(ops.node("matmul", product, weights(5, 2)))
    found, applied = simplify(made)[:2]
    assert sum(n.op == "mul" for n in found.nodes()) == 1, applied
    fed = {"x": np.random.default_rng(3).standard_normal((3, 4)).astype(np.float32)}
    got, want = (run_graph(g, fed)["y0"] for g in (found, made))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)

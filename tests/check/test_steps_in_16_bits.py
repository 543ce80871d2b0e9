"""Quantizers behind values of 16 bits move as many integers, and what follows from them, as rounding explains."""

from __future__ import annotations

import numpy as np
from chance import RANDOM

from edgec import ops
from edgec.check.compare import compare, quantized_outputs
from edgec.check.judge import Judge
from edgec.check.narrow import Narrow
from edgec.execute.executor import run_graph
from edgec.ir.graph import Graph, Node, constant, placeholder
from edgec.ir.types import Type

F16 = Narrow("f16", 2.0**-9, 2.0**-6)
WEIGHTS = RANDOM.standard_normal((32, 24)).astype(np.float32)
AFTER = RANDOM.standard_normal((24, 8)).astype(np.float32)
INPUT = {"x": RANDOM.standard_normal((400, 32)).astype(np.float32)}


def number(value: float) -> Node:
    return constant(np.array(value, np.float32))


def network(step: float) -> Graph:
    """Sums of products as bytes, and sums of these."""
    x = placeholder("x", Type("f32", (400, 32)))
    level = ops.node("round", ops.node("div", ops.node("matmul", x, constant(WEIGHTS)), number(step)))
    level = ops.node("max", ops.node("add", level, number(128)), number(0))
    q = ops.node("cast", ops.node("min", level, number(255)), to="u8")
    real = ops.node("mul", ops.node("sub", ops.node("cast", q, to="f32"), number(128)), number(step))
    y = ops.node("matmul", real, constant(AFTER))
    return Graph((x,), (("q", q), ("y", y)))


def judged(graph: Graph, got: dict[str, np.ndarray]) -> dict[str, bool]:
    judge = Judge(graph, F16.least, steps=quantized_outputs(graph), narrow=F16)
    return {d.name: judge.within(d) for d in judge.differences(got, run_graph(graph, INPUT), INPUT)}


def test_integers_that_rounding_moves() -> None:
    graph = network(0.05)
    want, got = run_graph(graph, INPUT), run_graph(F16.rounded(graph), INPUT)
    assert 0.01 < np.mean(got["q"] != want["q"]) < 0.2
    assert judged(graph, got) == {"q": True, "y": True}
    other = np.where(want["q"] < 255, want["q"] + 1, 254).astype(np.uint8)  # as with another zero point
    assert not judged(graph, {**got, "q": other})["q"]


def test_a_coarse_step_is_more_than_rounding() -> None:
    """Few numbers become another integer, and sums of these are farther off than what rounding may make of any."""
    graph = network(4.0)
    want, got = run_graph(graph, INPUT), run_graph(F16.rounded(graph), INPUT)
    assert compare("y", got["y"], want["y"]).max_rel > F16.most
    assert judged(graph, got)["y"]
    assert not judged(graph, {**got, "y": -want["y"]})["y"]

"""Softmax, layer normalization, cross-entropy, GELU and dropout: one kernel in each direction, that stores no row,
planned alone and together."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from edgec import pipeline
from edgec.differentiate import gradients
from edgec.differentiate.losses import LOSSES
from edgec.execute.executor import run_program
from edgec.frontend.onnx.operators.normalization import standardized
from edgec.frontend.values import Value, emit
from edgec.fuse.one_pass import in_one_pass
from edgec.fuse.recompute import Recomputing, recomputed
from edgec.ir import evaluate
from edgec.ir.graph import Graph, Node, placeholder
from edgec.ir.types import Type
from edgec.options import resolve
from edgec.schedule.program import Program
from tests.chance import RANDOM

ROWS, WIDTH = 64, 128
ROW_BYTES = 4 * WIDTH
#: Bytes of the labels of all rows in 32 bits, which lanes compare with.
LABELS = 4 * ROWS


def _softmax(x: Value) -> Value:
    powers = emit("exp", x - x.reduce("max", [1]))
    return powers / powers.sum([1])


def _layer_norm(x: Value) -> Value:
    return standardized(x, range(1, 2), 1e-5)[0] * 1.5 + 0.5


def _gelu(x: Value) -> Value:
    return x * (emit("erf", x * 0.7071067811865476) + 1.0) * 0.5


def _dropout(x: Value) -> Value:
    kept = emit("random", Value(placeholder("step", Type("i32", ()))), shape=(ROWS, WIDTH), stream=3, seed=7) < 0.75
    return emit("select", kept, x * (1 / 0.75), 0.0)


def _x() -> Node:
    return placeholder("x", Type("f32", (ROWS, WIDTH)))


def _program(graph: Graph) -> Program:
    program: Program = pipeline.run(graph, pipeline.Context(resolve({})), start="simplify", until="schedule")[
        "schedule"
    ]
    return program


def _given(graph: Graph) -> dict[str, np.ndarray]:
    return {
        str(n.attributes["name"]): RANDOM.standard_normal(n.type.shape).astype(np.float32)
        if n.type.dtype == "f32"
        else RANDOM.integers(0, 100, n.type.shape).astype("i4" if n.type.dtype == "i32" else "i8")
        for n in graph.inputs
    }


def _inputs(node: Node) -> tuple[Node, ...]:
    return tuple(n for n in Graph((), (("y", node),)).nodes() if n.op == "input")


def _holds(result: Node, beside: int = 0) -> None:
    """One kernel, beside which no row is stored but so many bytes, and that computes what the graph means."""
    graph = Graph(_inputs(result), (("y", result),))
    program = _program(graph)
    assert len(program.kernels) == 1
    assert program.arena_bytes <= ROW_BYTES + beside
    given = _given(graph)
    np.testing.assert_allclose(run_program(program, given)["y"], evaluate.run(graph, given)["y"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("made", [_softmax, _layer_norm, _gelu, _dropout])
def test_one_kernel_a_direction(made: Callable[[Value], Value]) -> None:
    x = _x()
    y = made(Value(x)).node
    seed = placeholder("g", y.type)
    (slope,) = gradients(y, [x], seed=seed)
    assert slope is not None and slope is not seed
    _holds(y)
    _holds(slope)


def test_cross_entropy() -> None:
    target = placeholder("target", Type("i64", (ROWS,)))
    cost = LOSSES["cross_entropy"].compute(Value(_x()), Value(target), 1)
    _holds(cost.loss.node, LABELS)
    _holds(cost.slope.node, LABELS)


def _apart(graph: Graph) -> Graph:
    """The graph as a step on processors has it: its backward pass computes again what lies within rows, and masks."""
    alone = in_one_pass(graph, [graph.outputs[0][1]])
    return recomputed(alone, [graph.outputs[0][1]], Recomputing())


def _hold_together(forward: Node, backward: Node, first: Sequence[int] = ()) -> None:
    """Two kernels for both, which store nothing in between, and compute what the graph means; behind others, whose
    results have so many elements, which are what beside rows is stored."""
    outputs = (("y", forward), ("dx", backward))
    ends = Graph((), outputs)
    graph = _simplified(Graph(tuple(n for n in ends.nodes() if n.op == "input"), outputs))
    program = _scheduled(_apart(graph))
    assert [k.block.output.type.elements for k in program.kernels[:-2] if k.block is not None] == [*first]
    assert len(program.kernels) == 2 + len(first)
    assert program.arena_bytes <= ROW_BYTES + 4 * sum(first)
    given = _given(graph)
    found, wanted = run_program(program, given), evaluate.run(graph, given)
    for name in ("y", "dx"):
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-4, atol=1e-5)


def _simplified(graph: Graph) -> Graph:
    found: Graph = pipeline.run(graph, pipeline.Context(resolve({})), start="simplify", until="compress").result.graph
    return found


def _scheduled(graph: Graph) -> Program:
    program: Program = pipeline.run(graph, pipeline.Context(resolve({})), start="fuse", until="schedule")["schedule"]
    return program


@pytest.mark.parametrize("made", [_softmax, _layer_norm, _gelu, _dropout])
def test_both_directions_together(made: Callable[[Value], Value]) -> None:
    x = _x()
    y = made(Value(x)).node
    (slope,) = gradients(y, [x], seed=placeholder("g", y.type))
    assert slope is not None
    _hold_together(y, slope)


def test_cross_entropy_together() -> None:
    target = placeholder("target", Type("i64", (ROWS,)))
    cost = LOSSES["cross_entropy"].compute(Value(_x()), Value(target), 1)
    _hold_together(cost.loss.node, cost.slope.node, first=[ROWS])


def test_weights_of_a_normalization_have_a_kernel_of_their_own() -> None:
    """The gradient of the scale adds up across rows: it is no part of a row's kernel, and does not take that apart."""
    x, scale = _x(), placeholder("scale", Type("f32", (WIDTH,)))
    y = (standardized(Value(x), range(1, 2), 1e-5)[0] * Value(scale)).node
    found = gradients(y, [x, scale], seed=placeholder("g", y.type))
    outputs = (("y", y), *((name, n) for name, n in zip(("dx", "dscale"), found) if n is not None))
    graph = _simplified(Graph(tuple(n for n in Graph((), outputs).nodes() if n.op == "input"), outputs))
    assert len(_scheduled(graph).kernels) == 6
    program = _scheduled(_apart(graph))
    assert len(program.kernels) == 4  # y, dx, the rows to be added up, and their sum
    given = _given(graph)
    got, wanted = run_program(program, given), evaluate.run(graph, given)
    for name in wanted:
        np.testing.assert_allclose(got[name], wanted[name], rtol=1e-4, atol=1e-4)


def test_what_follows_from_rows_is_looked_at_once() -> None:
    """Values that meet again forty times, and a long chain, take no longer than their nodes."""
    x = Value(_x())
    powers = emit("exp", x - x.reduce("max", [1]))
    y, z = powers / powers.sum([1]), powers * 2.0
    for _ in range(40):
        z = (z + 1.0) * (z - 1.0)
    for _ in range(3000):
        z = z * 0.5
    graph = Graph(_inputs(z.node), (("y", y.node), ("z", z.sum([0]).node)))
    changed = in_one_pass(graph, [y.node])
    assert len(changed.nodes()) - len(graph.nodes()) in range(1, 24)


def test_a_graph_without_rows_stays_as_it_is() -> None:
    x = _x()
    y = _gelu(Value(x)).node
    graph = Graph((x,), (("y", y),))
    assert in_one_pass(graph, [y]) is graph


def test_what_takes_two_kernels_is_counted() -> None:
    y = _softmax(_softmax(Value(_x())).transpose(1, 0)).node
    assert len(_program(Graph(_inputs(y), (("y", y),))).kernels) == 2

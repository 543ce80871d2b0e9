"""What networks remember: variables, their initial values, recurrent layers; step by step beside the interpreter."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small_tflite import File, Subgraph, options

import edgec
from edgec.check.inputs import random_inputs
from edgec.check.litert import LitertReference
from edgec.errors import ModelError
from edgec.frontend import states
from edgec.frontend.tflite import import_tflite, parse
from edgec.ir import evaluate


def handle(graph: Subgraph, name: str) -> int:
    index = graph.tensor("resource", (1,))
    graph.op("VAR_HANDLE", [], [index], options("VarHandle", container=b"", sharedName=name.encode()))
    return index


def accumulator(initial: float | None = 3.0) -> bytes:
    """y = variable + x, kept in the variable; with ``initial``, a subgraph assigns it once."""
    f = File()
    g = f.main
    if initial is not None:
        once = f.subgraph()
        once.op("ASSIGN_VARIABLE", [handle(once, "sum"), once.const(np.full((1, 4), initial), "f32")], [])
        g.op("CALL_ONCE", [], [], options("CallOnce", initSubgraphIndex=1))
    x, old, y = g.input("f32", (1, 4), "x"), g.tensor("f32", (1, 4)), g.tensor("f32", (1, 4), "y")
    variable = handle(g, "sum")
    g.op("READ_VARIABLE", [variable], [old], options("ReadVariable"))
    g.op("ADD", [old, x], [y], options("Add"))
    g.op("ASSIGN_VARIABLE", [variable, y], [], options("AssignVariable"))
    g.output(y)
    return f.content()


def lstm(major: bool = False) -> bytes:
    random = np.random.default_rng(0)
    batch, steps, size, hidden = 2, 3, 5, 4
    f = File()
    g = f.main
    shape = (steps, batch, size) if major else (batch, steps, size)
    x = g.input("f32", shape, "x")
    y = g.tensor("f32", (*shape[:2], hidden), "y")
    w = [g.const(random.standard_normal((hidden, size)) * 0.5, "f32") for _ in range(4)]
    r = [g.const(random.standard_normal((hidden, hidden)) * 0.5, "f32") for _ in range(4)]
    b = [g.const(random.standard_normal(hidden), "f32") for _ in range(4)]
    h = g.tensor("f32", (batch, hidden), "h", variable=True)
    c = g.tensor("f32", (batch, hidden), "c", variable=True)
    inputs = [x, *w, *r, -1, -1, -1, *b, -1, -1, h, c, -1, -1, -1, -1]
    option = options("UnidirectionalSequenceLSTM", fusedActivationFunction=4, cellClip=2.0, timeMajor=major)
    g.op("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [y], option)
    g.output(y)
    return f.content()


def svdf() -> bytes:
    random = np.random.default_rng(1)
    batch, size, units, rank, memory = 2, 3, 4, 2, 5
    f = File()
    g = f.main
    x, y = g.input("f32", (batch, size), "x"), g.tensor("f32", (batch, units), "y")
    features = g.const(random.standard_normal((units * rank, size)), "f32")
    time = g.const(random.standard_normal((units * rank, memory)), "f32")
    bias = g.const(random.standard_normal(units), "f32")
    state = g.tensor("f32", (batch, units * rank * memory), "past", variable=True)
    g.op("SVDF", [x, features, time, bias, state], [y], options("SVDF", rank=rank))
    g.output(y)
    return f.content()


MODELS = {"variable": accumulator(), "lstm": lstm(), "lstm by time": lstm(True), "svdf": svdf()}


@pytest.mark.parametrize("name", MODELS)
def test_steps(name: str) -> None:
    """The state is fed back by hand, as a program in C would."""
    model = parse(MODELS[name])
    graph = import_tflite(model)
    reference = LitertReference(model)
    known = states.initial(graph)
    for seed in range(20):
        inputs = {**random_inputs(graph, seed), **known}
        got, want = evaluate.run(graph, inputs), reference.run(inputs)
        assert list(got) == list(want)
        for output in want:
            np.testing.assert_allclose(
                got[output], want[output], rtol=0, atol=2e-5 * max(1, np.abs(want[output]).max())
            )
        known = states.advanced(graph, inputs, got)


def test_a_variable_is_an_input_and_an_output() -> None:
    graph = import_tflite(parse(accumulator()))
    assert [n.attributes["name"] for n in graph.inputs] == ["x", "state_sum"]
    assert [name for name, _ in graph.outputs] == ["y", "state_sum_out"]
    (loop,) = states.states(graph)
    assert (loop.input, loop.output) == ("state_sum", "state_sum_out") and (loop.initial == 3).all()


def test_what_no_subgraph_assigns_is_zero_at_first() -> None:
    assert (states.initial(import_tflite(parse(accumulator(None))))["state_sum"] == 0).all()


def test_check_follows_states(tmp_path: Path) -> None:
    path = tmp_path / "sum.tflite"
    path.write_bytes(accumulator())
    built = edgec.build(path)
    checked = edgec.check(built, samples=8)
    assert checked.ok and "litert" in checked.reference
    assert [d.name for d in checked.outputs] == ["y", "state_sum_out"]
    given = {"x": np.ones((5, 1, 4), np.float32)}
    assert edgec.check(built, inputs=given).samples == 5
    y = built(x=given["x"][0], state_sum=np.full((1, 4), 3, np.float32))["y"]
    assert (y == 4).all()


def test_a_variable_without_a_handle() -> None:
    f = File()
    x, y = f.main.input("f32", (4,), "x"), f.main.tensor("f32", (4,), "y")
    f.main.op("READ_VARIABLE", [f.main.tensor("resource", (1,))], [y])
    f.main.output(y, x)
    with pytest.raises(ModelError, match="not named by a VAR_HANDLE"):
        import_tflite(parse(f.content()))

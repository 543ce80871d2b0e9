"""States of networks: variables, their initial values, recurrent layers; compared with the interpreter step by step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from small_tflite import File, Subgraph, options

import edgec
from edgec.check.litert import LitertReference
from edgec.errors import ModelError
from edgec.execute.samples import random_inputs
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


def integer_lstm() -> bytes:
    """Operands of 8 bits, a cell of 16."""
    random = np.random.default_rng(2)
    batch, steps, size, hidden = 2, 3, 5, 4
    f = File()
    g = f.main
    x = g.input("i8", (batch, steps, size), "x", scale=0.02, zero=-3)
    y = g.tensor("i8", (batch, steps, hidden), "y", scale=0.0078, zero=-2)
    w = [g.const(random.integers(-127, 128, (hidden, size)), "i8", scale=0.006 + 0.001 * k) for k in range(4)]
    r = [g.const(random.integers(-127, 128, (hidden, hidden)), "i8", scale=0.007) for _ in range(4)]
    b = [g.const(random.integers(-4000, 4000, hidden), "i32", scale=0.02 * (0.006 + 0.001 * k)) for k in range(4)]
    h = g.tensor("i8", (batch, hidden), "h", variable=True, scale=0.0078, zero=-2)
    c = g.tensor("i16", (batch, hidden), "c", variable=True, scale=2.0**-12, zero=0)
    inputs = [x, *w, *r, -1, -1, -1, *b, -1, -1, h, c, -1, -1, -1, -1]
    option = options("UnidirectionalSequenceLSTM", fusedActivationFunction=4, cellClip=3.0)
    g.op("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [y], option)
    inner = [g.tensor("f32", (0,)) for _ in range(4)]
    g.proto.operators[-1].intermediates = [*inner, g.tensor("i8", (0,), scale=0.0078, zero=-2)]
    g.output(y)
    return f.content()


def integer_svdf() -> bytes:
    random = np.random.default_rng(3)
    batch, size, units, rank, memory = 2, 3, 4, 2, 5
    f = File()
    g = f.main
    x = g.input("i8", (batch, size), "x", scale=0.05, zero=4)
    y = g.tensor("i8", (batch, units), "y", scale=0.3, zero=-5)
    features = g.const(random.integers(-127, 128, (units * rank, size)), "i8", scale=0.01)
    time = g.const(random.integers(-3000, 3000, (units * rank, memory)), "i16", scale=0.0004)
    bias = g.const(random.integers(-3000, 3000, units), "i32", scale=0.0004 * 0.0005)
    state = g.tensor("i16", (batch, units * rank * memory), "past", variable=True, scale=0.0005, zero=0)
    option = options("SVDF", rank=rank, fusedActivationFunction=1)
    g.op("SVDF", [x, features, time, bias, state], [y], option)
    g.output(y)
    return f.content()


MODELS = {"variable": accumulator(), "lstm": lstm(), "lstm by time": lstm(True), "svdf": svdf(),
    "integer lstm": integer_lstm(), "integer svdf": integer_svdf(),
}  # fmt: skip


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
            if want[output].dtype.kind == "i":
                assert np.array_equal(got[output], want[output]), (output, seed)
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


def placeholder() -> bytes:
    """A window of 3 over a signal whose length the file gives as 1: only another length has results."""
    f = File()
    g = f.main
    x, y = g.input("f32", (1, 1, 1, 2), "x"), g.tensor("f32", (1, 1, 1, 4), "y")
    w = g.const(np.random.default_rng(2).standard_normal((4, 1, 3, 2)), "f32")
    bias = g.const(np.zeros(4), "f32")
    g.op("CONV_2D", [x, w, bias], [y], options("Conv2D", strideW=1, strideH=1, padding=1))
    g.output(y)
    return f.content()


@pytest.mark.parametrize("made", [accumulator, lstm, svdf, placeholder])
def test_timed_beside_the_interpreter(made: Callable[[], bytes], tmp_path: Path) -> None:
    """With delegates, which keep states to themselves."""
    path = tmp_path / "net.tflite"
    path.write_bytes(made())
    built = edgec.build(path, tmp_path / "built", shapes={"x": (1, 1, 9, 2)} if made is placeholder else {})
    benched = edgec.bench(built, vs="litert", seconds=0.01, rounds=1)
    assert benched.max_rel is not None and benched.max_rel < 1e-4

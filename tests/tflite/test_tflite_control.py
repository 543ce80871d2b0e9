"""Control flow of TensorFlow Lite: branches that data or constants choose, unrolled loops, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from chance import RANDOM
from small_tflite import File, Subgraph, options

import edgec
from edgec.check.litert import LitertReference
from edgec.errors import ModelError
from edgec.frontend.tflite import import_tflite, parse
from edgec.ir import evaluate

SIZE = 6


def positive(g: Subgraph, x: int) -> int:
    """Is the sum of x above zero? Reshaped to a scalar by a shape without elements, whose tensor stores nothing."""
    total, found, scalar = g.tensor("f32", (1, 1)), g.tensor("bool", (1, 1)), g.tensor("bool", ())
    g.op("SUM", [x, g.const([0, 1])], [total], options("Reducer", keepDims=True))
    g.op("GREATER", [total, g.const(0.0, "f32")], [found], options("Greater"))
    g.op("RESHAPE", [found, g.tensor("i32", (0,))], [scalar], options("Reshape", newShape=[]))
    return scalar


def side(f: File, operator: str, factor: float) -> None:
    """x operator w, where w is a second operand of the subgraph."""
    s = f.subgraph()
    x, w = s.input("f32", (1, SIZE)), s.input("f32", (1, SIZE))
    scaled, y = s.tensor("f32", (1, SIZE)), s.tensor("f32", (1, SIZE))
    s.op("MUL", [x, s.const(np.full((1, SIZE), factor), "f32")], [scaled], options("Mul"))
    s.op(operator, [scaled, w], [y], options(operator.capitalize()))
    s.output(y)


def branches(f: File) -> None:
    """A sum that decides, and weights that both sides are given."""
    g = f.main
    x, y = g.input("f32", (1, SIZE), "x"), g.tensor("f32", (1, SIZE), "y")
    w = g.const(np.arange(SIZE, dtype=np.float32).reshape(1, SIZE), "f32")
    g.op("IF", [positive(g, x), x, w], [y], options("If", thenSubgraphIndex=1, elseSubgraphIndex=2))
    side(f, "ADD", 2.0)
    side(f, "SUB", -3.0)
    g.output(y)


def handed_through(f: File) -> None:
    """One side does nothing, as the graphs of openWakeWord; the other has a branch of its own."""
    g = f.main
    x, y = g.input("f32", (1, SIZE), "x"), g.tensor("f32", (1, SIZE), "y")
    g.op("IF", [positive(g, x), x], [y], options("If", thenSubgraphIndex=1, elseSubgraphIndex=2))
    g.output(y)
    same = f.subgraph()
    same.output(same.input("f32", (1, SIZE)))
    inner = f.subgraph()
    x, shifted, y = inner.input("f32", (1, SIZE)), inner.tensor("f32", (1, SIZE)), inner.tensor("f32", (1, SIZE))
    inner.op("ADD", [x, inner.const(np.full((1, SIZE), 0.5), "f32")], [shifted], options("Add"))
    inner.op(
        "IF", [positive(inner, shifted), shifted], [y], options("If", thenSubgraphIndex=3, elseSubgraphIndex=1)
    )  # fmt: skip
    inner.output(y)
    third = f.subgraph()
    x, y = third.input("f32", (1, SIZE)), third.tensor("f32", (1, SIZE))
    third.op("NEG", [x], [y])
    third.output(y)


def constant_side(f: File) -> None:
    """The condition is a constant: the other side would be refused."""
    g = f.main
    x, w, y = g.input("f32", (1, SIZE), "x"), g.const(np.ones((1, SIZE)), "f32"), g.tensor("f32", (1, SIZE), "y")
    g.op("IF", [g.const(False, "bool"), x, w], [y], options("If", thenSubgraphIndex=1, elseSubgraphIndex=2))
    s = f.subgraph()
    s.input("f32", (1, SIZE))
    s.input("f32", (1, SIZE))
    s.output(s.tensor("f32", (1, SIZE)))
    side(f, "SUB", 1.5)
    g.output(y)


def counted(f: File) -> None:
    """Three rounds of y = 2 y + w; the counter is one of the values."""
    g = f.main
    x, y = g.input("f32", (1, SIZE), "x"), g.tensor("f32", (1, SIZE), "y")
    w = g.const(np.linspace(-1, 1, SIZE).reshape(1, SIZE), "f32")
    results = [g.tensor("i32", ()), y, g.tensor("f32", (1, SIZE))]
    g.op("WHILE", [g.const(0), x, w], results, options("While", condSubgraphIndex=1, bodySubgraphIndex=2))
    g.output(y)
    condition, body = f.subgraph(), f.subgraph()
    for s in (condition, body):
        s.input("i32", (), "k")
        s.input("f32", (1, SIZE), "y")
        s.input("f32", (1, SIZE), "w")
    going = condition.tensor("bool", ())
    condition.op("LESS", [0, condition.const(3)], [going], options("Less"))
    condition.output(going)
    after, doubled, y = body.tensor("i32", ()), body.tensor("f32", (1, SIZE)), body.tensor("f32", (1, SIZE))
    body.op("ADD", [0, body.const(1)], [after], options("Add"))
    body.op("ADD", [1, 1], [doubled], options("Add"))
    body.op("ADD", [doubled, 2], [y], options("Add"))
    body.output(after, y, 2)


def chosen_state(f: File) -> None:
    """A variable that one side reads; it is assigned behind the branch."""
    g = f.main
    x, y = g.input("f32", (1, SIZE), "x"), g.tensor("f32", (1, SIZE), "y")
    g.op("IF", [positive(g, x), x], [y], options("If", thenSubgraphIndex=1, elseSubgraphIndex=2))
    g.op("ASSIGN_VARIABLE", [variable(g), y], [], options("AssignVariable"))
    g.output(y)
    reading = f.subgraph()
    x, old, y = reading.input("f32", (1, SIZE)), reading.tensor("f32", (1, SIZE)), reading.tensor("f32", (1, SIZE))
    reading.op("READ_VARIABLE", [variable(reading)], [old], options("ReadVariable"))
    reading.op("ADD", [x, old], [y], options("Add"))
    reading.output(y)
    same = f.subgraph()
    same.output(same.input("f32", (1, SIZE)))


def variable(g: Subgraph) -> int:
    index = g.tensor("resource", (1,))
    g.op("VAR_HANDLE", [], [index], options("VarHandle", container=b"", sharedName=b"kept"))
    return index


def content(make: Callable[[File], None]) -> bytes:
    f = File()
    make(f)
    return f.content()


def inputs() -> list[dict[str, np.ndarray]]:
    """Sums above zero, below it, and just below it, so that nested branches go both ways."""
    x = RANDOM.standard_normal((1, SIZE)).astype(np.float32)
    return [{"x": np.abs(x)}, {"x": -np.abs(x)}, {"x": np.abs(x) - np.abs(x).mean() - np.float32(0.1)}]


@pytest.mark.parametrize("make", [branches, handed_through, constant_side, counted])
def test_compared_with_the_interpreter(make: Callable[[File], None]) -> None:
    model = parse(content(make))
    graph, reference = import_tflite(model), LitertReference(model)
    for arrays in inputs():
        got, want = evaluate.run(graph, arrays)["y"], reference.run(arrays)["y"]
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * np.abs(want).max())


def test_compiled_branches(tmp_path: Path) -> None:
    path = tmp_path / "branches.tflite"
    path.write_bytes(content(handed_through))
    built = edgec.build(path)
    assert edgec.check(built, samples=6).ok
    reference = LitertReference(parse(path.read_bytes()))
    for arrays in inputs():
        np.testing.assert_allclose(built(**arrays), reference.run(arrays)["y"], rtol=0, atol=1e-5)


def test_a_state_that_one_side_reads() -> None:
    graph = import_tflite(parse(content(chosen_state)))
    kept = np.full((1, SIZE), 7, np.float32)
    for arrays in inputs()[:2]:
        got = evaluate.run(graph, {**arrays, "state_kept": kept})
        want = arrays["x"] + 7 if arrays["x"].sum() > 0 else arrays["x"]
        assert np.array_equal(got["y"], want) and np.array_equal(got["state_kept_out"], want)


def assigns(f: File) -> None:
    chosen_state(f)
    reading = f.subgraphs[1]
    reading.op("ASSIGN_VARIABLE", [variable(reading), 0], [], options("AssignVariable"))


def endless(f: File) -> None:
    counted(f)
    f.subgraphs[2].proto.outputs[0] = 0  # the counter stays


def asked_of_data(f: File) -> None:
    counted(f)
    f.main.proto.operators[0].inputs[0] = f.main.input("i32", (), "rounds")


def of_two_shapes(f: File) -> None:
    handed_through(f)
    f.subgraphs[1].proto.outputs[0] = f.subgraphs[1].const(np.zeros((1, SIZE + 1)), "f32")


def of_itself(f: File) -> None:
    g = f.main
    x, y = g.input("f32", (1, SIZE), "x"), g.tensor("f32", (1, SIZE), "y")
    g.op("CALL", [x], [y], options("Call", subgraph=0))
    g.output(y)


def too_few(f: File) -> None:
    branches(f)
    f.main.proto.operators[-1].inputs.pop()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (assigns, "assigns the variable '.*' in a branch"),
        (endless, "more than 50,000 nodes"),
        (asked_of_data, "how many rounds it takes depends"),
        (of_two_shapes, "its branches give .*, and data decides"),
        (of_itself, "calls itself"),
        (too_few, "gives 1 operands to subgraph 1, which takes 2"),
    ],
)
def test_what_is_refused(make: Callable[[File], None], words: str) -> None:
    with pytest.raises(ModelError, match=words):
        import_tflite(parse(content(make)))


def test_rounds_that_a_value_decides() -> None:
    graph = import_tflite(parse(content(asked_of_data)), values={"rounds": np.int32(1)})
    x = RANDOM.standard_normal((1, SIZE)).astype(np.float32)
    want = 4 * x + 3 * np.linspace(-1, 1, SIZE, dtype=np.float32)
    np.testing.assert_allclose(evaluate.run(graph, {"x": x})["y"], want, atol=1e-5)

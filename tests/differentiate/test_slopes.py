"""Gradients at corners and ties, what passes none, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from small_graphs import number, pool, total, value

from edgec import ops
from edgec.differentiate import cut_paths, gradients
from edgec.errors import ModelError
from edgec.ir import evaluate
from edgec.ir.graph import Graph, Node, constant

X = np.array([-1, 0, 1, 2, 3, 7], np.float32)


def gradient(make: Callable[[Node], Node], x: np.ndarray) -> np.ndarray:
    given = value("x", *x.shape)
    (found,) = gradients(make(given), [given])
    assert found is not None
    return evaluate.run(Graph((given,), (("g", found),)), {"x": x})["g"]


def relu(x: Node) -> Node:
    return ops.node("max", x, number(0))


CORNERS = {
    "relu": (relu, [0, 0, 1, 1, 1, 1]),
    "relu, operands exchanged": (lambda x: ops.node("max", number(0), x), [0, 0, 1, 1, 1, 1]),
    "clip, bounds included": (lambda x: ops.node("min", ops.node("max", x, number(1)), number(3)), [0, 0, 1, 1, 1, 0]),
    "relu6": (lambda x: ops.node("min", relu(x), number(6)), [0, 0, 1, 1, 1, 0]),
    "abs": (lambda x: ops.node("abs", x), [-1, 0, 1, 1, 1, 1]),
    "bounds by element": (
        lambda x: ops.node("max", x, constant(np.array([-1, 0, 1, 0, 4, 8], np.float32))), [1, 0, 1, 1, 0, 0],
    ),
    "greater of itself": (lambda x: ops.node("max", x, ops.node("mul", x, number(2))), [1, 1.5, 2, 2, 2, 2]),
    "steps": (lambda x: ops.node("add", x, ops.node("floor", x)), [1, 1, 1, 1, 1, 1]),
    "half precision": (
        lambda x: ops.node("cast", ops.node("cast", x, to="f16"), to="f32"), [1, 1, 1, 1, 1, 1],
    ),
    "pow of 0": (lambda x: ops.node("pow", relu(x), number(2)), [0, 0, 2, 4, 6, 14]),
}  # fmt: skip


@pytest.mark.parametrize("name", CORNERS)
def test_corners(name: str) -> None:
    make, expected = CORNERS[name]
    assert gradient(make, X).tolist() == expected


def test_extremes_of_a_reduction_share() -> None:
    x = np.array([[1, 3, 3, 0], [2, 2, 2, 2]], np.float32)
    got = gradient(lambda n: total(n, 1, combine="max"), x)
    np.testing.assert_allclose(got, [[0, 0.5, 0.5, 0], [0.25] * 4])


def test_products_with_zeros() -> None:
    x = np.array([[0, 3, 5], [0, 0, 2], [1, 2, 3]], np.float32)
    got = gradient(lambda n: total(n, 1, combine="mul"), x)
    np.testing.assert_allclose(got, [[15, 0, 0], [0, 0, 0], [6, 3, 2]])


@pytest.mark.parametrize("combine", ["max", "min", "add"])
@pytest.mark.parametrize("kernel, stride, dilation", [(2, 2, 1), (3, 3, 1), (2, 1, 1), (3, 2, 1), (2, 3, 1), (2, 2, 2)])
def test_pools(combine: str, kernel: int, stride: int, dilation: int) -> None:
    """The first extreme of every window has its gradient."""
    random = np.random.default_rng(5)
    x = random.integers(0, 3, (2, 3, 7, 8)).astype(np.float32)
    span = (kernel - 1) * dilation + 1
    weights = random.integers(1, 9, (2, 3, (7 - span) // stride + 1, (8 - span) // stride + 1)).astype(np.float32)

    def make(n: Node) -> Node:
        return ops.node("mul", pool(n, combine, (kernel, kernel), stride, dilation), constant(weights))

    expected = np.zeros_like(x)
    for n, c, i, j in np.ndindex(*weights.shape):
        rows, columns = (slice(p * stride, p * stride + span, dilation) for p in (i, j))
        window = x[n, c, rows, columns]
        if combine == "add":
            share = np.ones_like(window)
        else:
            share = np.zeros_like(window)
            share[np.unravel_index((np.argmax if combine == "max" else np.argmin)(window), window.shape)] = 1
        expected[n, c, rows, columns] += share * weights[n, c, i, j]
    np.testing.assert_array_equal(gradient(make, x), expected)


def test_the_last_update_has_the_gradient() -> None:
    updates, where = value("u", 4), constant(np.array([1, 0, 1, 1]))
    target = constant(np.zeros(3, np.float32))
    weights = constant(np.array([2, 3, 5], np.float32))
    written = ops.node("scatter_elements", target, where, updates, axis=0)
    (found,) = gradients(ops.node("mul", written, weights), [updates])
    assert found is not None
    got = evaluate.run(Graph((updates,), (("g", found),)), {"u": np.ones(4, np.float32)})["g"]
    assert got.tolist() == [0, 2, 0, 3]


def test_what_passes_no_gradient_is_told() -> None:
    x, y = value("x", 4), value("y", 4)
    positions = ops.node("cast", x, to="i64")
    result = ops.node("add", ops.node("gather", y, positions, axis=0), ops.node("round", x))
    assert gradients(result, [x])[0] is None
    assert gradients(result, [y])[0] is not None
    told = {(c.node.op, c.operand): c.reason for c in cut_paths(result, [x])}
    assert told == {
        ("cast", 0): "its result is i64",
        ("gather", 1): "its operand is i64",
        ("round", 0): "it is constant between its steps",
    }
    assert cut_paths(ops.node("mul", y, y), [y]) == ()


def test_a_gradient_by_what_it_does_not_depend_on() -> None:
    x, y = value("x", 4), value("y", 4)
    assert gradients(x, [y, x])[0] is None


def test_refusals() -> None:
    x = value("x", 4)
    running = ops.node("prefix", x, combine="max", axis=0)
    with pytest.raises(ModelError, match=r"Cum: running combinations by 'max' have no derivative[\s\S]*train what"):
        gradients(running, [x], origin={running: ("Cum",)})
    with pytest.raises(ModelError, match="derivatives of i64"):
        gradients(ops.node("cast", x, to="i64"), [x])
    with pytest.raises(ModelError, match="a seed of"):
        gradients(x, [x], seed=number(1))
    step = value("g", 2, 1, 4)
    weights = [value("w", 1, 4, 32), value("h", 1, 4)]
    cell = ops.node("recurrence", step, value("b", 4), *weights, kind="rnn", activations=(("tanh", 1.0, 0.0),))
    with pytest.raises(ModelError, match="LSTM_1: 'recurrence' has no derivative"):
        gradients(cell, [step], origin={cell: ("LSTM_1",)})
    assert gradients(cell, [x]) == (None,), "what is not passed is not refused"

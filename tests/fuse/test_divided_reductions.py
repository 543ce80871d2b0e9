"""Reductions in two stages, question by question: costly operands, what was reshaped, dimensions that are reduced."""

from __future__ import annotations

import numpy as np
import pytest
from chance import RANDOM
from small_graphs import conv, graph, number, pool, relu, transpose, value, weights

from edgec import ops
from edgec.execute.executor import run_graph
from edgec.fuse.two_stages import _is_alone, _is_costly, _is_of_channels, _on, _source
from edgec.ir.graph import Node

X = value("x", 2, 3, 4, 5)


def reduced(x: Node, *axes: int) -> Node:
    return ops.node("reduce", x, combine="add", axes=axes)


def flat(x: Node, *shape: int) -> Node:
    return ops.node("reshape", x, shape=shape)


def test_functions_that_are_not_repeated() -> None:
    for op, is_costly in (
        ("exp", True),
        ("sqrt", False),
        ("tanh", True),
        ("neg", False),
        ("fmod", True),
        ("div", False),
    ):
        made = ops.node(op, X, number(3.0)) if op in ("fmod", "div") else ops.node(op, X)
        assert _is_costly(made) == is_costly, op
    for made in (X, reduced(ops.node("exp", X), 1), flat(ops.node("exp", X), 120), pool(X, "max", (2, 2))):
        assert not _is_costly(made)


def test_what_was_reshaped() -> None:
    """Through element-wise operators on as many elements; constants and broadcasts are beside the way."""
    one = flat(X, 2, 60)
    for y in (one, relu(one), ops.node("mul", weights(2, 60), one), ops.node("add", ops.node("exp", one), weights(60))):
        assert _source(y) is X
    for y in (X, reduced(one, 1), transpose(one, 1, 0), reduced(ops.node("mul", one, one), 0), value("z", 2, 60)):
        assert _source(y) is y
    both = ops.node("add", value("y", 2, 60), one)
    assert _source(both) is both  # the first operand decides


@pytest.mark.parametrize(
    ("shape", "axes", "found"),
    [
        ((2, 60), (1,), (1, 2, 3)), ((6, 20), (1,), (2, 3)), ((2, 3, 20), (2,), (2, 3)), ((2, 12, 5), (1,), (1, 2)),
        ((2, 60), (0,), (0,)), ((120,), (0,), (0, 1, 2, 3)), ((6, 20), (0,), (0, 1)), ((2, 3, 4, 5), (1, 3), (1, 3)),
        ((4, 30), (1,), None), ((2, 6, 10), (1,), None), ((24, 5), (0,), (0, 1, 2)), ((2, 3, 20), (0, 2), (0, 2, 3)),
    ],
)  # fmt: skip
def test_dimensions_that_a_reshape_made_one(
    shape: tuple[int, ...], axes: tuple[int, ...], found: tuple[int, ...] | None
) -> None:
    """The same sums, of whole dimensions of the value before the reshape; of its own operand where there are none."""
    given = flat(X, *shape)
    node = reduced(given, *axes)
    on = _on(X, node)
    assert (on.args[0], on.attributes["axes"]) == ((X, found) if found is not None else (given, axes))
    fed = {"x": RANDOM.integers(-9, 10, (2, 3, 4, 5)).astype(np.float32)}
    got, want = (run_graph(graph(n), fed)["y0"].ravel() for n in (on, node))
    assert np.array_equal(got, want)


def test_dimensions_of_one_element() -> None:
    x = value("x", 1, 6, 1, 4)
    for shape, axes, found in (((6, 4), (0,), (1,)), ((6, 4), (1,), (3,)), ((1, 24), (1,), (1, 2, 3))):
        assert _on(x, reduced(flat(x, *shape), *axes)).attributes["axes"] == found


def test_reductions_to_fewer_results_than_units() -> None:
    for node, units, is_alone in (
        (reduced(X, 1, 2, 3), 3, True), (reduced(X, 1, 2, 3), 2, False), (X, 99, False), (relu(X), 999, False),
        (reduced(weights(4, 5), 1), 99, False),
    ):  # fmt: skip
        assert _is_alone(node, units) == is_alone


def test_sums_of_channels() -> None:
    """Of what a window over each channel made, with enough results for all units."""
    x = value("x", 1, 8, 6, 6)
    deep = conv(x, weights(8, 1, 3, 3), groups=8)
    for made, is_of in (
        (deep, True), (relu(deep), True), (pool(x, "max", (2, 2)), True), (conv(x, weights(8, 8, 3, 3)), False),
        (conv(x, weights(8, 4, 3, 3), groups=2), False), (x, False), (relu(x), False),
        (ops.node("mul", weights(1), relu(deep)), True),
    ):  # fmt: skip
        total = reduced(made, 2, 3)
        assert _is_of_channels(total, 4) == is_of, made.op
        assert not _is_of_channels(total, 9)
    assert not _is_of_channels(reduced(deep, 1), 4) and not _is_of_channels(deep, 4)

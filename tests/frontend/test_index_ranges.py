"""Ranges that indices are known to have: they hold whatever the inputs are, and are as narrow as is easy to say."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import numpy as np
import pytest
from chance import RANDOM
from small_graphs import graph, value

from edgec import ops
from edgec.execute.executor import run_graph
from edgec.frontend.onnx.indices import OUTSIDE, _range, without_checks
from edgec.ir.graph import Graph, Node, constant
from edgec.ir.types import DTYPES


def whole(*numbers: int, dtype: str = "i64") -> Node:
    return constant(np.array(numbers, DTYPES[dtype]))


def given(name: str, dtype: str, *shape: int) -> Node:
    return value(name, *(shape or (4,)), dtype=dtype)


def clipped(x: Node, low: int, high: int) -> Node:
    dtype = x.type.dtype
    return ops.node("min", ops.node("max", x, whole(low, dtype=dtype)), whole(high, dtype=dtype))


X = given("x", "i64")
ODD = ops.node("lt", X, whole(0))
I64 = (-(2.0**63), 2.0**63 - 1)
RANGES: dict[str, tuple[Callable[[], Node], tuple[float, float]]] = {
    "constant": (lambda: whole(3, -7, 5), (-7, 5)),
    "nothing": (lambda: constant(np.zeros(0, np.int64)), (0, 0)),
    "input": (lambda: X, I64),
    "byte": (lambda: given("b", "u8"), (0, 255)),
    "signed byte": (lambda: given("b", "i8"), (-128, 127)),
    "floats": (lambda: value("f", 4), (-inf, inf)),
    "truth": (lambda: ODD, (-inf, inf)),
    "clipped": (lambda: clipped(X, -3, 9), (-3, 9)),
    "at least": (lambda: ops.node("max", X, whole(2)), (2, I64[1])),
    "at most": (lambda: ops.node("min", whole(2), X), (I64[0], 2)),
    "widened": (lambda: ops.node("cast", given("b", "u8"), to="i64"), (0, 255)),
    "narrowed": (lambda: ops.node("cast", X, to="i8"), (-128, 127)),
    "narrowed within": (lambda: ops.node("cast", clipped(X, -3, 127), to="i8"), (-3, 127)),
    "narrowed beyond": (lambda: ops.node("cast", clipped(X, -3, 128), to="i8"), (-128, 127)),
    "without a sign": (lambda: ops.node("cast", clipped(X, -1, 9), to="u8"), (0, 255)),
    "without a sign, within": (lambda: ops.node("cast", clipped(X, 0, 9), to="u8"), (0, 9)),
    "of floats": (lambda: ops.node("cast", value("f", 4), to="i32"), (-(2.0**31), 2.0**31 - 1)),
    "joined": (lambda: ops.node("concat", whole(4), clipped(X, -1, 2), axis=0), (-1, 4)),
    "chosen": (lambda: ops.node("select", ODD, clipped(X, 1, 2), clipped(X, -8, 1)), (-8, 2)),
    "moved": (lambda: ops.node("reshape", clipped(X, 1, 2), shape=(2, 2)), (1, 2)),
    "repeated": (lambda: ops.node("broadcast", clipped(X, 1, 2), shape=(3, 4)), (1, 2)),
    "a part": (lambda: ops.node("slice", clipped(X, 1, 2), starts=(1,), steps=(1,), shape=(2,)), (1, 2)),
    "gathered": (lambda: ops.node("gather", clipped(X, 1, 2), whole(0, 3), axis=0), (1, 2)),
    "largest": (lambda: ops.node("reduce", clipped(X, 1, 2), combine="max", axes=(0,)), (1, 2)),
    "least": (lambda: ops.node("reduce", clipped(X, 1, 2), combine="min", axes=(0,)), (1, 2)),
    "sum": (lambda: ops.node("reduce", clipped(X, 1, 2), combine="add", axes=(0,)), I64),
    "doubled": (lambda: ops.node("add", clipped(X, 1, 2), clipped(X, 1, 2)), I64),
    "order": (lambda: ops.node("argsort", value("f", 2, 5), axis=1, descending=False), (0, 4)),
    "numbers": (lambda: ops.node("iota", shape=(3, 7), axis=1), (0, 6)),
}  # fmt: skip


@pytest.mark.parametrize("name", RANGES)
def test_ranges(name: str) -> None:
    made, want = RANGES[name]
    node = made()
    assert _range(node, {}) == want
    for _ in range(8):
        fed = {}
        for n in graph(node).inputs:
            raw = RANDOM.integers(0, 256, (*n.type.shape, DTYPES[n.type.dtype].itemsize)).astype(np.uint8)
            drawn = RANDOM.standard_normal(n.type.shape) if n.type.dtype == "f32" else raw.view(DTYPES[n.type.dtype])
            fed[n.attributes["name"]] = np.asarray(drawn, DTYPES[n.type.dtype]).reshape(n.type.shape)
        got = run_graph(graph(node), fed)["y0"]
        if got.size and got.dtype != np.bool_:
            assert want[0] <= got.min() and got.max() <= want[1]


def test_checks_of_indices_alone_are_left_out() -> None:
    """Other demands stay."""
    made = Graph((X,), (("y", X),), demands=((f"a: {OUTSIDE}", ODD), ("b: a loop", ODD)))
    assert [text for text, _ in without_checks(made).demands] == ["b: a loop"]

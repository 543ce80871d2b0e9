"""The ten rules that DNNFusion prints (table 4), with the guards that it leaves out."""

from __future__ import annotations

import numpy as np
import pytest

from edgec.ir.graph import Graph, Node, constant, placeholder
from edgec.ir.types import Type
from edgec.ops import node
from edgec.rewrite import simplify
from edgec.rewrite.measure import Measure, total
from edgec.rewrite.rule import Numeric

SHAPE = (6, 8)


def given(name: str, dtype: str = "f32") -> Node:
    return placeholder(name, Type(dtype, SHAPE))


A, B, C = given("a"), given("b"), given("c")
POSITIVE = node("abs", B)
NUMBERS = given("n", "i32")


def c(value: float, dtype: str = "float32") -> Node:
    return constant(np.array(value, dtype))


def reciprocal(x: Node) -> Node:
    return node("div", c(1), x)


def square(x: Node) -> Node:
    return node("mul", x, x)


def rows(x: Node, combine: str = "add") -> Node:
    return node("reduce", x, combine=combine, axes=(1,))


def mul(*factors: Node) -> Node:
    first, *rest = factors
    for f in rest:
        first = node("mul", first, f)
    return first


#: What is printed to the left and to the right, and what has to be allowed for it.
TABLE: dict[str, tuple[Node, Node, Numeric]] = {
    "reciprocals": (
        mul(reciprocal(A), reciprocal(mul(A, B))), mul(square(reciprocal(A)), reciprocal(B)), "reassociates"
    ),
    "roots": (
        mul(mul(A, node("sqrt", POSITIVE)), mul(node("sqrt", POSITIVE), C)), mul(A, POSITIVE, C), "reassociates"
    ),
    "absolute values": (
        mul(node("abs", A), B, node("abs", C)), mul(node("abs", mul(A, C)), B), "reassociates"
    ),
    "sums of rows": (mul(mul(A, rows(B)), mul(rows(B), C)), mul(A, square(rows(B)), C), "reassociates"),
    "common factor": (
        node("add", mul(A, C), mul(A, B)), mul(A, node("add", B, C)), "reassociates"
    ),
    "one more": (node("add", A, mul(A, B)), mul(A, node("add", B, c(1))), "reassociates"),
    "square of a sum": (
        node("sub", square(node("add", A, B)), mul(node("add", A, B), C)),
        mul(node("add", A, B), node("sub", node("add", A, B), C)),
        "reassociates",
    ),
    "order": (node("add", mul(A, B), mul(B, A)), node("add", mul(A, B), mul(A, B)), "exact"),
    "shifts": (
        rows(node("shl", NUMBERS, c(3, "int32"))), node("shl", rows(NUMBERS), c(3, "int32")), "exact"
    ),
    "product of exponentials": (rows(node("exp", A), "mul"), node("exp", rows(A)), "approximates"),
}  # fmt: skip


def cost(output: Node) -> Measure:
    return total(graph(output))


def graph(output: Node) -> Graph:
    inputs = dict.fromkeys(n for n in Graph((), (("y", output),)).nodes() if n.op == "input")
    return Graph(tuple(inputs), (("y", output),))


@pytest.mark.parametrize("name", TABLE)
def test_what_is_printed_to_the_left_becomes_at_least_as_cheap_as_to_the_right(name: str) -> None:
    left, right, numeric = TABLE[name]
    simplified, _ = simplify(graph(left), numeric=numeric)
    assert total(simplified)[:3] <= cost(right)[:3]
    assert total(simplified)[:3] < cost(left)[:3] or name == "order"


def test_a_root_of_what_may_be_negative_stays() -> None:
    left = mul(mul(A, node("sqrt", B)), mul(node("sqrt", B), C))
    simplified, _ = simplify(graph(left))
    assert "sqrt" in [n.op for n in simplified.operations()]


def test_a_product_of_exponentials_stays_where_overflow_counts() -> None:
    left, _, _ = TABLE["product of exponentials"]
    assert not [a for a in simplify(graph(left))[1] if a.family == "homomorphism"]


def test_floats_are_not_shifted_and_sums_of_shifts_to_the_right_stay() -> None:
    left = rows(node("shr", NUMBERS, c(3, "int32")))
    assert not simplify(graph(left))[1]

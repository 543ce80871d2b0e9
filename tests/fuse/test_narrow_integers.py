"""Narrow integers and kinds of operators: what is read wide, where a block ends, and what it costs."""

from __future__ import annotations

import numpy as np
import pytest
from small_graphs import coded_weights, conv, number, pool, relu, transpose, value, weights

from edgec import ops
from edgec.fuse import classify, narrow
from edgec.ir.graph import Node, constant
from edgec.ops import formula

SHAPE = (2, 3)


def of(dtype: str, *shape: int) -> Node:
    return value(f"{dtype}", *(shape or SHAPE), dtype=dtype)


def cast(x: Node, to: str) -> Node:
    return ops.node("cast", x, to=to)


def bytes_(*shape: int) -> Node:
    return constant(np.ones(shape or SHAPE, np.int8))


@pytest.mark.parametrize(
    ("source", "target", "widens", "is_number"),
    [
        ("i8", "i32", True, False), ("u8", "i16", True, False), ("i8", "u8", False, False), ("i32", "i8", False, False),
        ("i8", "f32", False, True), ("u16", "f32", False, True), ("i32", "f32", False, False),
        ("f16", "f32", False, True), ("i8", "f16", False, False), ("f32", "i64", False, False),
        ("bool", "i32", False, False), ("bool", "f32", False, True),
    ],
)  # fmt: skip
def test_casts(source: str, target: str, widens: bool, is_number: bool) -> None:
    made = cast(of(source), target)
    assert narrow.is_widening(made) == widens and narrow.is_widened_number(made) == is_number
    assert not narrow.is_widening(of(source)) and not narrow.is_widened_number(of(source))


def test_what_readers_compute_when_they_load() -> None:
    w, x = weights(2, 3), of("i8")
    point = ops.node("sub", cast(bytes_(), "i32"), constant(np.array(3, np.int32)))
    magnitudes = ops.node("abs", w)
    chosen = ops.node("select", constant(np.array([[True], [False]])), w, magnitudes)
    for made, is_wide, is_magnitude in (
        (cast(x, "i32"), True, False), (point, True, False), (coded_weights(32, 4, 16), True, False),
        (magnitudes, True, True), (chosen, True, True), (relu(w), False, False), (x, False, False),
        (ops.node("sub", cast(x, "i32"), constant(np.array(3, np.int32))), False, False),
        (ops.node("abs", of("f32")), False, False), (transpose(point, 1, 0), False, False),
        (ops.node("select", value("c", 2, 3, dtype="bool"), w, magnitudes), False, False),
        (ops.node("select", constant(np.array(True)), weights(2, 3), magnitudes), False, False),
        (ops.node("select", constant(np.array(True)), w, ops.node("neg", w)), False, False),
    ):  # fmt: skip
        assert narrow.is_read_wide(made) == is_wide, made.op
        assert narrow.is_magnitude(made) == is_magnitude, made.op


@pytest.mark.parametrize(
    ("dtypes", "best"),
    [
        (("i32",), 0), (("i32", "i8"), 1), (("i8", "i32"), 0), (("i8", "i32", "i8"), 2), (("i8", "i8", "i32"), 1),
        (("i16", "i8", "i32"), 1), (("f16", "f32"), 1), (("i32", "i32"), 1), (("bool", "i32"), 1), (("u8", "f32"), 0),
    ],
)  # fmt: skip
def test_where_a_block_ends(dtypes: tuple[str, ...], best: int) -> None:
    """With the narrowest integers, the last of those; else at the end."""
    assert narrow.narrowest([of(d) for d in dtypes]) == best


def test_work_that_follows_sums() -> None:
    """A residual that is dequantized for an addition after the sums is not stored."""
    x = of("i8")
    plain, scaled = cast(x, "f32"), ops.node("mul", cast(x, "f32"), number(0.1))
    for node, fits in (
        (plain, True), (scaled, True), (ops.node("add", scaled, weights(3)), True), (cast(of("i16"), "f32"), False),
        (ops.node("mul", of("f32"), number(2)), False), (cast(of("i32"), "i64"), True),
        (ops.node("mul", cast(x, "f32"), weights(2, 3)), False), (ops.node("exp", transpose(plain, 1, 0)), False),
    ):  # fmt: skip
        other = value("sums", *node.type.shape, dtype=node.type.dtype)
        user = ops.node("add", other, node)
        users = {node: [user]}
        assert narrow.follows_sums(node, {user}, users, ()) == fits, node.op
        assert not narrow.follows_sums(node, (), users, ())
    wide = cast(of("i16"), "i32")
    end, total = cast(wide, "i64"), ops.node("add", value("s", *SHAPE, dtype="i64"), cast(wide, "i64"))
    users = {wide: [end], end: [total]}
    assert narrow.follows_sums(wide, {total}, users, {end}) and not narrow.follows_sums(wide, {total}, users, ())
    moved = transpose(plain, 1, 0)
    assert not narrow.follows_sums(plain, {moved}, {plain: [moved]}, ())


def test_kinds_of_operators() -> None:
    x, picture = of("f32"), value("p", 1, 2, 5, 5)
    for node, moves, computes in (
        (transpose(x, 1, 0), True, False), (ops.node("concat", x, x, axis=0), True, False),
        (ops.node("pad", x, before=(1, 0), after=(0, 0), value=0.0), True, False), (relu(x), False, True),
        (ops.node("broadcast", x, shape=(4, 2, 3)), True, False), (cast(x, "i32"), False, True),
        (ops.node("select", value("c", 2, 3, dtype="bool"), x, relu(x)), False, True),
        (ops.node("select", ops.node("lt", x, number(0)), x, number(1)), False, True),
        (ops.node("reduce", x, combine="add", axes=(1,)), False, False),
        (conv(picture, weights(3, 2, 3, 3)), False, False),
        (ops.node("argsort", x, axis=1, descending=False), False, False),
        (ops.node("iota", shape=(3, 7), axis=1), False, True),
        (ops.node("gather", x, constant(np.array([1, 0])), axis=1), True, False),
    ):  # fmt: skip
        assert (classify.is_movement(node), classify.is_elementwise(node)) == (moves, computes), node.op
        if node.op != "argsort":
            assert classify.has_reduction(formula(node)) == (node.op in ("reduce", "conv"))


def test_classes_of_accesses() -> None:
    x, column = of("f32"), value("c", 2, 1)
    one, moved, shuffled, many, every = classify.Mapping
    for node, kind in (
        (ops.node("exp", x), one), (relu(x), many), (ops.node("add", x, x), one),
        (transpose(x, 1, 0), shuffled),
        (ops.node("reshape", x, shape=(3, 2)), moved), (ops.node("broadcast", x, shape=(4, 2, 3)), many),
        (ops.node("add", x, column), many), (ops.node("reduce", x, combine="add", axes=(1,)), every),
        (ops.node("argsort", x, axis=1, descending=False), every), (ops.node("matmul", x, weights(3, 4)), every),
        (ops.node("slice", x, starts=(0, 1), steps=(1, 1), shape=(2, 2)), moved),
        (ops.node("iota", shape=(3, 7), axis=1), one),
    ):  # fmt: skip
        assert classify.mapping(node) is kind, node.op
    assert many.label == "one-to-many"


def test_operations_of_formulas() -> None:
    """A multiply-add is two; each function has its own price, indices have none."""
    x, picture = of("f32"), value("p", 1, 2, 5, 5)
    for node, count in (
        (ops.node("matmul", value("a", 4, 7), value("b", 7, 5)), 2 * 4 * 5 * 7), (relu(x), 6), (ops.node("exp", x), 60),
        (conv(picture, weights(3, 2, 3, 3)), 2 * 3 * 9 * 18), (pool(picture, "max", (2, 2)), 2 * 16 * 4),
        (ops.node("reduce", x, combine="add", axes=(1,)), 6), (transpose(x, 1, 0), 0), (cast(x, "i32"), 0),
        (ops.node("add", x, x), 6),
    ):  # fmt: skip
        assert classify.flops(formula(node)) == count, node.op

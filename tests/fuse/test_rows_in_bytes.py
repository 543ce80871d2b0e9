"""Normalized rows that int8 products and others read: a kernel for each, of the same values."""

from __future__ import annotations

import numpy as np
from chance import SEED
from small_graphs import arrays, graph, layernorm, number, to_bytes, value, weights

from edgec import ops
from edgec.fuse import Plan, plan
from edgec.fuse.rows_in_bytes import with_rows_in_bytes
from edgec.ir import evaluate
from edgec.ir.graph import Graph, Node


def _read_twice(scaled: bool = True) -> Graph:
    """A product, its rows normalized, and products of these as bytes and as floats."""
    row = layernorm(ops.node("matmul", value("x", 12, 16), weights(16, 32)), 1)
    row = ops.node("mul", row, weights(32)) if scaled else row
    return graph(_multiplied(to_bytes(row)), ops.node("matmul", row, weights(32, 8)))


def _multiplied(q: Node) -> Node:
    return ops.node("matmul", ops.node("cast", q, to="f32"), weights(32, 8))


def _rows(planned: Plan) -> list[str]:
    """The type of the result of each kernel of rows, and whether it comes right after another."""
    return [b.output.type.dtype for b in planned.blocks if b.kind == "row"]


def test_a_gpu_has_a_kernel_of_bytes_and_one_of_floats_side_by_side() -> None:
    for scaled in (True, False):
        planned = plan(_read_twice(scaled), gpu=True)
        assert sorted(_rows(planned)) == ["f32", "u8"]
        first, second = (k for k, b in enumerate(planned.blocks) if b.kind == "row")
        assert second == first + 1
        read = [{n for n in planned.blocks[k].inputs if not n.is_const} for k in (first, second)]
        assert read[0] == read[1]
    assert _rows(plan(_read_twice())) == ["f32"]


def test_values_are_the_same() -> None:
    made = _read_twice()
    changed = with_rows_in_bytes(made)
    assert changed is not made
    given = arrays(made, SEED)
    want, got = evaluate.run(made, given), evaluate.run(changed, given)
    for port, array in want.items():
        assert np.array_equal(array, got[port]), port


def test_what_has_one_kernel_anyway_stays() -> None:
    row = layernorm(value("x", 12, 32), 1)
    bytes_alone = graph(_multiplied(to_bytes(row)))
    no_row = ops.node("tanh", value("x", 12, 32))
    without_statistics = graph(_multiplied(to_bytes(no_row)), ops.node("add", no_row, number(1.0)))
    floats_alone = graph(ops.node("mul", row, number(2.0)), ops.node("matmul", row, weights(32, 8)))
    for made in (bytes_alone, without_statistics, floats_alone):
        assert with_rows_in_bytes(made) is made


def test_a_result_stays_one_value() -> None:
    row = layernorm(value("x", 12, 32), 1)
    made = graph(row, _multiplied(to_bytes(row)))
    assert with_rows_in_bytes(made) is made

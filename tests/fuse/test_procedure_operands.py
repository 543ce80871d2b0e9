"""Operands of procedures that others read transposed: one of the two orders is stored, in every layer."""

from __future__ import annotations

import numpy as np
from chance import SEED
from small_graphs import arrays, graph, number, softmax, transpose, value, weights

from edgec import ops
from edgec.fuse import plan
from edgec.fuse.procedure_operands import read_where_stored
from edgec.ir import evaluate
from edgec.ir.graph import Graph, Node


def _layer(x: Node) -> tuple[Node, Node]:
    """Attention of one head whose keys are scaled, and the statistics of its scores, which read the keys turned."""
    q, k = (ops.node("matmul", x, weights(24, 24, scale=0.2)) for _ in range(2))
    keys = ops.node("mul", transpose(k, 0, 2, 1), number(0.5))
    shares = softmax(ops.node("matmul", q, keys), 2)
    rows = ops.node("mul", k, number(0.5))
    return ops.node("matmul", shares, x), ops.node("attention_statistics", q, rows)


def _network() -> Graph:
    first, one = _layer(value("x", 2, 40, 24))
    second, other = _layer(first)
    return graph(second, one, other)


def test_results_stay_and_keys_are_stored_once() -> None:
    before = _network()
    after = read_where_stored(before)
    given = arrays(before, SEED)
    want, got = (evaluate.run(g, given) for g in (before, after))
    for name, array in want.items():
        np.testing.assert_allclose(got[name], array, rtol=1e-5, atol=1e-6)
    stored = [[b.output for b in plan(g, gpu=True).blocks] for g in (before, after)]
    assert len(stored[1]) == len(stored[0]) - 4  # of each layer the product and what is scaled are one block
    assert sum(n.op == "mul" for n in after.operations()) == sum(n.op == "mul" for n in before.operations()) - 2


def test_what_has_no_such_reader_stays() -> None:
    x = value("x", 2, 40, 24)
    made = graph(softmax(ops.node("matmul", x, transpose(x, 0, 2, 1)), 2))
    assert read_where_stored(made) is made

"""Scores by relative position: a padding, reshapes and slices shift each row by one more element than the last.

In between, an element's place is a quotient and a remainder; at the end, it moves against its row.
"""

from __future__ import annotations

import numpy as np
from small_graphs import graph, value, weights

from edgec import ops
from edgec.execute.executor import run_graph, run_plan
from edgec.execute.samples import random_inputs
from edgec.fuse import plan
from edgec.fuse.block import is_affine
from edgec.ir import expr as X
from edgec.ir.graph import Graph, Node

STEPS, WIDTH, HEADS = 9, 4, 2


def whole(x: Node, *shape: int) -> Node:
    return ops.node("slice", x, starts=(0,) * len(shape), shape=shape, steps=(1,) * len(shape))


def scores(shared: bool = False) -> Graph:
    """Products with keys and, shifted, with positions; rows that are not yet shifted may be ``shared`` with a sum."""
    query = value("q", HEADS, STEPS, WIDTH)
    places = ops.node("matmul", query, weights(HEADS, WIDTH, 2 * STEPS - 1))
    padded = ops.node("pad", places, before=(0, 0, 1), after=(0, 0, 0), value=0)
    lines = ops.node("reshape", padded, shape=(HEADS, 2 * STEPS, STEPS))
    rest = ops.node("slice", lines, starts=(0, 1, 0), shape=(HEADS, 2 * STEPS - 1, STEPS), steps=(1, 1, 1))
    rows = ops.node("reshape", rest, shape=(HEADS, STEPS, 2 * STEPS - 1))
    by_key = ops.node("matmul", query, value("k", HEADS, WIDTH, STEPS))
    total = ops.node("add", by_key, whole(rows, HEADS, STEPS, STEPS))
    return graph(total, ops.node("matmul", rest, weights(STEPS, 5))) if shared else graph(total)


def test_the_shift_is_a_linear_index() -> None:
    source = scores()
    found = plan(source)
    assert [b.kind for b in found.blocks] == ["contract", "contract"]
    places = [i for b in found.blocks for load in X.loads(b.formula.body) for i in load.args]
    assert not any(e.op in ("floordiv", "floormod") for i in places for e in X.walk(i))
    inputs = random_inputs(source, 0)
    np.testing.assert_allclose(run_plan(found, inputs)["y0"], run_graph(source, inputs)["y0"], rtol=1e-5)


def test_rows_that_another_sum_reads_are_stored() -> None:
    """The shift would end at memory that has the rows as they are in between."""
    source = scores(shared=True)
    found = plan(source)
    assert all(is_affine(b.formula) for b in found.blocks if b.kind == "contract")
    inputs = random_inputs(source, 0)
    for name, array in run_graph(source, inputs).items():
        np.testing.assert_allclose(run_plan(found, inputs)[name], array, rtol=1e-5)

"""Two reductions are one kernel over rows where they go along the same axes, and never else."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import small_graphs as g

from edgec.fuse import plan
from edgec.ir.evaluate import run
from edgec.ir.graph import Graph
from edgec.ir.registry import node

AXES = ((0,), (1,), (2,), (0, 1), (1, 2), (0, 2))


def normalized(first: tuple[int, ...], second: tuple[int, ...]) -> Graph:
    """Softmax whose maximum and sum go along axes of their own: all extents are alike, so that shapes tell nothing."""
    x = g.value("x", 4, 4, 4)
    e = node("exp", node("sub", x, node("reduce", x, combine="max", axes=first)))
    return g.graph(node("div", e, node("reduce", e, combine="add", axes=second)))


@pytest.mark.parametrize("first, second", [*product(AXES, repeat=2)])
def test_reductions_of_a_row(first: tuple[int, ...], second: tuple[int, ...]) -> None:
    graph = normalized(first, second)
    made = plan(graph)
    assert (len(made.blocks) == 1) == (first == second), [[n.op for n in b.nodes] for b in made.blocks]
    given = g.arrays(graph, 1)
    values = {n: given[str(n.attributes["name"])] for n in graph.inputs}
    for block in made.blocks:
        values[block.output] = block.evaluate(values.__getitem__)
    for name, result in run(graph, given).items():
        end = next(n for of, n in made.outputs if of == name)
        np.testing.assert_allclose(values[end], result, rtol=1e-5)

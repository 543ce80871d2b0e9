"""Graphs that once went wrong: loops under a padding's condition, borders, depth, shared work, places that are data."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
import small_graphs as g
from compiled import Compiled, compile_graphs

from edgec.ir.evaluate import run
from edgec.ir.graph import Graph, Node, constant, placeholder
from edgec.ir.types import DTYPES, Type
from edgec.ops import node


def _padded_mean() -> tuple[Node, ...]:
    x = placeholder("x", Type("f32", (3, 20, 50)))
    padded = node("pad", x, before=(0, 0, 0), after=(0, 4, 0), value=1.0)
    return x, node("reduce", padded, combine="add", axes=(1, 2))


def _padded_product() -> tuple[Node, ...]:
    a, b = placeholder("a", Type("f32", (6, 1, 4, 5))), placeholder("b", Type("f32", (1, 20, 2, 5)))
    padded = node("pad", b, before=(0, 0, 1, 0), after=(0, 0, 1, 0), value=0.0)
    return a, b, node("reduce", node("mul", a, padded), combine="add", axes=(2, 3))


def _half_border() -> tuple[Node, ...]:
    x = placeholder("x", Type("f16", (1, 8, 9, 9)))
    padded = node("pad", x, before=(0, 0, 1, 1), after=(0, 0, 1, 1), value=-inf)
    return x, node("pool", padded, combine="max", kernel=(3, 3), strides=(2, 2), dilations=(1, 1))


def _two_borders() -> tuple[Node, ...]:
    """An input is copied for its border; the second border finds a copy, which the graph does not know."""
    x = placeholder("x", Type("f32", (1, 4, 6, 7)))
    pools = [
        node(
            "pool",
            node("pad", x, before=(0, 0, k, k), after=(0, 0, k, k), value=0.0),
            combine="max", kernel=(2 * k + 1, 2 * k + 1), strides=(1, 1), dilations=(1, 1),
        )
        for k in (1, 2)
    ]  # fmt: skip
    return x, node("mul", *pools)


def _deep_chain() -> tuple[Node, ...]:
    x = placeholder("x", Type("f32", (64,)))
    y = x
    for _ in range(400):
        y = node("sin", node("mul", y, constant(np.array([1.5], np.float32))))
    return x, y


def _deep_movement() -> tuple[Node, ...]:
    x = placeholder("x", Type("f32", (3, 5)))
    y = x
    for _ in range(1001):
        y = node("transpose", y, perm=(1, 0))
    return x, y


def _shared_integers() -> tuple[Node, ...]:
    """y = y * y + x: printed as a tree it would double at every step."""
    x = placeholder("x", Type("i64", (4,)))
    y = x
    for _ in range(30):
        y = node("add", node("mul", y, y), x)
    return x, y


def _weighted_rows() -> tuple[Node, ...]:
    """Rows chosen by data are the factor that gives the lanes, so that where they lie is computed in the loop."""
    rows, places = placeholder("rows", Type("f32", (20, 33))), placeholder("places", Type("i64", (6, 3)))
    weights = placeholder("weights", Type("f32", (6, 3, 1)))
    weighted = node("mul", node("gather", rows, places, axis=0), weights)
    return rows, places, weights, node("reduce", weighted, combine="add", axes=(1,))


GRAPHS = {
    f.__name__[1:]: f
    for f in (
        _padded_mean, _padded_product, _half_border, _two_borders, _deep_chain, _deep_movement, _shared_integers,
        _weighted_rows,
    )
}  # fmt: skip


@pytest.mark.parametrize("name", GRAPHS)
def test_right(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    *inputs, output = GRAPHS[name]()
    graph = Graph(tuple(inputs), (("y", output),))
    compiled = compile_graphs({name: graph}, tmp_path_factory.mktemp(name))[name]
    assert isinstance(compiled, Compiled)
    random = np.random.default_rng(7)
    given = {
        i.attributes["name"]: (3 * random.standard_normal(i.type.shape)).astype(DTYPES[i.type.dtype]) for i in inputs
    }
    got, want = compiled(given)["y"].astype(float), run(graph, given)["y"].astype(float)
    assert np.abs(got - want).max() <= 1e-5 * np.abs(want).max()


def test_padding_that_is_an_output_and_read_by_windows(tmp_path_factory: pytest.TempPathFactory) -> None:
    """It was a view of the copy that the windows read, and the output was never written."""
    x = g.value("x", 1, 3, 6, 6)
    graphs = {}
    for name, before in {
        "input": x,
        "relu": g.relu(x),
        "cut": node("slice", x, starts=(0, 0, 1, 1), steps=(1,) * 4, shape=(1, 3, 4, 4)),
    }.items():
        for border in (0.0, 1.0):
            padded = g.pad(before, 0, 0, (1, 2), 1, to=border)
            for reader, read in {
                "pool": g.pool(padded, "max", (3, 3)),
                "conv": g.conv(padded, g.weights(2, 3, 3, 3)),
            }.items():
                graphs[f"{name} {border} {reader}"] = g.graph(padded, read, before)
    for name, compiled in compile_graphs(graphs, tmp_path_factory.mktemp("padded")).items():
        assert isinstance(compiled, Compiled)
        given = g.arrays(graphs[name], 3)
        for output, want in run(graphs[name], given).items():
            np.testing.assert_allclose(compiled(given)[output], want, atol=1e-5, err_msg=f"{name} {output}")

"""Scattering refuses what has no meaning: updates of another type, an unknown combination, sums of stored types."""

from __future__ import annotations

import numpy as np
import pytest
from small_graphs import value

from edgec.errors import ModelError
from edgec.execute.executor import run_graph
from edgec.ir.graph import Graph, constant, placeholder
from edgec.ir.types import Type
from edgec.ops import node


def scattered(kind: str, dtype: str = "f32", updates: str = "f32", **attributes: object) -> object:
    """A scattering of either kind of 2 updates into 4 elements."""
    x, u = placeholder("x", Type(dtype, (4,))), placeholder("u", Type(updates, (2,)))
    places = np.array([3, 1] if kind == "scatter_elements" else [[3], [1]], np.int64)
    return node(kind, x, constant(places), u, **attributes)


KINDS = {"scatter_elements": {"axis": 0}, "scatter_nd": {}}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "dtype, updates, combine, said",
    [
        ("f32", "i32", "last", "updates of type i32 for elements of type f32"),
        ("f32", "f32", "middle", "cannot be combined by 'middle'"),
        ("i4", "i4", "add", "combining updates of i4"),
    ],
)
def test_what_has_no_meaning_is_refused(kind: str, dtype: str, updates: str, combine: str, said: str) -> None:
    with pytest.raises(ModelError, match=said):
        scattered(kind, dtype, updates, combine=combine, **KINDS[kind])


@pytest.mark.parametrize("combine", ["last", "add", "mul", "max", "min"])
@pytest.mark.parametrize("axis", [0, 1])
def test_elements_and_rows_as_loops_say(combine: str, axis: int) -> None:
    """Every combination along every axis, by a loop over the updates in order; a row is as long as it likes."""
    random = np.random.default_rng(0)
    meaning = {"last": lambda a, b: b, "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
    x, u = (random.integers(-9, 9, shape).astype(np.float32) for shape in ((5, 6), (4, 6) if not axis else (5, 4)))
    places = random.integers(-x.shape[axis], x.shape[axis], u.shape)
    if combine == "last":  # in what order, the standard leaves open where a place comes twice
        places = (
            np.argsort(random.random(x.shape), axis)[:4] if not axis else np.argsort(random.random(x.shape), 1)[:, :4]
        )
    want = x.copy()
    for at in np.ndindex(*u.shape):
        to = tuple(int(places[at]) if d == axis else at[d] for d in range(2))
        want[to] = meaning[combine](want[to], u[at])
    made = node(
        "scatter_elements", value("x", *x.shape), constant(places), value("u", *u.shape), axis=axis, combine=combine
    )
    graph = Graph(tuple(n for n in made.args if n.op == "input"), (("y", made),))
    assert np.array_equal(run_graph(graph, {"x": x, "u": u})["y"], want)
    rows = np.array([[4], [0], [-2]])
    news = random.integers(-9, 9, (3, 6)).astype(np.float32)
    want = x.copy()
    for k, (row,) in enumerate(rows.tolist()):
        want[row] = meaning[combine](want[row], news[k])
    made = node("scatter_nd", value("x", 5, 6), constant(rows), value("u", 3, 6), combine=combine)
    graph = Graph(tuple(n for n in made.args if n.op == "input"), (("y", made),))
    assert np.array_equal(run_graph(graph, {"x": x, "u": news})["y"], want)

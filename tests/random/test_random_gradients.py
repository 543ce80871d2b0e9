"""Gradients of random graphs, operator by operator, against central differences in double precision."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from chance import GIVEN
from compiled import Compiled, compile_graphs, target
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from random_graphs import GraphMaker
from random_values import Case, arrays
from small_graphs import doubled
from test_random_graphs import difference as difference_of
from test_random_graphs import drawn, noise

from edgec.differentiate import gradients
from edgec.errors import ModelError
from edgec.ir import evaluate
from edgec.ir.graph import Graph, constant, topological
from edgec.ir.text import show
from edgec.rewrite import simplify

COUNT = int(os.environ.get("EDGEC_RANDOM_GRAPHS", "12"))
KINDS = sorted(name[5:] for name in dir(GraphMaker) if name.startswith("step_"))
Arrays = Mapping[str, np.ndarray]


@st.composite
def graphs(draw, kind: str) -> Graph | None:  # type: ignore[no-untyped-def]
    maker = GraphMaker(draw, draw(st.integers(1, 6)) == 1)
    for _ in range(2):
        getattr(maker, f"step_{kind}")()
    found = [v.node for v in maker.values if v.dtype in ("f32", "f64")]
    if not found or "f16" in {n.type.dtype for n in topological(found[-1:])}:
        return None  # steps of half precision are no slopes
    return doubled(Graph(tuple(maker.inputs), (("y", found[-1]),)))


def rough(graph: Graph, random: np.random.Generator) -> dict[str, np.ndarray]:
    """Inputs away from the whole numbers, where functions have corners and steps."""
    given = arrays(graph, int(random.integers(2**32)))
    # Indices are inside of every dimension: what is outside has no derivative, and a network ends with a status.
    least = min((e for n in graph.nodes() for e in n.type.shape if isinstance(e, int) and e), default=1)
    return {
        k: v + random.uniform(0.1, 0.4, v.shape) if v.dtype == np.float64 else v % least if v.dtype.kind == "i" else v
        for k, v in given.items()
    }


def check(graph: Graph, random: np.random.Generator) -> bool:
    """Every input along a random direction; False where there is a corner in between."""
    ((_, result),) = graph.outputs
    by = [n for n in graph.inputs if n.type.dtype == "f64"]
    weights = random.uniform(0.5, 1.5, result.type.shape)
    found = gradients(result, by, seed=constant(weights))
    derived = Graph(graph.inputs, tuple((n.attributes["name"], g) for n, g in zip(by, found) if g is not None))
    inputs = rough(graph, random)
    got = evaluate.run(derived, inputs)
    smooth = True
    for n in by:
        name = n.attributes["name"]
        assert name not in got or got[name].shape == n.type.shape
        way = random.standard_normal(n.type.shape)
        slopes = [difference(graph, inputs, name, way * h, weights) / (2 * h) for h in (1e-5, 1e-6)]
        slope = float(np.sum(got[name] * way)) if name in got else 0.0
        scale = max(1.0, float(np.sum(np.abs(got.get(name, np.zeros(1))))))
        if abs(slopes[0] - slopes[1]) > 1e-4 * scale:
            smooth = False
        else:
            assert abs(slope - slopes[0]) <= 2e-4 * scale, f"{slope} for {slopes[0]} by {name}\n{show(graph)}"
    return smooth


def difference(graph: Graph, inputs: Arrays, name: str, step: np.ndarray, weights: np.ndarray) -> float:
    ahead, behind = (evaluate.run(graph, {**inputs, name: inputs[name] + s})["y"] for s in (step, -step))
    return float(np.sum((ahead - behind) * weights))


def with_gradients(case: Case) -> Graph | None:
    """The gradients of the last result of floats by all inputs, weighted by themselves."""
    graph = case.graph
    real = [n for _, n in graph.outputs if n.type.dtype == "f32"]
    by = [n for n in graph.inputs if n.type.dtype == "f32"]
    try:
        found = gradients(real[-1], by, seed=real[-1]) if real else ()
    except ModelError as error:
        assert "derivative" in error.message
        return None
    outputs = tuple((n.attributes["name"], g) for n, g in zip(by, found) if g is not None)
    return Graph(graph.inputs, outputs) if outputs else None


def test_compiled(tmp_path: Path) -> None:
    """Gradients of whole random graphs through all stages and the C compiler."""
    where = target("host")
    derived = {str(k): (g, arrays(g, k)) for k, case in enumerate(drawn()[:30]) if (g := with_gradients(case))}
    assert len(derived) > 10
    simple = {name: simplify(g)[0] for name, (g, _) in derived.items()}
    made = compile_graphs(simple, tmp_path, True, where.flags, where.device, threads=2)
    for name, (graph, inputs) in derived.items():
        compiled = made[name]
        assert isinstance(compiled, Compiled), compiled
        want, got = evaluate.run(graph, inputs), compiled(inputs)
        case = Case(graph, frozenset())
        found = difference_of(case, got, want)
        if found:
            found = difference_of(case, got, want, noise(graph, inputs, want))
        assert found is None, f"graph {name}: {found}\n{show(graph)}"


@pytest.mark.parametrize("kind", KINDS)
def test_central_differences(kind: str) -> None:
    smooth = []

    @settings(
        max_examples=COUNT, derandomize=GIVEN is None, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(graphs(kind), st.integers(0, 2**32 - 1))
    def checked(graph: Graph | None, number: int) -> None:
        if graph is None:
            return
        try:
            smooth.append(check(graph, np.random.default_rng(number)))
        except ModelError as error:
            assert "derivative" in error.message

    (seed(int(GIVEN))(checked) if GIVEN is not None else checked)()
    assert kind in ("compact",) or sum(smooth) > len(smooth) / 2, f"{sum(smooth)} of {len(smooth)}"

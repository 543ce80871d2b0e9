"""Violations are found whatever the numbers that are drawn, and conditions together prove what is so."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
import small_graphs as g
from bounded import network
from chance import RANDOM

from edgec.certify import attack, conditions, cut, search
from edgec.certify.parts import Parts
from edgec.certify.properties import Case, Clause, first_met
from edgec.certify.spec import Spec
from edgec.execute.executor import run_graph
from edgec.ir.graph import Graph
from edgec.ir.registry import node
from edgec.progress import silent

F = np.float32
Arrays = dict[str, np.ndarray]


def _narrow(radius: float, outputs: int = 2) -> tuple[Graph, Case]:
    """A network whose outputs are all near to those of one input of the box in a narrow part of it alone."""
    h = g.relu(node("add", node("matmul", g.value("x", 1, 5), g.weights(5, 20)), g.weights(20)))
    h = g.relu(node("add", node("matmul", h, g.weights(20, 20, scale=0.3)), g.weights(20, scale=0.3)))
    graph = g.graph(node("matmul", h, g.weights(20, outputs, scale=0.3)))
    y = run_graph(graph, {"x": RANDOM.uniform(-0.8, 0.8, (1, 5)).astype(F)})["y0"].reshape(-1).astype(np.float64)
    rows = np.concatenate([np.eye(outputs), -np.eye(outputs)]).reshape(-1, 1, outputs)
    never = Clause({"y0": np.zeros((1, 1, outputs))}, np.array([-1.0]))
    near = Clause({"y0": rows}, np.concatenate([y, -y]) + radius)
    return graph, Case({"x": -np.ones((1, 5))}, {"x": np.ones((1, 5))}, (never, near))


def _found(graph: Graph, case: Case, seed: int) -> Arrays | None:
    net = network(graph)
    clauses = case.clauses
    run = lambda x: run_graph(graph, x)  # noqa: E731
    found = attack.attack(net, case, Spec.of(clauses), run, np.random.default_rng(seed))
    if found is not None:
        assert attack.inside(case, found) and first_met(clauses, run(found)) is not None
    return found


def test_violations_are_found_with_every_seed() -> None:
    """About one of 10^6 inputs is one."""
    graph, case = _narrow(1e-3)
    assert all(_found(graph, case, seed) is not None for seed in range(3))


def test_inputs_that_do_not_move_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted mistake: no step is taken, so that what is found is found by luck."""
    monkeypatch.setattr(attack, "played", lambda values, slopes, low, high: np.zeros_like(low))
    assert any(_found(*_narrow(1e-3), seed) is None for seed in range(3))


def test_steps_against_one_condition_alone_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted mistake: each step goes as far as it reaches against the greatest condition."""

    def signs(values, slopes, low, high):  # type: ignore[no-untyped-def]
        slope = slopes[np.arange(len(values)), values.argmax(1)]
        return np.where(slope > 0, low, np.where(slope < 0, high, 0.0))

    monkeypatch.setattr(attack, "played", signs)
    assert any(_found(*_narrow(1e-4), seed) is None for seed in range(3))


def _games(count: int) -> tuple[np.ndarray, ...]:
    least, slopes = RANDOM.normal(-0.5, 1, (count, 3)), RANDOM.standard_normal((count, 3, 4))
    low = RANDOM.standard_normal((count, 4))
    return least, slopes, low, low + RANDOM.uniform(0, 2, (count, 4))


def _above_a_point(refuted: Callable[..., tuple[np.ndarray, ...]]) -> tuple[float, float]:
    """The most by which margins are above the greatest condition at a point of the box, and their mean height above the
    best condition alone."""
    least, slopes, low, high = _games(200)
    margin, nearest, _ = refuted(least, slopes, low, high)
    assert (nearest >= low).all() and (nearest <= high).all()
    drawn = [low + (high - low) * RANDOM.random(low.shape) for _ in range(300)]
    over = -np.inf
    for x in (nearest, *drawn):
        away = np.where(slopes > 0, (x - low)[:, None], (x - high)[:, None])
        over = max(over, float((margin - (least + (slopes * away).sum(-1)).max(1)).max()))
    return over, float((margin - least.max(1)).mean())


def test_conditions_together_are_missed_by_no_more_than_at_any_point() -> None:
    over, gain = _above_a_point(conditions.refuted_by)
    assert over <= 0 and gain > 0.1


def test_weights_whose_slopes_are_forgotten_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted mistake: the weighted sum is taken to have no slope at all."""

    def refuted(least, slopes, low, high):  # type: ignore[no-untyped-def]
        margin, nearest, weights = conditions.refuted_by(least, slopes, low, high)
        return margin + 0.5 * (np.abs(slopes).sum(1) * (high - low) / 2).sum(1), nearest, weights

    assert _above_a_point(refuted)[0] > 0


def _beyond_exact() -> int:
    """The number of margins of two conditions against each other that are above what exact arithmetic gives."""
    count, beyond = 400, 0
    least = RANDOM.uniform(-3, -1, (count, 2))
    slope = RANDOM.uniform(6, 9, count)
    slopes = np.stack([slope, -slope], 1)[:, :, None]
    low = RANDOM.uniform(-1, 1, (count, 1))
    high = low + RANDOM.uniform(1, 2, (count, 1))
    margin, _, _ = conditions.refuted_by(least, slopes, low, high)
    for k in range(count):
        width, steep = Fraction(float(high[k, 0])) - Fraction(float(low[k, 0])), Fraction(float(slope[k]))
        # Where both are equal: one has grown from the lower end, the other from the upper one.
        exact = (sum(Fraction(float(x)) for x in least[k]) + steep * width) / 2
        beyond += Fraction(float(margin[k])) > exact
    return beyond


def test_roundoffs_of_conditions_together_are_counted() -> None:
    assert not _beyond_exact()


def test_roundoffs_that_are_not_counted_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditions, "U64", 0.0)
    assert _beyond_exact()


def test_nothing_is_concluded_of_what_is_not_known() -> None:
    least, slopes, low, high = _games(4)
    least[0], least[1, 0], slopes[2, :, 1], slopes[3, 0, 0] = np.nan, -np.inf, np.nan, np.inf
    margin, nearest, _ = conditions.refuted_by(least, slopes, low, high)
    assert margin[0] < -1e200 and margin[2] < -1e200 and np.isfinite(nearest).all()
    assert (margin[[1, 3]] <= least[[1, 3], 1:].max(1) + 50).all()


def test_conditions_together_spare_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """y <= 0 and y >= 1, each of which is met somewhere, at no input together."""
    h = g.relu(node("matmul", g.value("x", 1, 3), g.weights(3, 8)))
    graph = g.graph(node("matmul", h, g.weights(8, 1)))
    clause = Clause({"y0": np.array([1.0, -1.0]).reshape(2, 1, 1)}, np.array([0.0, -0.3]))
    case = Case({"x": -np.ones((1, 3))}, {"x": np.ones((1, 3))}, (clause,))
    together = search.decide(network(graph), case, lambda x: run_graph(graph, x), 20.0, silent)

    def alone(least, slopes, low, high):  # type: ignore[no-untyped-def]
        return least.max(1), *conditions.refuted_by(least, slopes, low, high)[1:]

    monkeypatch.setattr(cut, "refuted_by", alone)
    apart = search.decide(network(graph), case, lambda x: run_graph(graph, x), 20.0, silent)
    assert together.status == apart.status == "holds" and together.parts < apart.parts


def test_parts_come_as_they_were_added() -> None:
    parts, model = Parts(low=np.zeros((1, 2)), margin=np.zeros(1)), [(0.0, 0.0)]
    for step in range(60):
        count = int(RANDOM.integers(1, 9))
        if step % 3 == 0 and model:
            taken = parts.worst(count, "margin")
            kept = sorted(model)[len(taken["margin"]) :]
            assert sorted(taken["margin"]) == sorted(m for m, _ in model)[: min(count, len(model))]
            model = [pair for pair in model if pair in kept]
        elif step % 3 == 1 and model:
            taken = parts.last(count)
            assert list(taken["margin"]) == [m for m, _ in model[-count:]]
            model = model[:-count]
        else:
            taken = {"margin": np.zeros(0), "low": np.zeros((0, 2))}
            margin = RANDOM.standard_normal(3 * count)
            parts.add(low=np.stack([2 * margin, margin], 1), margin=margin)
            model += [(float(m), 2 * float(m)) for m in margin]
        assert (taken["low"][:, 0] == 2 * taken["margin"]).all() and parts.count == len(model)


def test_parts_of_the_worst_bounds_are_not_left_for_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some batches begin with the worst bounds."""
    graph, case = _narrow(1e-9)
    asked: list[str] = []
    worst, last = Parts.worst, Parts.last
    monkeypatch.setattr(Parts, "worst", lambda self, *given: asked.append("worst") or worst(self, *given))
    monkeypatch.setattr(Parts, "last", lambda self, *given: asked.append("last") or last(self, *given))
    monkeypatch.setattr(cut.Cut, "_violated", lambda *given: None)
    monkeypatch.setattr(search, "attack", lambda *given, **more: None)
    search.decide(network(graph), case, lambda x: run_graph(graph, x), 0.7, silent)
    assert asked.count("worst") >= 2 and asked.count("last") > 2 * asked.count("worst")

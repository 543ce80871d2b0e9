"""Ranges of the inputs that meet a clause, and searches in single precision."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest
import small_graphs as g
from bounded import network
from chance import RANDOM

from edgec.certify import narrowed
from edgec.certify.bounds import Bounds
from edgec.certify.choices import sites_of
from edgec.certify.domain import Domain
from edgec.certify.momentum import Momentum
from edgec.certify.narrowed import Narrowing
from edgec.certify.network import Network
from edgec.certify.properties import Case, Clause
from edgec.certify.relaxed import Relaxed
from edgec.certify.single import Single
from edgec.certify.slopes import Goal
from edgec.certify.spec import Spec
from edgec.execute.executor import run_graph
from edgec.ir.graph import Graph, constant
from edgec.ir.registry import node

F = np.float32


@dataclass
class _Drawn:
    """A network of 30 inputs, one box of it, and what drawn inputs give: in front of the choices, and behind all."""

    graph: Graph
    net: Network
    domain: Domain
    root: Bounds
    points: np.ndarray
    before: list[np.ndarray]
    results: np.ndarray

    def clause(self, part: float) -> Clause:
        """A condition that this part of the drawn inputs meets."""
        weights = np.array([[[1.0, -1.0]]])
        return Clause({"y0": weights}, np.array([np.quantile(self.results @ weights[0, 0], part)]))

    def case(self, clause: Clause) -> Case:
        (x,) = self.domain.low
        return Case({"x": self.domain.low[x][0]}, {"x": self.domain.high[x][0]}, (clause,))


def _drawn(eps: float = 0.3) -> _Drawn:
    sizes = (30, 16, 12, 2)
    weights = [(RANDOM.standard_normal(s) / np.sqrt(s[0])).astype(F) for s in pairwise(sizes)]
    h = g.value("x", 1, 30)
    first = node("matmul", h, constant(weights[0]))
    h = node("min", node("max", first, g.number(0.1)), g.number(1.0))
    second = node("matmul", h, constant(weights[1]))
    graph = g.graph(node("matmul", g.relu(second), constant(weights[2])))
    net = network(graph)
    center = RANDOM.standard_normal((1, 30)).astype(F)
    (x,) = net.inputs.values()
    domain = Domain({x: (center - eps).astype(np.float64)[None]}, {x: (center + eps).astype(np.float64)[None]})
    move = RANDOM.uniform(-1, 1, (4000, 30))
    move[::2] = np.sign(move[::2])
    points = center + eps * 0.999 * move
    before = [points @ weights[0]]
    before += [np.maximum(before[0], 0.1)]
    before += [np.minimum(before[1], 1.0) @ weights[1]]
    return _Drawn(graph, net, domain, net.bounds(domain), points, before, np.maximum(before[2], 0) @ weights[2])


def _narrowed(d: _Drawn, clause: Clause) -> tuple[float, float]:
    """By how much inputs that meet the clause leave the ranges at most, and the mean width beside that of the box."""
    spec, sites = Spec.of([clause]), sites_of(d.net)
    ranges = {n: (r.low, r.high) for n, r in d.root.exact.items() if n in d.net.rules and n not in d.net.stored}
    narrowing = Narrowing(Single(d.net, sites, d.root), spec)
    is_empty = narrowing.run(d.domain, ranges, {}, np.inf)
    met = d.results @ clause.weights["y0"][0, 0] <= clause.limits[0]
    if is_empty:
        return (np.inf if met.any() else 0.0), 0.0
    left, widths = 0.0, []
    for site, values in zip(sites, d.before):
        low, high = ranges[site.operand]
        outside = np.maximum(low[0] - values[met], values[met] - high[0])
        left = max(left, float(outside.max(initial=0.0)))
        whole = d.root.exact[site.operand]
        widths.append(float((high - low).sum() / (whole.high - whole.low).sum()))
    return left, float(np.mean(widths))


def test_inputs_that_meet_a_clause_are_in_its_ranges() -> None:
    widths = []
    for _ in range(8):
        d = _drawn()
        for part in (0.002, 0.1, 0.5):
            left, width = _narrowed(d, d.clause(part))
            assert left <= 1e-6
            widths.append(width)
    assert min(widths) < 0.95


def test_limits_that_are_moved_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = narrowed.proved

    def moved(network, spec, *more):  # type: ignore[no-untyped-def]
        return right(network, replace(spec, limits=spec.limits - 1.0), *more)

    monkeypatch.setattr(narrowed, "proved", moved)
    drawn = [_drawn() for _ in range(8)]
    assert max(_narrowed(d, d.clause(0.1))[0] for d in drawn) > 1e-3


def test_bounds_in_single_precision_are_those_of_the_network() -> None:
    for _ in range(8):
        d = _drawn()
        spec = Spec.of([d.clause(0.5)])
        single, goal = Single(d.net, sites_of(d.net), d.root), Goal.of(d.net, spec)
        relaxed = Relaxed(single, d.root)
        shares = {n: b.usual() for n, b in relaxed.bends.items()}
        made = relaxed.back(goal.rows, shares, {})
        wanted, _ = d.net.back(spec.rows(d.net, 1), d.root, {n: single.whole(n, x) for n, x in shares.items()})
        assert abs(float(made.least[0] - wanted[0, 0])) < 1e-4
        values = relaxed.follow(made)
        assert values is not None
        (y,) = goal.rows
        assert abs(float(values[y][0] @ goal.rows[y][0]) - float(made.least[0])) < 1e-4


def _found(d: _Drawn) -> bool:
    clause = d.clause(0.0)
    clause = replace(clause, limits=clause.limits - 0.1)
    single, spec = Single(d.net, sites_of(d.net), d.root), Spec.of([clause])
    search = Momentum.of(single, d.case(clause), spec, lambda x: run_graph(d.graph, x), d.domain)
    assert search is not None
    found = search.draw(np.random.default_rng(0), np.inf)
    if found is not None:
        assert clause.excess(run_graph(d.graph, found)) <= 0
    return found is not None


def test_violations_beyond_all_that_was_drawn_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = [_drawn() for _ in range(8)]
    found = sum(map(_found, drawn))
    monkeypatch.setattr(Momentum, "_gradient", lambda self, rows, slopes: {n: 0 * x for n, x in self.low.items()})
    assert found > sum(map(_found, drawn))

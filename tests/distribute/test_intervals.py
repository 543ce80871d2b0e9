"""Consecutive intervals: the DP finds what trying everything finds, on drawn costs and on drawn networks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from math import inf

import numpy as np
import pytest
from small_graphs import conv, graph, relu, value, weights

from edgec.distribute.consecutive import along, chain_of, in_sequence, stage_cost, within
from edgec.distribute.intervals import best_intervals
from edgec.distribute.links import links_of
from edgec.distribute.places import Speed, places_of
from edgec.distribute.prices import Prices
from edgec.distribute.timeline import Job, predict
from edgec.ir.graph import Graph
from edgec.ops import node
from edgec.options import resolve


def everything(items: int, workers: int) -> Iterator[tuple[int, ...]]:
    for cuts in combinations(range(1, items), workers - 1):
        yield (*cuts, items)


@pytest.mark.parametrize("seed", range(20))
def test_equals_exhaustive_search_on_drawn_costs(seed: int) -> None:
    random = np.random.default_rng(seed)
    items, workers = int(random.integers(3, 9)), int(random.integers(1, 4))
    table = random.uniform(0, 1, (workers, items + 1, items + 1))

    def cost(w: int, i: int, j: int) -> float:
        return float(table[w, i, j])

    def largest(ends: tuple[int, ...]) -> float:
        return max(cost(w, i, j) for w, (i, j) in enumerate(zip((0, *ends), ends)))

    found, ends = best_intervals(items, workers, cost)
    assert found == min(map(largest, everything(items, workers))) == largest(ends)


def test_too_few_items() -> None:
    assert best_intervals(2, 3, lambda w, i, j: 1.0) == (inf, ())


def drawn(seed: int) -> Graph:
    """A few convolutions with branches that meet again."""
    random = np.random.default_rng(seed)
    x = value("x", 1, 4, 12, 12)
    made = [x]
    for _ in range(5):
        a = made[int(random.integers(max(0, len(made) - 2), len(made)))]
        y = relu(conv(a, weights(4, 4, 1, 1)))
        made.append(node("add", y, a) if random.integers(2) else y)
    return graph(made[-1])


@pytest.mark.parametrize("seed", range(6))
def test_pipelines_equal_exhaustive_search_on_drawn_networks(seed: int) -> None:
    options = resolve({})
    prices = Prices((options,) * 3, (1.0, 1.3, 0.7))
    speeds = [Speed(1e8, 1e-4), Speed(3e8, 1e-4), Speed(1e9, 1e-5)]
    links = links_of(places_of(["host@ssh:board"] * 3), speeds)
    g = drawn(seed)
    plan = prices.planned(g, 0)
    chain = chain_of(plan, prices.of_blocks(plan))
    cost = stage_cost(chain, links)
    n = len(chain.values)
    for workers in (1, 2, 3):
        if workers > len(chain.values):
            continue

        def largest(ends: tuple[int, ...]) -> float:
            return max(cost(w, i, j) for w, (i, j) in enumerate(zip((0, *ends), ends)))

        best, ends = best_intervals(len(chain.values), workers, cost)
        assert best == pytest.approx(min(map(largest, everything(len(chain.values), workers))), rel=1e-12)
        found = in_sequence(chain, links, workers)
        assert found is not None and found == along(chain, ends)
        heaviest = {e: max(chain.weights[i][j] for i, j in zip((0, *e), e)) for e in everything(n, workers)}
        for limit in sorted(set(heaviest.values())):
            under = [largest(e) for e, most in heaviest.items() if most <= limit]
            best, ends = best_intervals(n, workers, within(chain, cost, limit))
            assert best == pytest.approx(min(under), rel=1e-12) and heaviest[ends] <= limit
        lightest = in_sequence(chain, links, workers, 1)
        assert lightest in [along(chain, e) for e, most in heaviest.items() if most == min(heaviest.values())]


def test_no_period_is_shorter_than_the_work_of_a_worker() -> None:
    """Parts that take turns on both workers end close together, many frames at once, and are no faster for that."""
    jobs = [Job(k % 2, 0.01, 1000, 1000, (k - 2, k - 1) if k % 2 == 0 and k else (k - 3, k - 2) if k > 1 else ())
            for k in range(8)]  # fmt: skip
    links = links_of(places_of(["host@ssh:board"] * 2), [Speed(1e9, 1e-4)] * 2)
    for frames in (1, 4, 9, 40):
        found = predict(jobs, links, frames)
        assert found.period_s >= 0.04 and found.latency_s >= 0.04

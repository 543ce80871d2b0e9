"""Shardings by an integer program: what exhaustive search finds, on drawn graphs and limits on memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations, product
from math import inf

import numpy as np
import pytest

from edgec.distribute import ilp
from edgec.distribute.ilp import Solution, solve
from edgec.distribute.problem import Edge, Problem, Sharding

pytest.importorskip("scipy")

#: Readers of every block: branches that meet again, what is carried past blocks, and what divides for good.
GRAPHS: dict[str, tuple[tuple[int, int], ...]] = {
    "diamond": ((0, 1), (0, 2), (1, 3), (2, 3)),
    "residual chain": ((0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (2, 4)),
    "branches": ((0, 1), (0, 2), (0, 3), (1, 4), (3, 5)),
    "long skip": ((0, 1), (1, 2), (2, 3), (3, 4), (0, 4), (1, 3)),
    "chain": tuple((k, k + 1) for k in range(7)),
    "two towers": ((0, 1), (1, 2), (3, 4), (4, 5), (5, 6), (2, 7), (6, 7)),
}


def drawn(name: str, seed: int, shardings: int = 4) -> Problem:
    """A problem of a graph with costs, fits and weights of two workers that are drawn."""
    random = np.random.default_rng(seed)
    edges = GRAPHS[name]
    blocks = tuple(
        tuple(
            Sharding(random.uniform(0.1, 1), tuple(map(int, random.integers(0, 100, 2))), random.uniform(0, 0.5),
                     bool(random.integers(2)))
            for _ in range(shardings)
        )
        for _ in range(1 + max(map(max, edges)))
    )  # fmt: skip
    pairs = list(product(range(shardings), repeat=2))

    def some(part: float) -> frozenset[tuple[int, int]]:
        return frozenset(p for p in pairs if random.uniform() < part)

    return Problem(
        blocks, tuple(Edge(a, b, tuple(random.uniform(0, 0.5, shardings)), some(0.4), some(0.05)) for a, b in edges)
    )


def assignments(problem: Problem, chosen: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    """All choices of shardings without a refused pair."""
    if len(chosen) == len(problem.blocks):
        yield chosen
        return
    for k in range(len(problem.blocks[len(chosen)])):
        more = (*chosen, k)
        ends = (e for e in problem.edges if e.reader == len(chosen))
        if all((more[e.producer], k) not in e.refused for e in ends):
            yield from assignments(problem, more)


def exhaustive(problem: Problem, limits: Sequence[int | None]) -> list[float]:
    """The least seconds under each limit: all shardings, with all sets of further edges that cross."""
    least = [inf] * len(limits)
    subsets: dict[frozenset[Edge], list[frozenset[Edge]]] = {}
    for chosen in assignments(problem):
        if not any(b[k].is_shared for b, k in zip(problem.blocks, chosen)):
            continue
        heaviest = max(problem.weights(chosen))
        open_ = [n for n, limit in enumerate(limits) if limit is None or heaviest <= limit]
        worst = max((least[n] for n in open_), default=0.0)
        must = frozenset(e for e in problem.edges if (chosen[e.producer], chosen[e.reader]) not in e.fits)
        if problem.cost(chosen, must) >= worst:
            continue  # more edges that cross cost more
        if must not in subsets:
            free = [e for e in problem.edges if e not in must]
            more = (must.union(s) for n in range(len(free) + 1) for s in combinations(free, n))
            subsets[must] = [s for s in more if problem.stages(s) is not None]
        own = min(problem.cost(chosen, s) for s in subsets[must])
        for n in open_:
            least[n] = min(least[n], own)
    return least


def solved(problem: Problem) -> Solution | None:
    found = solve(problem)
    assert found is None or (found.is_proved and problem.is_valid(found.chosen, found.crossing))
    return found


def compare(problem: Problem) -> None:
    light = int(np.median([max(s.weights) for b in problem.blocks for s in b])) * len(problem.blocks)
    limits = [None, light, int(0.8 * light), 1]
    for limit, least in zip(limits, exhaustive(problem, limits)):
        found = solved(replace(problem, limit=limit))
        assert (found is None) == (least == inf)
        assert found is None or found.seconds == pytest.approx(least, rel=1e-6)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", GRAPHS)
def test_is_the_least_of_exhaustive_search(name: str, seed: int) -> None:
    compare(drawn(name, seed, 4 if len(GRAPHS[name]) < 7 else 3))


#: Mistakes in what the solver is told, each of which the comparison finds.
MISTAKES: dict[str, Callable[[Problem], Problem]] = {
    "giving is free": lambda p: replace(
        p, blocks=tuple(tuple(replace(s, given=0.0) for s in b) for b in p.blocks)
    ),
    "reading is free": lambda p: replace(p, edges=tuple(replace(e, read=(0.0,) * len(e.read)) for e in p.edges)),
    "everything fits": lambda p: replace(
        p, edges=tuple(replace(e, fits=frozenset(product(range(len(e.read)), repeat=2))) for e in p.edges)
    ),
    "there is no limit": lambda p: replace(p, limit=None),
    "nothing is refused": lambda p: replace(p, edges=tuple(replace(e, refused=frozenset()) for e in p.edges)),
    "nothing is late": lambda p: replace(p, edges=p.edges[:-1]),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_comparison_sees_a_mistake(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = ilp.solve
    monkeypatch.setitem(globals(), "solve", lambda p: right(MISTAKES[mistake](p)))
    with pytest.raises(AssertionError):
        for seed in range(6):
            compare(drawn("residual chain", seed))


def test_values_are_carried_past_a_part_through_the_coordinator() -> None:
    """A path from a part to a later one crosses, though both ends fit, and is read again in another turn."""
    problem = drawn("diamond", 0)
    edges = [replace(e, fits=frozenset(product(range(4), repeat=2)), refused=frozenset()) for e in problem.edges]
    inside = replace(problem, edges=tuple(edges))
    assert inside.stages([]) == [0, 0, 0, 0]
    assert inside.stages([edges[0]]) is None and inside.stages(edges[:2]) == [0, 1, 1, 1]
    assert inside.stages([edges[0], edges[3]]) == [0, 1, 0, 1]
    chained = replace(inside, edges=(*edges, replace(edges[0], reader=3)))
    assert [chained.turns[e] for e in chained.edges] == [0, 0, 0, 0, 1]
    assert [inside.turns[e] for e in edges] == [0, 0, 0, 0]


def test_the_best_of_its_time_is_said_to_be_that() -> None:
    problem = drawn("two towers", 0)
    found = solve(problem)
    assert found is not None and "proved" in found.told(10)
    later = replace(found, bound=found.seconds / 1.25, is_proved=False)
    assert "best found in 10 s, at most 25% above" in later.told(10)
    assert ilp.solve(problem, below=0.9 * found.seconds) is None
    assert ilp.solve(problem, below=1.001 * found.seconds) is not None

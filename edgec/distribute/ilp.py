"""The cheapest shardings of all blocks at once: an integer linear program, solved by HiGHS through scipy.

The variables are one of 0 and 1 for every sharding of a block, one for every edge that crosses, and the stage of every
block: equal along an edge that does not cross, and later by one or more behind an edge that does. What is given and
read has a variable for each sharding, which is at most that of the sharding; their sum is that of the edge.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib.util import find_spec
from math import inf

import numpy as np

from edgec.distribute.problem import Edge, Problem

#: Seconds until the best solution that was found is taken.
PATIENCE = 10.0


def is_there() -> bool:
    """Can integer programs be solved here? They need scipy: ``pip install edgec[ilp]``."""
    return find_spec("scipy") is not None


@dataclass(frozen=True)
class Solution:
    """The sharding of every block by number, the edges that cross, and the seconds.

    No solution takes less than ``bound`` seconds.
    """

    chosen: tuple[int, ...]
    crossing: frozenset[Edge]
    seconds: float
    bound: float
    is_proved: bool

    def told(self, patience: float) -> str:
        """The quality of a choice, in words."""
        if self.is_proved:
            return "shardings by an integer program, proved the cheapest of its model"
        above = f"{self.seconds / self.bound - 1:.0%}" if self.bound > 0 else "an unknown part"
        return f"shardings by an integer program, the best found in {patience:g} s, at most {above} above the cheapest"


@dataclass
class _Rows:
    """Variables with their costs and bounds, and rows of constraints on them."""

    costs: list[float] = field(default_factory=list)
    most: list[float] = field(default_factory=list)
    whole: list[int] = field(default_factory=list)
    at: tuple[list[int], list[int], list[float]] = field(default_factory=lambda: ([], [], []))
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)

    def variable(self, cost: float = 0.0, most: float = 1.0, whole: bool = False) -> int:
        """A new variable from 0 to ``most``."""
        self.costs.append(cost)
        self.most.append(most)
        self.whole.append(int(whole))
        return len(self.costs) - 1

    def hold(self, terms: Iterable[tuple[int, float]], low: float = -inf, high: float = inf) -> None:
        """A constraint: the sum of variables times factors is between ``low`` and ``high``."""
        for variable, factor in terms:
            self.at[0].append(len(self.low))
            self.at[1].append(variable)
            self.at[2].append(factor)
        self.low.append(low)
        self.high.append(high)


def solve(problem: Problem, patience: float = PATIENCE, below: float = inf) -> Solution | None:
    """The cheapest solution, or the best that is found in ``patience`` seconds. Needs scipy.

    None where none is found that takes at most ``below`` seconds.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    largest = max((s.seconds for b in problem.blocks for s in b), default=0.0)
    scale = 1e3 / max(largest, 1e-9)  # the solver's tolerances are absolute
    rows = _Rows()
    taken = [[rows.variable(scale * s.seconds, whole=True) for s in b] for b in problem.blocks]
    for own in taken:
        rows.hold(((x, 1.0) for x in own), 1.0, 1.0)
    rows.hold(((x, 1.0) for own, b in zip(taken, problem.blocks) for x, s in zip(own, b) if s.is_shared), 1.0)
    if problem.limit is not None:
        size = max(problem.limit, 1)
        for w in range(problem.workers):
            used = [(x, s.weights[w] / size) for own, b in zip(taken, problem.blocks) for x, s in zip(own, b)]
            rows.hold(used, high=problem.limit / size)
    crosses = _edges(rows, problem, taken, scale)
    if below < inf:
        rows.hold(enumerate(rows.costs), high=scale * below)
    matrix = csr_array((rows.at[2], (rows.at[0], rows.at[1])), shape=(len(rows.low), len(rows.costs)))
    found = milp(
        np.array(rows.costs),
        integrality=np.array(rows.whole),
        bounds=Bounds(0.0, np.array(rows.most)),
        constraints=LinearConstraint(matrix, np.array(rows.low), np.array(rows.high)),
        options={"time_limit": patience, "mip_rel_gap": 0.0},
    )
    if found.x is None:
        return None
    chosen = tuple(max(range(len(own)), key=lambda k: float(found.x[own[k]])) for own in taken)
    crossing = frozenset(e for e, x in crosses.items() if found.x[x] > 0.5)
    if not problem.is_valid(chosen, crossing):  # within the solver's tolerances, and yet none
        return None
    seconds = problem.cost(chosen, crossing)
    bound = float(found.mip_dual_bound) / scale if found.mip_dual_bound is not None else 0.0
    return Solution(chosen, crossing, seconds, min(bound, seconds), found.status == 0)


def _edges(rows: _Rows, problem: Problem, taken: list[list[int]], scale: float) -> dict[Edge, int]:
    """Variables and constraints of what crosses: the variable of every edge."""
    depth = [0] * len(problem.blocks)
    for e in sorted(problem.edges, key=lambda e: e.reader):
        depth[e.reader] = max(depth[e.reader], depth[e.producer] + 1)
    most = float(max(depth, default=0))
    stage = [rows.variable(most=most) for _ in problem.blocks]
    given: dict[int, list[int]] = {}
    read: dict[tuple[int, int], int] = {}
    found: dict[Edge, int] = {}
    for e in problem.edges:
        cross = found[e] = rows.variable(whole=True)
        rows.hold([(stage[e.reader], 1.0), (stage[e.producer], -1.0), (cross, -1.0)], 0.0)
        rows.hold([(stage[e.reader], 1.0), (stage[e.producer], -1.0), (cross, -most)], high=0.0)
        before, after = taken[e.producer], taken[e.reader]
        for k, x in enumerate(before):  # no sharding of the reader fits this one of the producer: it crosses
            rows.hold([(cross, 1.0), (x, -1.0), *((y, 1.0) for j, y in enumerate(after) if (k, j) in e.fits)], 0.0)
        for j, y in enumerate(after):
            rows.hold([(cross, 1.0), (y, -1.0), *((x, 1.0) for k, x in enumerate(before) if (k, j) in e.fits)], 0.0)
        for k, j in e.refused:
            rows.hold([(before[k], 1.0), (after[j], 1.0)], high=1.0)
        if e.producer not in given:
            shardings = problem.blocks[e.producer]
            given[e.producer] = [rows.variable(scale * s.given) for s in shardings]
            for g, x in zip(given[e.producer], before):
                rows.hold([(g, 1.0), (x, -1.0)], high=0.0)
        rows.hold([(cross, -1.0), *((g, 1.0) for g in given[e.producer])], 0.0)
        turn = e.producer, problem.turns[e]
        if turn not in read:
            read[turn] = rows.variable(1.0, inf)
        own = [rows.variable() for _ in after]
        for u, y in zip(own, after):
            rows.hold([(u, 1.0), (y, -1.0)], high=0.0)
        rows.hold([(cross, -1.0), *((u, 1.0) for u in own)], 0.0)
        rows.hold([(read[turn], 1.0), *((u, -scale * r) for u, r in zip(own, e.read))], 0.0)
    return found

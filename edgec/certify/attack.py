"""The search for inputs whose outputs meet a clause.

Inputs are drawn, and the best of them move by gradients: each step makes the greatest condition of a clause as small as
its linear model says within a reach, which grows where the model was right and shrinks where it was wrong.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from math import inf, prod

import numpy as np

from edgec.certify.domain import Domain
from edgec.certify.game import played
from edgec.certify.joined_inputs import JoinedInputs
from edgec.certify.network import Network
from edgec.certify.properties import Case, first_met
from edgec.certify.ranges import Array
from edgec.certify.spec import Spec
from edgec.ir.graph import Node
from edgec.ir.types import DTYPES, FLOATS

#: The compiled network: outputs by name from inputs by name.
Run = Callable[[Mapping[str, Array]], Mapping[str, Array]]
#: Points that are drawn, and those of them that move, at most; and numbers of values at all of them together.
DRAWN, STARTS, ROOM = 2048, 96, 1 << 22
#: Steps of a search, the reach of the first one as a part of the box, the greatest, and how a reach changes.
STEPS, REACH, FARTHEST, GROWS, SHRINKS = 24, 0.1, 0.5, 1.5, 0.5
#: The excess of a condition of which nothing is known.
_UNKNOWN = -1e300


def rounded(case: Case, points: Mapping[Node, Array]) -> dict[Node, Array]:
    """Points in the types of the inputs, and inside the box of the case."""
    found = {}
    for n, values in points.items():
        name, dtype = str(n.attributes["name"]), DTYPES[n.type.dtype]
        low, high = case.low[name], case.high[name]
        x = np.clip(values, low, high)
        if n.type.dtype in FLOATS:
            near = x.astype(dtype)
            near = np.where(near > high, np.nextafter(near, dtype.type(-np.inf)), near)
            found[n] = np.where(near < low, np.nextafter(near, dtype.type(np.inf)), near).astype(dtype)
        else:
            found[n] = np.clip(np.rint(x), np.ceil(low), np.floor(high)).astype(dtype)
    return found


def rounded_into(case: Case, points: Mapping[Node, Array], k: int) -> dict[str, Array]:
    """Point ``k`` in the types of the inputs, and inside the case."""
    one = {n: values[k : k + 1] for n, values in points.items()}
    return {str(n.attributes["name"]): x[0] for n, x in rounded(case, one).items()}


def inside(case: Case, arrays: Mapping[str, Array]) -> bool:
    """Are inputs as they are given to the code inside the case?"""
    wide = {name: a.astype(np.float64) for name, a in arrays.items()}
    if any((a < case.low[name]).any() or (a > case.high[name]).any() for name, a in wide.items()):
        return False
    if case.radius is None or case.center is None:
        return True
    return float(np.sqrt(sum(float(((a - case.center[name]) ** 2).sum()) for name, a in wide.items()))) <= case.radius


def met_by(case: Case, run: Run, points: Mapping[Node, Array], order: Sequence[int]) -> dict[str, Array] | None:
    """The first of these points, in the order of their numbers, at which the code meets a clause."""
    for k in order:
        arrays = rounded_into(case, points, k)
        if inside(case, arrays) and first_met(case.clauses, run(arrays)) is not None:
            return arrays
    return None


def values_at(network: Network, spec: Spec, points: Mapping[Node, Array]) -> tuple[Array, dict[Node, Array]]:
    """Values of the conditions at points, [points, conditions], and their gradients by the inputs."""
    found = network.bounds(Domain(points, points), tighten=False)
    return spec.least(network, found)


def attack(
    network: Network,
    case: Case,
    spec: Spec,
    run: Run,
    random: np.random.Generator,
    starts: Mapping[Node, Array] | None = None,
    reach: float = REACH,
    end: float = inf,
) -> dict[str, Array] | None:
    """Inputs inside the case at which the code meets a clause; None where none was found before the time is ``end``.

    Every clause is searched from the best of points at random, or from the best of the ``starts`` that are given. The
    first step is at most ``reach`` of the width of the box.
    """
    box = case.domain(network.inputs)
    width = {n: box.high[n] - box.low[n] for n in box.low}
    most = max(1, ROOM // sum(prod(n.type.shape) for n in network.order))
    if starts is None:
        count = min(DRAWN, most)
        share = np.where(np.arange(count) % 2, random.random(count), 0.0)
        starts = {n: box.low[n] + w * _drawn(random, share, w.shape[1:]) for n, w in width.items()}
    search = _Search(network, case, spec, run)
    points = search.within(starts)
    excess = search.excess(points)
    # The best points of each clause, of the clauses that are nearest.
    nearest = np.argsort(excess.min(axis=0))[: min(STARTS, most)]
    best = np.argsort(excess[:, nearest], axis=0)[: max(1, min(STARTS, most) // len(nearest))]
    clauses = np.broadcast_to(nearest, best.shape).reshape(-1)
    return search.descended({n: x[best.reshape(-1)] for n, x in points.items()}, clauses, reach, end)


def _drawn(random: np.random.Generator, share: Array, shape: Sequence[int]) -> Array:
    """Points of a box from 0 to 1, of whose elements this ``share`` [points] is at an end: extremes often are there."""
    inner, end = (random.random((len(share), *shape)) for _ in range(2))
    share = share.reshape(-1, *(1,) * len(shape))
    return np.where(end < share / 2, 0.0, np.where(end > 1 - share / 2, 1.0, inner))


class _Search:
    """Points of a case that move to where a clause is met."""

    def __init__(self, network: Network, case: Case, spec: Spec, run: Run) -> None:
        self.network, self.case, self.spec, self.run = network, case, spec, run
        self.flat, box = JoinedInputs(network), case.domain(network.inputs)
        self.low, self.high = (self.flat.joined(x)[0] for x in (box.low, box.high))
        self.width = self.high - self.low

    def within(self, points: Mapping[Node, Array]) -> dict[Node, Array]:
        """The nearest points that the code can be given."""
        if self.case.radius is not None and self.case.center is not None:
            points = _in_ball(points, self.case, self.network)
        return {n: x.astype(np.float64) for n, x in rounded(self.case, points).items()}

    def excess(self, points: Mapping[Node, Array]) -> Array:
        """For each point and clause the greatest excess of a condition, [points, clauses]; none is above the code's.

        Where nothing is known of a value, the excess is minus infinity.
        """
        found = self.network.bounds(Domain(points, points), tighten=False)
        rows = self.spec.rows(self.network, found.domain.boxes)
        values = np.zeros((found.domain.boxes, len(self.spec.limits)))
        with np.errstate(all="ignore"):
            for n, row in rows.items():
                low, high = (x.reshape(len(x), 1, -1) for x in (found.seen[n].low, found.seen[n].high))
                wide = row.reshape(*row.shape[:2], -1)
                values += (np.maximum(wide, 0) * low + np.minimum(wide, 0) * high).sum(axis=2)
        return self.spec.margins(values)

    def descended(self, points: dict[Node, Array], clauses: Array, first: float, end: float) -> dict[str, Array] | None:
        """The first of these points that meets its clause after some steps, the first one with this reach."""
        conditions = self.spec.conditions(clauses)
        rows, limits = self.spec.rows_of(self.network, conditions), self.spec.limits[conditions]
        at = flat = self.flat.joined(points)
        values, slopes = np.zeros(limits.shape), np.zeros((*limits.shape, flat.shape[1]))
        reach, best = np.full(len(clauses), first), np.full(len(clauses), np.inf)
        for _ in range(STEPS):
            if time.perf_counter() > end:
                break
            found = self.network.bounds(Domain(points, points), tighten=False)
            least, gradients = self.network.back(rows, found)
            excess = np.nan_to_num(least - limits, nan=_UNKNOWN, neginf=_UNKNOWN)
            worst = excess.max(axis=1)
            # Values are no greater than those of the code, which meets a clause only where they do.
            met = met_by(self.case, self.run, points, [int(k) for k in np.flatnonzero(worst <= 0)])
            if met is not None:
                return met
            is_better = worst < best
            best, at = np.where(is_better, worst, best), np.where(is_better[:, None], flat, at)
            values = np.where(is_better[:, None], excess, values)
            new = np.nan_to_num(self.flat.rows(gradients, limits.shape), posinf=0.0, neginf=0.0)
            slopes = np.where(is_better[:, None, None], new, slopes)
            reach = np.where(is_better, np.minimum(GROWS * reach, FARTHEST), SHRINKS * reach)
            step = reach[:, None] * self.width
            low, high = np.maximum(self.low - at, -step), np.minimum(self.high - at, step)
            points = self.within(self.flat.points(at + played(values, slopes, low, high)))
            flat = self.flat.joined(points)
        return None


def _in_ball(points: Mapping[Node, Array], case: Case, network: Network) -> dict[Node, Array]:
    """The points moved towards the center, into the ball."""
    assert case.center is not None and case.radius is not None
    centers = {n: np.asarray(case.center[name], np.float64)[None] for name, n in network.inputs.items()}
    squares = sum(((points[n] - c) ** 2).reshape(points[n].shape[0], -1).sum(1) for n, c in centers.items())
    scale = np.minimum(1.0, case.radius * (1 - 1e-6) / np.maximum(np.sqrt(squares), 1e-300))
    return {n: c + (points[n] - c) * scale.reshape(-1, *(1,) * (c.ndim - 1)) for n, c in centers.items()}

"""Verdicts for networks of a few inputs: the box is cut into halves until bounds decide every part."""

from __future__ import annotations

import time
from dataclasses import dataclass
from math import prod

import numpy as np

from edgec.certify.attack import Run, attack, met_by
from edgec.certify.bounds import Bounds
from edgec.certify.choices import sites_of
from edgec.certify.game import refuted_by
from edgec.certify.joined_inputs import JoinedInputs
from edgec.certify.network import Network
from edgec.certify.parts import Parts
from edgec.certify.properties import Case
from edgec.certify.ranges import Array
from edgec.certify.spec import Spec
from edgec.certify.verdict import Ending, Verdict
from edgec.ir.graph import Node

#: The part of the time in which inputs are searched, and the reach of the first step from parts that are open.
ATTACKS, NEAR = 0.1, 0.02
#: The least slope of an input beside the greatest one, both times the whole box, where the one that is cut is chosen;
#: one for each of the searches that race.
FLATS = 0.03, 0.001
#: Parts of each search until those that have decided less of the box are given less time, and by how much.
RACE, SLOWER = 20_000, 8
#: Boxes that are bounded together, and of so many batches one is of those with the worst bounds.
BATCH, WORST = 512, 4
#: Open parts of a batch, those with the worst bounds, at which the code runs.
RUN = 4


@dataclass(frozen=True)
class _Open:
    """Parts that bounds do not decide, [parts, inputs]: their corners, how steep the conditions of their nearest clause
    are in the mean, the inputs that come nearest to a violation, and the margins [parts]."""

    low: Array
    high: Array
    steepness: Array
    nearest: Array
    margin: Array


@dataclass
class _Tree:
    """One search: its open parts, how many were bounded in how many batches, and the part of the box that is decided.

    ``flat`` is the least slope of an input that counts, ``nearest`` the least margin of what is decided.
    """

    open: Parts
    flat: float
    count: int = 0
    batches: int = 0
    done: float = 0.0
    nearest: float = np.inf


class Cut:
    """The search for the verdict on one case.

    A part is cut along the input whose width moves the bound of its nearest clause most. The bends that a bound loses
    by do not show in its slope, so that of no input counts for less than a part of the greatest. Which part of it is
    best depends on the network, by factors of more than ten either way: searches with one each race.
    """

    def __init__(self, network: Network, case: Case, spec: Spec, run: Run, random: np.random.Generator) -> None:
        self.network, self.case, self.spec, self.run, self.random = network, case, spec, run, random
        self.flat, self.sides = JoinedInputs(network), _Sides(network)
        box = case.domain(network.inputs)
        self.low, self.high = self.flat.joined(box.low), self.flat.joined(box.high)
        self.whole = np.where(self.high > self.low, self.high - self.low, 1.0)
        self.begun, self.attacked, self.attacks = time.perf_counter(), 0.0, 0

    def verdict(self, ending: Ending, margin: float) -> Verdict:
        """The verdict; ``margin`` is that of the whole box."""
        facts = {"weight": np.ones(1), "sides": self.sides.none(), "margin": np.full(1, margin)}
        trees = [_Tree(Parts(low=self.low, high=self.high, **facts), flat) for flat in FLATS]
        count = 0
        while trees:
            done, count = max(t.done for t in trees), sum(t.count for t in trees)
            if ending.is_over:
                return ending.answer("unknown", margin, count, reason=f"time is up with {done:.1%} of the box decided")
            ending.progress("certify", f"{count:,} parts, {done:.2%} of the box decided", min(done, 1.0))
            tree = min(trees, key=lambda t: t.count * (SLOWER if t.count > RACE and t.done < done else 1))
            found = self._step(tree, ending.end)
            count = sum(t.count for t in trees)
            if isinstance(found, dict):
                return ending.answer("violated", margin, count, inputs=found)
            if not found:
                trees.remove(tree)
            elif not tree.open.count:
                nearest = max(tree.nearest, 0.0) if np.isfinite(tree.nearest) else margin
                return ending.answer("holds", nearest, count)
        return ending.answer("unknown", margin, count, reason="a part of one input is not decided")

    def _step(self, tree: _Tree, end: float) -> dict[str, Array] | bool:
        """One batch of a search: inputs that violate the case, or whether its parts can be cut."""
        tree.batches += 1
        taken = tree.open.worst(BATCH, "margin") if tree.batches % WORST == 0 else tree.open.last(BATCH)
        bounds, missed, open = self._bounded(taken["low"], taken["high"], taken["sides"])
        is_open = ~(missed > 0)
        tree.count, tree.done = tree.count + len(missed), tree.done + float(taken["weight"][~is_open].sum())
        tree.nearest = min(tree.nearest, float(missed[~is_open].min(initial=np.inf)))
        if not is_open.any():
            return True
        found = self._violated(open, end)
        if found is not None:
            return found
        at, element = np.arange(len(open.low)), self._cut_at(open, tree.flat)
        middle = (open.low[at, element] + open.high[at, element]) / 2
        if np.any((middle <= open.low[at, element]) | (middle >= open.high[at, element])):
            return False
        first, second = open.high.copy(), open.low.copy()
        first[at, element], second[at, element] = middle, middle
        kept = {"weight": taken["weight"][is_open] / 2, "sides": self.sides.found(bounds)[is_open]}
        for low, high in ((open.low, first), (second, open.high)):
            tree.open.add(low=low, high=high, margin=open.margin, **kept)
        return True

    def _bounded(self, low: Array, high: Array, sides: Array) -> tuple[Bounds, Array, _Open]:
        """The bounds of parts, their margins, and those that are open.

        Of a clause of several conditions that none of them refutes alone, they are taken together.
        """
        spec = self.spec
        bounds = self.network.bounds(self.flat.domain(low, high), self.sides.known(sides))
        least, rows = spec.least(self.network, bounds)
        margins, is_open = spec.margins(least), ~(spec.margins(least) > 0).all(axis=1)
        low, high, count = low[is_open], high[is_open], int(is_open.sum())
        slopes = self.flat.rows({n: r[is_open] for n, r in rows.items()}, (count, least.shape[1]))
        above = (least - spec.limits)[is_open]
        parts = []
        for k, (start, end) in enumerate(spec.spans):
            own, point = refuted_by(above[:, start:end], slopes[:, start:end], low, high)
            margins[is_open, k] = np.fmax(margins[is_open, k], own)
            parts.append((np.abs(slopes[:, start:end]).mean(axis=1), point))
        missed, clause = margins.min(axis=1), margins.argmin(axis=1)[is_open]
        steepness, point = (np.stack(x)[clause, np.arange(count)] for x in zip(*parts))
        rest = ~(missed[is_open] > 0)
        return bounds, missed, _Open(low[rest], high[rest], steepness[rest], point[rest], missed[is_open][rest])

    def _cut_at(self, open: _Open, flat: float) -> Array:
        """For every part the number of the input along which it is cut."""
        steepness = np.nan_to_num(open.steepness) * self.whole
        least = flat * steepness.max(axis=1, keepdims=True) + 1e-300
        return np.asarray(np.argmax(np.maximum(steepness, least) * ((open.high - open.low) / self.whole), axis=1))

    def _violated(self, open: _Open, end: float) -> dict[str, Array] | None:
        """Inputs of these parts, or near them, at which the code violates the case.

        While it is time for it, those of all of the box are searched in turns with them.
        """
        order = [int(k) for k in np.argsort(open.margin)[:RUN]]
        middle = (open.low + open.high) / 2
        for points in (middle, open.nearest):
            found = met_by(self.case, self.run, self.flat.points(points), order)
            if found is not None:
                return found
        begun = time.perf_counter()
        if self.attacked >= ATTACKS * (begun - self.begun):
            return None
        self.attacks += 1
        starts = self.flat.points(np.concatenate([middle, open.nearest])) if self.attacks % 2 else None
        given = (self.network, self.case, self.spec, self.run, self.random)
        found = attack(*given, starts, NEAR, end) if starts is not None else attack(*given, end=end)
        self.attacked += time.perf_counter() - begun
        return found


class _Sides:
    """The sides of choices that bounds of a box decide, also for its parts: 1 above the limit, -1 below."""

    def __init__(self, network: Network) -> None:
        self.sites = sites_of(network)
        self.ends = np.cumsum([prod(s.operand.type.shape) for s in self.sites])

    def none(self) -> Array:
        """No side of one box, [1, elements of all choices]."""
        return np.zeros((1, int(self.ends[-1]) if self.sites else 0), np.int8)

    def found(self, bounds: Bounds) -> Array:
        """Those that bounds decide, [boxes, elements of all choices]."""
        made = [np.zeros((bounds.domain.boxes, 0), np.int8)]
        for s in self.sites:
            seen = bounds.seen[s.operand]
            side = (seen.low >= s.limit).astype(np.int8) - (seen.high <= s.limit)
            made.append(side.reshape(len(side), -1).astype(np.int8))
        return np.concatenate(made, axis=1)

    def known(self, taken: Array) -> dict[Node, tuple[Array, Array]]:
        """The ranges of operands by sides."""
        known = {}
        for s, side in zip(self.sites, np.split(taken, self.ends[:-1], axis=1) if self.sites else ()):
            side = side.reshape(-1, *s.operand.type.shape)
            known[s.operand] = np.where(side > 0, s.limit, -np.inf), np.where(side < 0, s.limit, np.inf)
        return known

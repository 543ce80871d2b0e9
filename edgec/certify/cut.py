"""Verdicts for networks of a few inputs: the box is cut into parts until bounds decide each of them.

A part is cut at the middle of an input, or, where few choices (ReLU and other maxima and minima with a constant) are
open, into the two sides of one. What is left of a part is what linear bounds do not exclude: inputs that meet all
conditions of a clause and are on the sides that were taken.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from edgec.certify.attack import Run, attack, met_by
from edgec.certify.bounds import Bounds
from edgec.certify.conditions import refuted_by, shrunk, within
from edgec.certify.joined_inputs import JoinedInputs
from edgec.certify.network import Network
from edgec.certify.parts import Parts
from edgec.certify.properties import Case
from edgec.certify.ranges import Array
from edgec.certify.sides import TAKEN, Sides
from edgec.certify.spec import Spec
from edgec.certify.verdict import Ending, Verdict

#: The part of the time in which inputs are searched, and the reach of the first step from parts that are open.
ATTACKS, NEAR = 0.1, 0.02
#: The least slope of an input beside the greatest one, both times the whole box, where the one that is cut is chosen.
FLAT = 0.03
#: Open choices of a part up to which one of them is cut.
FEW = 12
#: Boxes that are bounded together, and of so many batches one is of those with the worst bounds.
BATCH, WORST = 512, 4
#: Open parts of a batch, those with the worst bounds, at which the code runs.
RUN = 4
#: The margin of parts where no input can meet a clause, by how much is not known.
_SOME = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class _Open:
    """Parts that bounds do not decide: of the boxes [parts] of a batch, their corners [parts, inputs] without what is
    excluded, how steep the conditions of their nearest clause are in the mean, the inputs that come nearest to a
    violation, margins [parts], and the weights [parts, conditions] of conditions that come nearest to a proof."""

    boxes: Array
    low: Array
    high: Array
    steepness: Array
    nearest: Array
    margin: Array
    weights: Array


class Cut:
    """The search for the verdict on one case.

    A part is cut along the input whose width moves the bound of its nearest clause most: by its slope, and by the
    bends of choices that the bound loses by, of which each input has the part that it moves their operands.
    """

    def __init__(self, network: Network, case: Case, spec: Spec, run: Run, random: np.random.Generator) -> None:
        self.network, self.case, self.spec, self.run, self.random = network, case, spec, run, random
        self.flat, self.sides = JoinedInputs(network), Sides(network)
        box = case.domain(network.inputs)
        self.low, self.high = self.flat.joined(box.low), self.flat.joined(box.high)
        self.whole = np.where(self.high > self.low, self.high - self.low, 1.0)
        self.begun, self.attacked, self.attacks = time.perf_counter(), 0.0, 0
        self.count, self.batches, self.done, self.nearest = 0, 0, 0.0, np.inf

    def verdict(self, ending: Ending, margin: float) -> Verdict:
        """The verdict; ``margin`` is that of the whole box."""
        facts = {"weight": np.ones(1), "sides": self.sides.none(), "margin": np.full(1, margin)}
        waiting = Parts(low=self.low, high=self.high, **facts)
        while waiting.count:
            if ending.is_over:
                reason = f"time is up with {self.done:.1%} of the box decided"
                return ending.answer("unknown", margin, self.count, reason=reason)
            told = f"{self.count:,} parts, {self.done:.2%} of the box decided"
            ending.progress("certify", told, min(self.done, 1.0))
            found = self._step(waiting, ending.end)
            if isinstance(found, dict):
                return ending.answer("violated", margin, self.count, inputs=found)
            if not found:
                return ending.answer("unknown", margin, self.count, reason="a part of one input is not decided")
        nearest = self.nearest if np.isfinite(self.nearest) else margin
        return ending.answer("holds", max(nearest, 0.0), self.count)

    def _step(self, waiting: Parts, end: float) -> dict[str, Array] | bool:
        """One batch of parts: inputs that violate the case, or whether those that are open can be cut."""
        self.batches += 1
        taken = waiting.worst(BATCH, "margin") if self.batches % WORST == 0 else waiting.last(BATCH)
        bounds, missed, open = self._bounded(taken["low"], taken["high"], taken["sides"])
        is_open = ~(missed > 0)
        self.count, self.done = self.count + len(missed), self.done + float(taken["weight"][~is_open].sum())
        self.nearest = min(self.nearest, float(missed[~is_open].min(initial=np.inf)))
        if not is_open.any():
            return True
        found = self._violated(open, end)
        if found is not None:
            return found
        sides = self.sides.found(bounds, taken["sides"])[is_open]
        rows = {
            n: np.einsum("bc,c...->b...", open.weights, w)[:, None] for n, w in self.spec.weights.items() if w.any()
        }
        costs = self.sides.costs(bounds, open.boxes, self.network.output_rows(rows))
        few = ((sides == 0).sum(axis=1) <= FEW) & (costs.max(axis=1, initial=0.0) > 0)
        at, element = np.arange(len(open.low)), self._halves(bounds, open, costs)
        middle = open.low[at, element] + (open.high[at, element] - open.low[at, element]) / 2
        is_one = (middle <= open.low[at, element]) | (middle >= open.high[at, element])
        if np.any(is_one & ~few):
            return False
        first, second = open.high.copy(), open.low.copy()
        first[at, element], second[at, element] = middle, middle
        parts = [(open.low.copy(), first, sides.copy()), (second, open.high.copy(), sides)]
        box = taken["low"][open.boxes], taken["high"][open.boxes]
        self._take(bounds, open, box, costs.argmax(axis=1) if costs.size else element, np.flatnonzero(few), parts)
        for low, high, side in parts:
            waiting.add(low=low, high=high, sides=side, margin=open.margin, weight=taken["weight"][is_open] / 2)
        return True

    def _take(
        self, bounds: Bounds, open: _Open, box: tuple[Array, Array], choice: Array, these: Array,
        parts: list[tuple[Array, Array, Array]],
    ) -> None:  # fmt: skip
        """The two parts of some open ones become the sides of a choice each."""
        sites, elements = self.sides.place(choice[these]) if these.size else (these, these)
        for k in np.unique(sites):
            at, own = these[sites == k], elements[sites == k]
            whole = box[0][at], box[1][at]
            for side, (low, high, sides) in zip((1, -1), parts):
                sides[at, choice[at]] = TAKEN * side
                now = open.low[at], open.high[at]
                turned = np.full(len(at), float(side))
                least, slopes = self.sides.condition(bounds, open.boxes[at], int(k), own, turned)
                least = within(least, slopes, whole, now)
                low[at], high[at], _ = shrunk(least[:, None], slopes[:, None], *now)

    def _bounded(self, low: Array, high: Array, sides: Array) -> tuple[Bounds, Array, _Open]:
        """The bounds of parts, their margins, and those that are open.

        Of a clause of several conditions that none of them refutes alone, they are taken together, and with the sides
        that were taken.
        """
        spec = self.spec
        domain = self.flat.domain(low, high)
        bounds = self.network.bounds(domain, self.sides.known(sides), taken=self.sides.taken(sides))
        least, rows = spec.least(self.network, bounds)
        margins = spec.margins(least)
        margins[bounds.empty] = np.inf
        boxes = np.flatnonzero(~(margins > 0).all(axis=1))
        low, high, margins_of = low[boxes], high[boxes], margins[boxes]
        slopes = self.flat.rows({n: r[boxes] for n, r in rows.items()}, (len(boxes), least.shape[1]))
        above = (least - spec.limits)[boxes]
        taken = self.sides.conditions(bounds, boxes, sides[boxes], low.shape[1])
        made = []
        for k, (start, end) in enumerate(spec.spans):
            own = (
                np.concatenate([above[:, start:end], taken[0]], 1),
                np.concatenate([slopes[:, start:end], taken[1]], 1),
            )
            margin, point, weights = refuted_by(*own, low, high)
            first, last, is_empty = shrunk(*own, low, high)
            margins_of[:, k] = np.fmax(margins_of[:, k], np.where(is_empty, np.fmax(margin, _SOME), margin))
            wide = np.zeros((len(boxes), len(spec.limits)))
            wide[:, start:end] = weights[:, : end - start]
            wide[~wide.any(axis=1), start:end] = 1 / (end - start)
            made.append((np.abs(slopes[:, start:end]).mean(axis=1), point, wide, first, last))
        steepness, point, weights, first, last = (np.stack(x) for x in zip(*made))
        clause, lane = margins_of.argmin(axis=1), np.arange(len(boxes))
        is_refuted = (margins_of > 0).T[:, :, None]
        first, last = np.where(is_refuted, np.inf, first).min(axis=0), np.where(is_refuted, -np.inf, last).max(axis=0)
        margins[boxes] = margins_of
        missed = margins.min(axis=1)
        rest = ~(missed[boxes] > 0)
        steep, near, weighed = (x[clause, lane][rest] for x in (steepness, point, weights))
        return bounds, missed, _Open(boxes[rest], first[rest], last[rest], steep, near, missed[boxes][rest], weighed)

    def _halves(self, bounds: Bounds, open: _Open, costs: Array) -> Array:
        """For every part the number of the input along which it is cut."""
        width = open.high - open.low
        steepness = np.nan_to_num(open.steepness) * self.whole
        least = FLAT * steepness.max(axis=1, keepdims=True) + 1e-300
        score = np.maximum(steepness, least) * (width / self.whole) / 2
        moves = self.sides.moves(bounds, open.boxes, width) if costs.size else None
        if moves is not None:
            share = moves / np.maximum(moves.sum(axis=1, keepdims=True), 1e-300)
            score = score + np.nan_to_num(share * costs[:, None]).sum(axis=2)
        return np.asarray(np.where(width > 0, score, -np.inf).argmax(axis=1))

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

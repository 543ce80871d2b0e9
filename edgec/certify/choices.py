"""Branch and bound over choices: the sides of maxima and minima are taken one by one until bounds decide.

A ReLU whose side is known is linear. Each part fixes the sides of some elements; the parts of an element are two, and
one of them has every input. Of the elements whose bends cost the bound most (the intercept score of Bunel et al.,
"Branch and Bound for Piecewise Linear Neural Network Verification", 2020) the one is taken whose two sides have the
best bounds (filtered smart branching: De Palma et al., "Improved Branch and Bound for Neural Network Verification via
Lagrangian Decomposition", 2021).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from edgec.certify.bounds import Bounds
from edgec.certify.domain import Domain
from edgec.certify.momentum import Momentum
from edgec.certify.narrowed import Narrowing, Ranges
from edgec.certify.network import Network
from edgec.certify.proved import of_boxes, proved
from edgec.certify.ranges import Array
from edgec.certify.relaxed import Relaxed
from edgec.certify.rules import Elementwise
from edgec.certify.single import SINGLE, Single, Site
from edgec.certify.slopes import Ascent, Goal, State
from edgec.certify.spec import Spec
from edgec.certify.verdict import Ending
from edgec.ir.graph import Node

#: Parts that are bounded together.
BATCH = 16
#: Steps of the optimizer after which parts that are refuted leave.
PACES = (4, 8, 8)
#: The most time in which ranges of the whole are narrowed, and that up to which those of parts are, both as a part of
#: all of it; and the steps of the latter.
WHOLE, EACH, STEPS = 0.25, 0.1, 12
#: Elements whose sides are tried.
TRIED = 16
#: Batches after which a violation is searched from where bounds are least.
ATTACKED = 2


@dataclass(frozen=True)
class Part:
    """Inputs for which some sides are taken: ``sides`` by choice [elements], 1 above the limit and -1 below.

    ``ranges`` are those of operands for all of them that meet the clause, and ``state`` is where the optimizer begins.
    """

    sides: Mapping[Node, Array]
    ranges: Ranges
    state: State
    depth: int = 0


class Choices:
    """The search for a proof that one clause is met by no input of a box.

    After `refute`, ``parts`` is the number of parts that were bounded, ``nearest`` the least margin of those refuted,
    ``reason`` why it ended, and ``inputs`` those that were found to meet the clause.
    """

    def __init__(self, single: Single, spec: Spec, root: Bounds) -> None:
        self.single, self.network, self.spec, self.root = single, single.network, spec, root
        self.sites = single.sites
        self.goal = Goal.of(self.network, spec)
        self.narrowing = Narrowing(single, spec)
        self.parts, self.nearest, self.reason = 0, np.inf, ""
        self.inputs: dict[str, Array] | None = None
        #: Inputs where bounds of the last parts that are open are least.
        self.corners: dict[Node, Array] | None = None
        #: Are ranges of parts narrowed?
        self.narrows = False
        #: What bounds lose when they are proved, at most so far.
        self.lost = 0.0

    def refute(self, ending: Ending, attack: Momentum | None) -> bool:
        """True where the clause is refuted in time; False also where ``inputs`` were found by the ``attack``."""
        nodes = (n for n in self.root.exact if n in self.network.rules and n not in self.network.stored)
        ranges = {n: (r.low, r.high) for n in nodes for r in [self.root.exact[n]]}
        begun = time.perf_counter()
        if self.narrowing.run(self.root.domain, ranges, {}, begun + WHOLE * (ending.end - begun)):
            self.nearest = 0.0
            return True
        self.narrows = time.perf_counter() - begun < EACH * (ending.end - begun)
        waiting, batches = [self._whole(ranges)], 0
        while waiting:
            if ending.is_over:
                self.reason = f"time is up with {len(waiting):,} combinations of choices open"
                return False
            taken, waiting = waiting[-BATCH:], waiting[:-BATCH]
            found = self._step(taken, ending.end)
            if found is None:
                self.reason = "all choices are taken, and the bounds do not decide it"
                return False
            waiting += found
            self.parts += len(taken)
            ending.progress("certify", f"{self.parts:,} combinations of choices, {len(waiting):,} wait")
            batches += 1
            if attack is not None and batches % ATTACKED == 0 and self.corners is not None:
                self.inputs = attack.search(self.corners, ending.end)
                if self.inputs is not None:
                    return False
        return True

    def _step(self, taken: list[Part], end: float) -> list[Part] | None:
        """Halves of the parts that stay open; None where one of these has no choice left."""
        open = self._open(taken)
        if self.narrows and open and taken[0].depth:
            taken = self._narrowed([taken[k] for rows, _ in open for k in rows], end)
            open = self._open(taken) if taken else []
        parts: list[Part] = []
        for rows, ascent in open:
            made = self._cut([taken[k] for k in rows], ascent)
            if made is None:
                return None
            parts += made
        return parts

    def _narrowed(self, parts: list[Part], end: float) -> list[Part]:
        """Those of the parts that have inputs left, with narrower ranges."""
        left = []
        for part in parts:
            sides = {n: x[None].astype(SINGLE) for n, x in part.sides.items()}
            ranges = self._known([part], sides)
            if self.narrowing.run(self.root.domain, ranges, sides, end, STEPS):
                self.nearest = 0.0
            else:
                left.append(replace(part, ranges=ranges))
        return left

    def _whole(self, ranges: Ranges) -> Part:
        found = self.network.bounds(self.root.domain, ranges, tighten=False)
        bends = Relaxed(self.single, found).bends
        shares = {n: b.usual() for n, b in bends.items()}
        least, _ = self.spec.least(self.network, found)
        weights = np.zeros((1, len(self.spec.limits)), SINGLE)
        weights[0, np.nan_to_num(least[0] - self.spec.limits, nan=-np.inf).argmax()] = 1
        sides = {n: np.zeros(x.shape[1], np.int8) for n, x in shares.items()}
        return Part(sides, ranges, State(shares, {n: np.zeros_like(x) for n, x in shares.items()}, weights))

    def _open(self, taken: list[Part]) -> list[tuple[Array, Ascent]]:
        """The numbers of parts that are not refuted, with what their bounds are made of."""
        count, domain = len(taken), self.root.domain

        def many(values: Mapping[Node, Array]) -> dict[Node, Array]:
            return {n: np.broadcast_to(v, (count, *v.shape[1:])) for n, v in values.items()}

        center = many(domain.center) if domain.center is not None else None
        boxes = Domain(many(domain.low), many(domain.high), center, domain.radius)
        sides = {s.node: np.stack([t.sides[s.node] for t in taken]).astype(SINGLE) for s in self.sites}
        found = self.network.bounds(boxes, self._known(taken, sides), tighten=False)
        relaxed = Relaxed(self.single, found)
        state = State.joined([t.state for t in taken])
        for n, b in relaxed.bends.items():
            shares = np.where(b.open, state.shares[n], b.settled)
            state = replace(state, shares={**state.shares, n: shares})
        ascent, rows = Ascent(relaxed, self.goal, state, sides), np.arange(count)
        refuted: list[tuple[Array, State, Array]] = []
        for steps in PACES:
            goes_on = ascent.run(steps)
            is_done = ascent.least > 2 * self.lost
            these, others = np.flatnonzero(is_done), np.flatnonzero(~is_done)
            refuted.append((rows[these], ascent.state.take(these), ascent.least[these]))
            ascent, rows = ascent.take(others), rows[others]
            if not goes_on or not rows.size:
                break
        done = np.concatenate([r for r, _, _ in refuted])
        open = [(rows, ascent)] if rows.size else []
        if done.size:
            guessed = np.concatenate([x for _, _, x in refuted])
            states = State.joined([s for _, s, _ in refuted])
            own = {n: x[done] for n, x in sides.items()}
            margins = proved(self.single, self.spec, of_boxes(found, done), states, own)
            gaps = guessed - margins
            self.lost = max(self.lost, float(gaps[np.isfinite(gaps)].max(initial=0.0)))
            missed = np.flatnonzero(~(margins > 0))
            self.nearest = min(self.nearest, float(margins[margins > 0].min(initial=np.inf)))
            if missed.size:
                own = {n: x[missed] for n, x in own.items()}
                open.append((done[missed], Ascent(relaxed.take(done[missed]), self.goal, states.take(missed), own)))
        return open

    def _cut(self, taken: list[Part], ascent: Ascent) -> list[Part] | None:
        """Both sides of a choice of each part."""
        self.corners = ascent.made.inputs
        costs = self._costs(ascent)
        if (costs.max(axis=1) <= 0).any():
            return None
        tried = min(TRIED, costs.shape[1])
        best = np.argsort(-costs, axis=1)[:, :tried]
        ends = np.cumsum([0, *(self.single.size(s.node) for s in self.sites)])
        if tried > 1:
            best = self._tried(ascent, best, costs, ends)
        chosen = best[:, 0]
        parts = []
        for k, (part, element) in enumerate(zip(taken, chosen)):
            at = int(np.searchsorted(ends, element, "right")) - 1
            node, place = self.sites[at].node, int(element - ends[at])
            state = ascent.state.take(np.array([k]))
            for side in (1, -1):
                sides = part.sides[node].copy()
                sides[place] = side
                parts.append(replace(part, sides={**part.sides, node: sides}, state=state, depth=part.depth + 1))
        return parts

    def _costs(self, ascent: Ascent) -> Array:
        """The cost of the bend of every element, [parts, elements of all choices]; 0 where it has none."""
        found = []
        for s in self.sites:
            bend, row = ascent.relaxed.bends[s.node], ascent.made.rows[s.node]
            is_chord = row < 0 if s.sign > 0 else row > 0
            other = np.maximum(bend.chord, 1 - bend.chord)
            cost = np.abs(row * bend.offset) / np.where(is_chord | (other == 0), 1, other) + SINGLE(1e-30)
            found.append(np.where(bend.open, cost, 0))
        return np.concatenate(found, axis=1)

    def _tried(self, ascent: Ascent, best: Array, costs: Array, ends: Array) -> Array:
        """The elements in the order of the bounds of their sides, the best one first."""
        count, tried = best.shape
        rows = np.repeat(np.arange(count), 2 * tried)
        element, side = np.repeat(best.reshape(-1), 2), np.tile([1.0, -1.0], count * tried)
        relaxed, state = ascent.relaxed.take(rows), ascent.state.take(rows)
        sides = {n: x[rows] for n, x in ascent.taken.items()}
        at = np.searchsorted(ends, element, "right") - 1
        shares = dict(state.shares)
        for k, s in enumerate(self.sites):
            here = np.flatnonzero(at == k)
            place = element[here] - ends[k]
            relaxed.bends[s.node].settle(here, place, s.sign * side[here] > 0)
            shares[s.node][here, place] = relaxed.bends[s.node].settled[here, place]
        child = Ascent(relaxed, self.goal, replace(state, shares=shares), sides)
        least = child.least.reshape(count, tried, 2)
        gain = np.minimum(least, 0)
        score = gain.min(axis=2) + 1e-3 * gain.sum(axis=2)
        has_choice = np.take_along_axis(costs, best, 1) > 0
        order = np.argsort(-np.where(has_choice, score, -np.inf), axis=1)
        return np.take_along_axis(best, order, 1)

    def _known(self, taken: list[Part], sides: Mapping[Node, Array]) -> Ranges:
        """The ranges of parts, and of operands those of the sides that were taken."""
        ends = [{n: np.concatenate([t.ranges[n][k] for t in taken]) for n in taken[0].ranges} for k in range(2)]
        known = {n: (ends[0][n], ends[1][n]) for n in ends[0]}
        for s in self.sites:
            low, high = known[s.operand]
            side = self.single.whole(s.node, sides[s.node])
            known[s.operand] = (
                np.where(side > 0, np.maximum(low, s.limit), low),
                np.where(side < 0, np.minimum(high, s.limit), high),
            )
        return known


def sites_of(network: Network) -> list[Site]:
    """Choices between a value that its kernel computes and a constant."""
    found = []
    for n, rule in network.rules.items():
        if n.op not in ("max", "min") or not isinstance(rule, Elementwise) or rule.operands != (0,):
            continue
        operand, limit = n.args[0], np.asarray(network.fixed[n.args[1]], np.float64)
        if operand.type.shape == n.type.shape and operand not in network.stored and operand in network.rules:
            found.append(Site(n, operand, np.broadcast_to(limit, n.type.shape)))
    return found


def bend_costs(s: Site, low: Array, high: Array, row: Array) -> Array:
    """The cost of the bend of every element, [parts, elements], for a ``row`` [parts, ...] of what the choice gives.

    The operand is ``low`` to ``high`` above its limit. Elements whose side is known cost nothing, all others something.
    """
    with np.errstate(all="ignore"):
        triangle, other = -low * high / (high - low), np.minimum(-low, high)
    secant = row < 0 if s.node.op == "max" else row > 0
    cost = np.nan_to_num(np.abs(row) * np.where(secant, triangle, other)) + 1e-300
    return np.asarray(np.where((low < 0) & (high > 0), cost, 0.0).reshape(len(row), -1))

"""Ranges of the inputs that meet a clause: what lies in front of a choice, narrowed by the conditions of the clause.

Of an input that meets it no condition is above its limit, so a multiple of what it is beyond makes no bound wrong
(Kotha et al., "Provably Bounding Neural Network Preimages", 2023). A search that is to refute the clause may do with
the ranges of such inputs.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from edgec.certify.bounds import Bounds
from edgec.certify.domain import Domain
from edgec.certify.proved import of_boxes, proved
from edgec.certify.ranges import Array
from edgec.certify.relaxed import Relaxed
from edgec.certify.single import SINGLE, Single, Site
from edgec.certify.slopes import Ascent, Goal, State
from edgec.certify.spec import Spec
from edgec.ir.graph import Node

#: Steps of the optimizer, rows at a time, and the part of a range that is worth a proof.
STEPS, ROWS, GAIN = 20, 512, 1e-3
Ranges = dict[Node, tuple[Array, Array]]


class Narrowing:
    """Narrower ranges of the operands of choices for one box, with sides [1, elements] that were taken.

    Where a run begins with the slopes and multipliers that the first one ended with, few steps do.
    """

    def __init__(self, single: Single, spec: Spec) -> None:
        self.single, self.network, self.spec = single, single.network, spec
        self.goal = Goal.of(self.network, spec)
        self.ends: dict[Node, tuple[Array, State]] = {}

    def run(self, domain: Domain, known: Ranges, taken: Mapping[Node, Array], end: float, steps: int = STEPS) -> bool:
        """Narrows what is ``known`` of operands [1, elements...] in place; True where no input is left."""
        found = self.network.bounds(domain, known, tighten=False)
        for s in self.single.sites:
            low, high = (x.copy() for x in known[s.operand])
            open = np.flatnonzero(((low < s.limit) & (high > s.limit))[0])
            for k in range(0, len(open), ROWS // 2):
                if time.perf_counter() > end:
                    return False
                part = open[k : k + ROWS // 2]
                ends = low.reshape(-1)[part], high.reshape(-1)[part]
                least = self._least(found, s, part, np.concatenate([ends[0], -ends[1]]), taken, steps)
                low.reshape(-1)[part], high.reshape(-1)[part] = least[: len(part)], -least[len(part) :]
            if (low > high).any():
                return True
            known[s.operand] = low, high
            found = self.network.bounds(domain, known, tighten=False)
        return False

    def _least(
        self, found: Bounds, site: Site, elements: Array, least: Array, taken: Mapping[Node, Array], steps: int
    ) -> Array:
        """Lower bounds of elements of an operand, and of their negatives behind them, where the clause is met; they
        are not below those that are known as ``least``."""
        count, kept = 2 * len(elements), self.single.kept.get(site.node)
        rows = np.zeros((count, self.single.size(site.node)), SINGLE)
        place = elements if kept is None else np.searchsorted(kept, elements)
        rows[np.arange(count), np.tile(place, 2)] = np.repeat([1.0, -1.0], len(elements))
        relaxed = Relaxed(self.single, found)
        flat = {n: t for n, t in taken.items() if t.any()}
        state = self._begin(relaxed, site, elements)
        state = replace(state, betas={n: np.zeros_like(state.shares[n]) for n in flat})
        ascent = Ascent(relaxed, self.goal, state, flat, (site.operand, rows))
        ascent.run(steps)
        if not taken:
            self.ends[site.operand] = elements, ascent.state
        better = np.flatnonzero(ascent.least > least + GAIN * (-least - np.roll(least, len(elements))))
        if better.size:
            many, state = of_boxes(found, np.zeros(better.size, np.int64)), ascent.state.take(better)
            proof = proved(self.single, self.spec, many, state, flat, (site.operand, rows[better]))
            least[better] = np.fmax(least[better], proof)
        return least

    def _begin(self, relaxed: Relaxed, site: Site, elements: Array) -> State:
        count = 2 * len(elements)
        if site.operand in self.ends:
            before, state = self.ends[site.operand]
            at = np.minimum(np.searchsorted(before, elements), len(before) - 1)
            if (before[at] == elements).all():
                state = state.take(np.concatenate([at, at + len(before)]))
                shares = {
                    n: np.where(b.open, state.shares[n], b.settled).astype(SINGLE) for n, b in relaxed.bends.items()
                }
                return replace(state, shares=shares)
        shares = {n: np.repeat(b.usual(), count, 0) for n, b in relaxed.bends.items()}
        return State(shares, {}, np.zeros((count, len(self.goal.limits)), SINGLE))

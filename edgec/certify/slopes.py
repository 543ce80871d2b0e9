"""Free slopes of planes and multipliers of conditions, optimized by the gradient of the bound.

A bound is that of a linear function of the inputs, at the corner where it is least. So the gradient by a free slope is
the row times the operand's value, and that by a multiplier the value of its condition, both at this corner and along
the planes that the bound is made of (alpha-CROWN: Xu et al., 2021; beta-CROWN: Wang et al., 2021; multipliers of the
conditions of outputs: Kotha et al., "Provably Bounding Neural Network Preimages", 2023).
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass

import numpy as np

from edgec.certify.network import Network
from edgec.certify.ranges import Array
from edgec.certify.relaxed import Passed, Relaxed
from edgec.certify.single import SINGLE
from edgec.certify.spec import Spec
from edgec.ir.graph import Node

#: The length of the first step of slopes and of multipliers, and what each is shorter by.
RATE, PULL, DECAY = 0.5, 0.2, 0.95


@dataclass(frozen=True)
class Goal:
    """The conditions of a clause, rows [conditions, elements] by output that are not to be above ``limits``."""

    rows: Mapping[Node, Array]
    limits: Array

    @staticmethod
    def of(network: Network, spec: Spec) -> Goal:
        rows = {n: r[0].reshape(len(spec.limits), -1).astype(SINGLE) for n, r in spec.rows(network, 1).items()}
        return Goal(rows, spec.limits.astype(SINGLE))

    def excess(self, values: Mapping[Node, Array]) -> Array:
        """By how much outputs [points, elements] miss each condition."""
        return np.asarray(sum(values[n] @ r.T for n, r in self.rows.items()) - self.limits)


@dataclass(frozen=True)
class State:
    """Free slopes and multipliers of sides by choice, [rows, elements], and multipliers of the conditions of a goal."""

    shares: Mapping[Node, Array]
    betas: Mapping[Node, Array]
    weights: Array

    def take(self, rows: Array) -> State:
        shares, betas = ({n: x[rows] for n, x in a.items()} for a in (self.shares, self.betas))
        return State(shares, betas, self.weights[rows])

    @staticmethod
    def joined(states: list[State]) -> State:
        first = states[0]
        shares, betas = (
            {n: np.concatenate([getattr(s, name)[n] for s in states]) for n in getattr(first, name)}
            for name in ("shares", "betas")
        )
        return State(shares, betas, np.concatenate([s.weights for s in states]))


class Ascent:
    """Bounds that rise step by step, by the optimizer Adam.

    They are of ``start`` rows of one node, if there are any, and of the conditions of a goal, whose weights are free
    then; without a start they add up to one. ``taken`` [rows, elements] says by choice which sides were taken: 1 for
    the operand above its limit, -1 below, 0 for neither.
    """

    def __init__(
        self,
        relaxed: Relaxed,
        goal: Goal,
        state: State,
        taken: Mapping[Node, Array],
        start: tuple[Node, Array] | None = None,
    ) -> None:
        self.relaxed, self.goal, self.state, self.taken, self.start = relaxed, goal, state, taken, start
        self.moments: dict[object, tuple[Array, Array]] = {}
        self.step = 0
        self.made = self._back()

    @property
    def least(self) -> Array:
        return self.made.least

    def _back(self) -> Passed:
        state = self.state
        rows = {n: state.weights @ r for n, r in self.goal.rows.items()}
        if self.start is not None:
            n, own = self.start
            rows[n] = rows[n] + own if n in rows else own
        pulls = {n: -b * self.taken[n] for n, b in state.betas.items()}
        made = self.relaxed.back(rows, state.shares, pulls)
        made.least = made.least - state.weights @ self.goal.limits
        return made

    def run(self, steps: int) -> bool:
        """So many steps; False where the planes have no gradient."""
        for _ in range(steps):
            values = self.relaxed.follow(self.made)
            if values is None:
                return False
            self._move(values)
            self.made = self._back()
        return True

    def _move(self, values: Mapping[Node, Array]) -> None:
        state, shares, betas = self.state, dict(self.state.shares), dict(self.state.betas)
        for n, site in self.relaxed.sites.items():
            row = self.made.rows.get(n)
            if row is None:
                continue
            away = values[site.operand] if site.level is None else values[site.operand] - site.level
            free = np.maximum(row, 0) if site.sign > 0 else np.minimum(row, 0)
            move = RATE * self._adam(("share", n), free * away * self.relaxed.bends[n].open)
            shares[n] = np.clip(shares[n] + move, 0, 1)
            if n in betas:
                move = PULL * self._adam(("beta", n), -self.taken[n] * away)
                betas[n] = np.maximum(betas[n] + move * (self.taken[n] != 0), 0)
        weights = state.weights
        if self.start is not None or len(self.goal.limits) > 1:
            weights = np.maximum(weights + PULL * self._adam("weights", self.goal.excess(values)), 0)
            if self.start is None:
                weights = weights / np.maximum(weights.sum(axis=1, keepdims=True), SINGLE(1e-12))
        self.state = State(shares, betas, weights)
        self.step += 1

    def _adam(self, key: object, slope: Array) -> Array:
        first, second = self.moments.get(key, (SINGLE(0), SINGLE(0)))
        first = SINGLE(0.9) * first + SINGLE(0.1) * slope
        second = SINGLE(0.999) * second + SINGLE(0.001) * slope * slope
        self.moments[key] = first, second
        length, size = DECAY**self.step / (1 - 0.9 ** (self.step + 1)), 1 / (1 - 0.999 ** (self.step + 1))
        return np.asarray(SINGLE(length) * first / (np.sqrt(SINGLE(size) * second) + SINGLE(1e-12)))

    def take(self, rows: Array) -> Ascent:
        """The same for some of the rows."""
        taken = copy(self)
        taken.relaxed, taken.state = self.relaxed.take(rows), self.state.take(rows)
        taken.taken = {n: x if len(x) == 1 else x[rows] for n, x in self.taken.items()}
        taken.moments = {k: (a[rows], b[rows]) for k, (a, b) in self.moments.items()}
        taken.start = None if self.start is None else (self.start[0], self.start[1][rows])
        taken.made = self.made.take(rows)
        return taken

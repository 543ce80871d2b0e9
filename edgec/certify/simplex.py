"""Small linear programs, many at once: the point of a box at which the greatest of some conditions is least.

The simplex method runs on the dual program, whose every step is a proof: weights of the conditions, none below zero.
"""

from __future__ import annotations

import numpy as np

from edgec.certify.ranges import Array

#: Steps at most, and what counts as nothing beside the greatest number of a program.
STEPS, NOTHING = 60, 1e-11


def solved(values: Array, slopes: Array, low: Array, high: Array, steps: int = STEPS) -> tuple[Array, Array]:
    """Weights of conditions [programs, conditions], which add up to 1, and points [programs, elements].

    The conditions are ``values`` + ``slopes`` @ point, with slopes [programs, conditions, elements], and points are
    between ``low`` and ``high``. A program ends as soon as its weights prove that not all conditions are at most zero,
    or its point is one where they are. Conditions whose value is minus infinity have no weight.
    """
    weights, points = np.zeros_like(values), low + (high - low) / 2
    some = np.isfinite(values).any(axis=1)
    weights[~some, 0] = 1
    at = np.flatnonzero(some)
    if not at.size:
        return weights, points
    tableau = _Tableau(values[at], slopes[at], low[at], high[at])
    for _ in range(steps):
        own, point, is_done = tableau.step()
        weights[at[is_done]], points[at[is_done]] = own[is_done], point[is_done]
        at = at[~is_done]
        if not at.size:
            return weights, points
        tableau.keep(~is_done)
    weights[at], points[at] = own[~is_done], point[~is_done]
    return weights, points


class _Tableau:
    """Programs on their way; weights of conditions, and of the sides of the box, are the variables."""

    def __init__(self, values: Array, slopes: Array, low: Array, high: Array) -> None:
        count, most, elements = slopes.shape
        self.most, self.elements = most, elements
        usable = np.isfinite(values)
        values, slopes = np.where(usable, values, 0.0), np.where(usable[:, :, None], slopes, 0.0)
        self.columns = np.zeros((count, elements + 1, most + 2 * elements))
        self.columns[:, :elements, :most] = slopes.transpose(0, 2, 1)
        self.columns[:, elements, :most] = 1
        self.columns[:, :elements, most : most + elements] = -np.eye(elements)
        self.columns[:, :elements, most + elements :] = np.eye(elements)
        self.costs = np.concatenate([values, low, -high], axis=1)
        self.blocked = np.concatenate([~usable, np.zeros((count, 2 * elements), bool)], axis=1)
        self.low, self.high = low, high
        lane = np.arange(count)
        least = values + np.where(slopes > 0, slopes * low[:, None], slopes * high[:, None]).sum(axis=2)
        first = np.where(usable, least, -np.inf).argmax(axis=1)
        own = slopes[lane, first]
        sign = np.where(own >= 0, -1.0, 1.0)
        self.basis = np.concatenate(
            [most + np.arange(elements) + np.where(own >= 0, 0, elements), first[:, None]], axis=1
        )
        self.inverse = np.zeros((count, elements + 1, elements + 1))
        diagonal = np.arange(elements)
        self.inverse[:, diagonal, diagonal] = sign
        self.inverse[:, :elements, elements] = -sign * own
        self.inverse[:, elements, elements] = 1
        self.amounts = self.inverse[:, :, elements].copy()
        self.tolerance = NOTHING * (1 + np.abs(self.costs).max(axis=1))

    def keep(self, rows: Array) -> None:
        """These programs alone."""
        for name in ("columns", "costs", "blocked", "low", "high", "basis", "inverse", "amounts", "tolerance"):
            setattr(self, name, getattr(self, name)[rows])

    def step(self) -> tuple[Array, Array, Array]:
        """The weights, the points, and which programs are done; the others take one step."""
        lane = np.arange(len(self.basis))
        costs = np.take_along_axis(self.costs, self.basis, 1)
        prices = (costs[:, None] @ self.inverse)[:, 0]
        reduced = self.costs - (prices[:, None] @ self.columns)[:, 0]
        reduced[self.blocked] = -np.inf
        entering = reduced.argmax(axis=1)
        objective = (costs * self.amounts).sum(axis=1)
        point = np.clip(-prices[:, : self.elements], self.low, self.high)
        there = self.costs[:, : self.most] + (point[:, None] @ self.columns[:, : self.elements, : self.most])[:, 0]
        there[self.blocked[:, : self.most]] = -np.inf
        is_done = (reduced[lane, entering] <= self.tolerance) | (objective > self.tolerance) | (there.max(axis=1) < 0)
        weights = np.zeros((len(lane), self.costs.shape[1]))
        np.put_along_axis(weights, self.basis, np.maximum(self.amounts, 0), 1)
        weights = weights[:, : self.most]
        weights /= np.maximum(weights.sum(axis=1, keepdims=True), 1e-300)
        column = self.columns[lane, :, entering]
        direction = (self.inverse @ column[:, :, None])[..., 0]
        with np.errstate(all="ignore"):
            ratio = np.where(direction > 1e-12, self.amounts / direction, np.inf)
        leaving = ratio.argmin(axis=1)
        is_done |= ~np.isfinite(ratio[lane, leaving])
        go = np.flatnonzero(~is_done)
        if go.size:
            row, d = leaving[go], direction[go]
            pivot = self.inverse[go, row] / d[np.arange(go.size), row][:, None]
            amount = ratio[go, row]
            self.inverse[go] -= d[:, :, None] * pivot[:, None]
            self.inverse[go, row] = pivot
            self.amounts[go] = np.maximum(self.amounts[go] - d * amount[:, None], 0)
            self.amounts[go, row] = amount
            self.basis[go, row] = entering[go]
        return weights, point, is_done

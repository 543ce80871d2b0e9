"""Rules of what is not linear and not element-wise: extremes over dimensions and windows, and products of variables."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from edgec.certify.elementwise import aligned
from edgec.certify.patches import Region
from edgec.certify.ranges import TINY, U64, Array, Range, Sum, checked, gamma, whole
from edgec.certify.rules import Cut, Ranges, Rows, Rule, all_of, dot, lost
from edgec.certify.windows import Part


class Extreme(Rule):
    """The greatest or the least element of a window: below the greatest is any one of them, above it their bounds."""

    parts: list[Part]

    def range(self, args: Ranges) -> Range:
        (a,) = args
        of = np.maximum if self.place.node.attributes["combine"] == "max" else np.minimum
        found = [of.reduce([x[(slice(None), *part)] for part in self.parts]) for x in (a.low, a.high)]
        whole_error = np.broadcast_to(a.error, a.low.shape)
        error = np.maximum.reduce([whole_error[(slice(None), *part)] for part in self.parts])
        nothing = 0 * (found[0] + found[1] + error)
        return Range(found[0] + nothing, found[1] + nothing, error + nothing)

    def back(
        self,
        rows: Array,
        facts: tuple[Ranges, Range],
        cut: Cut = all_of,
        window: Region = None,
        keep: Array | None = None,
    ) -> Rows:
        ((a,), _), is_least = facts, self.place.node.attributes["combine"] == "min"
        low, high = (-a.high, -a.low) if is_least else (a.low, a.high)
        low, high = cut(low), cut(high)
        rows = -rows if is_least else rows
        lows, highs = (np.stack([x[(slice(None), *p)] for p in self.parts], 1) for x in (low, high))
        winner = lows.argmax(1)
        best = np.take_along_axis(lows, winner[:, None], 1)[:, 0]
        others = np.where(
            np.arange(len(self.parts)).reshape(1, -1, *(1,) * (lows.ndim - 2)) == winner[:, None], -np.inf, highs
        )
        certain = best >= others.max(1)
        top = highs.max(1)
        above, below = np.maximum(rows, 0), np.minimum(rows, 0)
        carried = above + below * certain[:, None]
        constant = dot(below, np.where(certain, 0.0, top))
        part = np.zeros((*rows.shape[:2], *self.place.node.args[0].type.shape))
        for k, place in enumerate(self.parts):
            part[(slice(None), slice(None), *place)] += carried * (winner == k)[:, None]
        sizes = np.maximum(np.abs(top), np.abs(best))
        return Rows({0: -part if is_least else part}, constant, lost(sizes, prod(self.place.node.type.shape)))


class Product(Rule):
    """A matrix product of two values that vary: McCormick's planes for every term."""

    terms: int

    def range(self, args: Ranges) -> Range:
        rank = self.place.node.type.rank
        (am, ar, ae), (bm, br, be) = (
            ((a.low + a.high) / 2, (a.high - a.low) / 2 * (1 + 4 * U64), a.error) for a in args
        )
        size_a, size_b = (aligned(a.magnitude, rank) for a in args)
        am, ar, bm, br = (aligned(x, rank) for x in (am, ar, bm, br))
        ae, be = (aligned(np.broadcast_to(a.error, a.low.shape), rank) for a in args)
        center = am @ bm
        mass = size_a @ size_b
        reach = np.abs(am) @ br + ar @ np.abs(bm) + ar @ br + 4 * (self.terms + 8) * U64 * mass
        carried = size_a @ be + ae @ size_b + ae @ be
        carried = carried * (1 + 4 * (self.terms + 8) * U64)
        parts = Sum(carried, mass + carried, self.terms)
        low, high = center - reach, center + reach
        if not self.place.is_float:
            return whole(np.ceil(low - 1e-6), np.floor(high + 1e-6), carried, self.place.ends, parts)
        order = self.place.order
        terms = self.terms if order is None else order.depth
        parts = replace(parts, is_closed=order is not None)
        error = carried + gamma(terms, self.place.unit) * parts.mass * (1 + 1e-6) + self.terms * TINY
        return checked(low, high, error, parts)

    def back(
        self,
        rows: Array,
        facts: tuple[Ranges, Range],
        cut: Cut = all_of,
        window: Region = None,
        keep: Array | None = None,
    ) -> Rows:
        rank, (args, result) = self.place.node.type.rank, facts
        a_low, a_high, b_low = (aligned(cut(x), rank)[:, None] for x in (args[0].low, args[0].high, args[1].low))
        above, below = np.maximum(rows, 0), np.minimum(rows, 0)
        turned = [np.swapaxes(x, -1, -2) for x in (a_low, a_high, b_low)]
        left = rows @ turned[2]
        right = turned[0] @ above + turned[1] @ below
        constant = -dot(above, (a_low @ b_low)[:, 0]) - dot(below, (a_high @ b_low)[:, 0])
        shapes = [a.type.shape for a in self.place.node.args]
        parts = {0: _summed_to(left, shapes[0]), 1: _summed_to(right, shapes[1])}
        assert result.sum is not None
        terms = prod(self.place.node.type.shape) + self.terms
        return Rows(parts, constant, cut(lost(3 * result.sum.mass, terms)))


def _summed_to(rows: Array, shape: tuple[int, ...]) -> Array:
    """Rows of a product's operand whose leading dimensions were broadcast."""
    lead = rows.ndim - 2 - len(shape)
    axes = tuple(2 + d for d in range(rows.ndim - 4) if d < lead or (shape[d - lead] == 1 and rows.shape[2 + d] != 1))
    return (rows.sum(axis=axes) if axes else rows).reshape(*rows.shape[:2], *shape)

"""The linear relaxation of a network in single precision, for searches: whatever they find is bounded again.

Rows pass back to the inputs, and the point at which their bound is least passes forward along the same planes. Both are
what the gradient of a bound by free slopes and multipliers is made of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np

from edgec.certify.bounds import Bounds
from edgec.certify.descent import facts_of
from edgec.certify.elementwise import aligned
from edgec.certify.ranges import Array
from edgec.certify.rules import Elementwise
from edgec.certify.single import SINGLE, Parts, Single, Site, flat
from edgec.ir.graph import Node


@dataclass(frozen=True)
class Bend:
    """The planes of a choice [boxes, elements], around its limit: the free one has ``settled`` for its slope where the
    choice is not ``open``, the other one the slope of the chord, and an offset."""

    open: Array
    settled: Array
    chord: Array
    offset: Array

    @staticmethod
    def of(single: Single, site: Site, found: Bounds) -> Bend:
        seen = found.seen[site.operand]
        low, high = (single.part(site.node, x - site.limit) for x in (seen.low, seen.high))
        if site.sign < 0:
            low, high = -high, -low
        open = (low < 0) & (high > 0)
        settled = (low >= 0).astype(SINGLE)
        with np.errstate(all="ignore"):
            chord = np.where(open, high / (high - low), settled)
        offset = site.sign * np.where(open, -chord * low, 0)
        return Bend(open, settled, chord.astype(SINGLE), offset.astype(SINGLE))

    def usual(self) -> Array:
        """The free slope that makes the smaller area."""
        return np.where(self.open, self.chord > 0.5, self.settled).astype(SINGLE)

    def settle(self, rows: Array, elements: Array, slopes: Array) -> None:
        """One element of each of some rows is linear, with slope 1 or 0."""
        self.open[rows, elements] = False
        self.settled[rows, elements] = self.chord[rows, elements] = slopes
        self.offset[rows, elements] = 0

    def take(self, boxes: Array) -> Bend:
        """Those of some boxes, which are stored again."""
        parts = (self.open, self.settled, self.chord, self.offset)
        return Bend(*(x[boxes] if len(x) > 1 else np.repeat(x, len(boxes), 0) for x in parts))


@dataclass
class Passed:
    """Rows [rows, elements] of nodes, the slopes of choices, inputs where the bounds are least, and the
    bounds."""

    rows: dict[Node, Array]
    slopes: dict[Node, Array]
    inputs: dict[Node, Array]
    least: Array

    def take(self, rows: Array) -> Passed:
        """Those of some rows."""
        own = [{n: x[rows] for n, x in part.items()} for part in (self.rows, self.slopes, self.inputs)]
        return Passed(own[0], own[1], own[2], self.least[rows])


class Relaxed:
    """The relaxation for the boxes of ``found``: of one box for all rows, or of one for each of them."""

    def __init__(self, single: Single, found: Bounds) -> None:
        self.single, self.network, self.found = single, single.network, found
        self.sites = {s.node: s for s in single.sites}
        self.bends = {s.node: Bend.of(single, s, found) for s in single.sites}
        #: The numbers of the boxes of rows, if they are not all of them in turn.
        self.boxes: Array | None = None

    def back(self, given: Mapping[Node, Array], shares: Mapping[Node, Array], pulls: Mapping[Node, Array]) -> Passed:
        """Bounds of the sum of ``given`` rows and of ``pulls``, which are about the operands of choices less limits."""
        waiting, reached = dict(given), dict[Node, Array]()
        made = Passed({}, {}, {}, np.zeros(len(next(iter(given.values()))), SINGLE))
        for n in reversed(self.network.order):
            if n not in waiting:
                continue
            here = waiting.pop(n)
            if n in self.network.fixed:
                made.least = made.least + here @ flat(self.network.fixed[n][None])[0]
                continue
            if n.op == "input":
                into = self.network.input_of(n)
                reached[into] = reached[into] + here if into in reached else here
                continue
            made.rows[n] = here
            if n in self.sites:
                parts, constant = self._bent(n, made, shares[n], pulls.get(n))
            else:
                parts, constant = self.single.back(n, here) if self.single.is_step(n) else self._other(n, here)
            made.least = made.least + constant
            for k, row in parts.items():
                waiting[n.args[k]] = waiting[n.args[k]] + row if n.args[k] in waiting else row
        made.inputs = self._corner(reached)
        for n, row in reached.items():
            made.least = made.least + np.einsum("re,re->r", row, made.inputs[n])
        return made

    def _bent(self, n: Node, made: Passed, share: Array, pull: Array | None) -> Parts:
        here, bend, site = made.rows[n], self.bends[n], self.sites[n]
        slope = np.where(here > 0 if site.sign > 0 else here < 0, share, bend.chord)
        made.slopes[n] = slope
        part = here * slope
        constant = _dot(np.minimum(here, 0) if site.sign > 0 else np.maximum(here, 0), bend.offset)
        if site.level is not None:
            constant = constant + (here - part if pull is None else here - part - pull) @ site.level
        return {0: part if pull is None else part + pull}, constant

    def _other(self, n: Node, here: Array) -> Parts:
        rule, lead = self.network.rules[n], self._lead(len(here))
        rows = rule.back(here.reshape(*lead, *n.type.shape), facts_of(rule, n, self.found), self._cut)
        parts = {k: flat(r.reshape(len(here), -1)) for k, r in rows.parts.items()}
        return parts, rows.constant.reshape(-1).astype(SINGLE)

    def _corner(self, rows: Mapping[Node, Array]) -> dict[Node, Array]:
        domain, lead = self.found.domain, self._lead(len(next(iter(rows.values()))))
        if self.boxes is not None:
            domain = domain.within(dict.fromkeys(rows), self.boxes)
        corner = domain.corner({n: r.reshape(*lead, *n.type.shape) for n, r in rows.items()})
        return {n: flat(x.reshape(len(rows[n]), -1)) for n, x in corner.items()}

    def _lead(self, count: int) -> tuple[int, int]:
        return (1, count) if self.found.domain.boxes == 1 else (count, 1)

    def _cut(self, x: Array) -> Array:
        return x if self.boxes is None or x.ndim == 0 or len(x) == 1 else x[self.boxes]

    def take(self, boxes: Array) -> Relaxed:
        """The same for rows of these boxes."""
        taken = copy(self)
        taken.bends = {n: b.take(boxes) for n, b in self.bends.items()}
        if self.found.domain.boxes > 1:
            taken.boxes = boxes if self.boxes is None else self.boxes[boxes]
        return taken

    def follow(self, made: Passed) -> dict[Node, Array] | None:
        """The values along the planes that rows took, at the inputs where their bounds are least; None where an
        operator has none to follow."""
        values: dict[Node, Array] = {}
        for n in self.network.order:
            if n.op == "input" and self.network.input_of(n) in made.inputs:
                values[n] = made.inputs[self.network.input_of(n)]
            elif n in made.rows:
                args = [values[n.args[k]] for k in self.network.rules[n].operands]
                if n in self.sites:
                    values[n] = self._chosen(n, made, args[0])
                elif self.single.is_step(n):
                    values[n] = self.single.value(n, args)
                elif isinstance(self.network.rules[n], Elementwise):
                    values[n] = self._sloped(n, made.rows[n], args)
                else:
                    return None
        return values

    def _chosen(self, n: Node, made: Passed, x: Array) -> Array:
        site, row = self.sites[n], made.rows[n]
        x = x if site.level is None else x - site.level
        x = made.slopes[n] * x + self.bends[n].offset * (row <= 0 if site.sign > 0 else row >= 0)
        return x if site.level is None else x + site.level

    def _sloped(self, n: Node, rows: Array, args: Sequence[Array]) -> Array:
        rule, count = self.network.rules[n], len(rows)
        facts, is_low = facts_of(rule, n, self.found), rows.reshape(count, *n.type.shape) > 0
        operands = {k: x.reshape(count, *n.args[k].type.shape) for k, x in zip(rule.operands, args)}
        total = np.where(is_low, self._cut(facts.offset_low), self._cut(facts.offset_high))
        for k, low, high, value in facts.slopes:
            x = aligned(operands[k], n.type.rank) if value is None else self._cut(value)
            total = total + np.where(is_low, self._cut(low), self._cut(high)) * x
        return flat(total)


def _dot(rows: Array, values: Array) -> Array:
    """The products [rows] of rows with the values of one box, or of a box each."""
    return np.asarray(rows @ values[0] if len(values) == 1 else np.einsum("re,re->r", rows, values))

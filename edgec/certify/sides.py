"""Sides of choices in parts of a box: what bounds decide, what a search takes, and what taking one would gain.

A side that was taken is a condition of the inputs, by the linear bounds of the operand.
"""

from __future__ import annotations

from math import prod

import numpy as np

from edgec.certify.bounds import Bounds, Known
from edgec.certify.choices import bend_costs, sites_of
from edgec.certify.elementwise import aligned
from edgec.certify.joined_inputs import JoinedInputs
from edgec.certify.network import Network
from edgec.certify.ranges import U64, Array
from edgec.certify.rules import Elementwise, Moved, Weighted
from edgec.ir.graph import Node

#: Sides as numbers: those that bounds decided are 1 above the limit and -1 below, those that were taken twice that.
TAKEN = 2


class Sides:
    """The sides of all choices between an operand and a constant, [boxes, elements of all choices]."""

    def __init__(self, network: Network) -> None:
        self.network, self.flat = network, JoinedInputs(network)
        self.sites = sites_of(network)
        self.ends = np.cumsum([prod(s.operand.type.shape) for s in self.sites], dtype=np.int64)
        self.starts = np.concatenate([np.zeros(1, np.int64), self.ends])[:-1]

    def none(self) -> Array:
        """No side of one box."""
        return np.zeros((1, int(self.ends[-1]) if self.sites else 0), np.int8)

    def found(self, bounds: Bounds, before: Array) -> Array:
        """Those that bounds decide, and those that were taken ``before``."""
        made = [np.zeros((bounds.domain.boxes, 0), np.int8)]
        for s in self.sites:
            seen = bounds.seen[s.operand]
            side = (seen.low >= s.limit).astype(np.int8) - (seen.high <= s.limit)
            made.append(side.reshape(len(side), -1).astype(np.int8))
        return np.where(np.abs(before) == TAKEN, before, np.concatenate(made, axis=1))

    def known(self, sides: Array) -> Known:
        """The ranges of operands by sides that bounds decided."""
        return self._ranges(sides, 1)

    def taken(self, sides: Array) -> Known:
        """The ranges of operands by sides that were taken."""
        return self._ranges(sides, TAKEN) if (np.abs(sides) == TAKEN).any() else {}

    def _ranges(self, sides: Array, size: int) -> Known:
        found = {}
        for s, own in zip(self.sites, self._apart(sides)):
            side = own.reshape(-1, *s.operand.type.shape)
            found[s.operand] = np.where(side == size, s.limit, -np.inf), np.where(side == -size, s.limit, np.inf)
        return found

    def _apart(self, x: Array) -> list[Array]:
        return np.split(x, self.ends[:-1], axis=1) if self.sites else []

    def place(self, element: Array) -> tuple[Array, Array]:
        """The number of the choice of elements of all choices, and their numbers in it."""
        site = np.searchsorted(self.ends, element, side="right")
        return site, element - self.starts[site]

    def condition(self, bounds: Bounds, boxes: Array, site: int, element: Array, side: Array) -> tuple[Array, Array]:
        """The condition that an operand is on a ``side`` (1 or -1) of its limit, for elements in sorted ``boxes``.

        Least values [elements] of what is not above zero there, and its slopes [elements, inputs].
        """
        s = self.sites[site]
        rows = np.zeros((len(boxes), 1, s.limit.size))
        rows[np.arange(len(boxes)), 0, element] = -side
        given = {s.operand: rows.reshape(len(boxes), 1, *s.operand.type.shape)}
        value, reached = self.network.back(given, bounds, boxes=boxes)
        limit = side * s.limit.reshape(-1)[element]
        least = value[:, 0] + limit
        return least - 4 * U64 * (np.abs(value[:, 0]) + np.abs(limit)), self.flat.rows(reached, value.shape)[:, 0]

    def conditions(self, bounds: Bounds, boxes: Array, sides: Array, inputs: int) -> tuple[Array, Array]:
        """The conditions of all sides that were taken in ``boxes``: least values [boxes, most], slopes [..., inputs].

        Where a box has fewer, values are minus infinity.
        """
        made: list[tuple[Array, Array, Array]] = []
        for k, own in enumerate(self._apart(sides)):
            box, element = np.nonzero(np.abs(own) == TAKEN)
            if len(box):
                side = np.sign(own[box, element]).astype(np.float64)
                made.append((box, *self.condition(bounds, boxes[box], k, element, side)))
        box, least, slopes = (np.concatenate(x) for x in zip(*made)) if made else (np.zeros(0, np.int64),) * 3
        order = np.argsort(box, kind="stable")
        counts = np.bincount(box, minlength=len(boxes)) if len(boxes) else np.zeros(0, np.int64)
        place = np.arange(len(box)) - np.repeat(np.cumsum(counts) - counts, counts)
        values = np.full((len(boxes), int(counts.max(initial=0))), -np.inf)
        wide = np.zeros((*values.shape, inputs))
        if made:
            values[box[order], place], wide[box[order], place] = least[order], slopes[order]
        return values, wide

    def costs(self, bounds: Bounds, boxes: Array, rows: dict[Node, Array]) -> Array:
        """By how much the bend of every choice may lower the bound of one row in each of ``boxes``."""
        watched: dict[Node, Array] = {}
        self.network.back(rows, bounds, watched=watched, boxes=boxes)
        made = [np.zeros((len(boxes), 0))]
        for s in self.sites:
            seen = bounds.seen[s.operand]
            row = watched[s.node][:, 0] if s.node in watched else np.zeros((len(boxes), *s.node.type.shape))
            made.append(bend_costs(s, (seen.low - s.limit)[boxes], (seen.high - s.limit)[boxes], row))
        return np.concatenate(made, axis=1)

    def moves(self, bounds: Bounds, boxes: Array, width: Array) -> Array | None:
        """Distances by which each input, over its ``width`` [boxes, inputs], moves the operands of choices, [boxes,
        inputs, elements]: by the middle of the slopes of what is before them; None where an operator has none."""
        count, inputs = width.shape
        unit = np.eye(inputs) * width[:, None]
        moved = self.flat.points(unit.reshape(count * inputs, inputs))
        for n in self.network.order:
            if n in self.network.fixed or n.op == "input":
                continue
            rule = self.network.rules[n]
            if isinstance(rule, Elementwise):
                planes = rule.planes([bounds.seen[a] for a in n.args])
                total = np.zeros(())
                for k in rule.operands:
                    slope = (planes.low[k] + planes.high[k]) / 2
                    if slope.ndim and len(slope) > 1:
                        slope = np.repeat(slope[boxes], inputs, 0)
                    total = total + slope * aligned(moved[n.args[k]], n.type.rank)
                moved[n] = total
            elif isinstance(rule, Weighted):
                moved[n] = rule.map(moved[n.args[rule.operands[0]]])
            elif isinstance(rule, Moved):
                moved[n] = rule.move.plain([moved[n.args[k]] for k in rule.operands])
            else:
                return None
        made = [np.zeros((count, inputs, 0)), *(moved[s.operand].reshape(count, inputs, -1) for s in self.sites)]
        return np.asarray(np.abs(np.concatenate(made, axis=2)))

"""Sets of inputs: boxes, and balls within them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from edgec.certify.patches import Region, cut
from edgec.certify.ranges import U64, Array
from edgec.ir.graph import Node


@dataclass(frozen=True)
class Domain:
    """Boxes [boxes, elements...] by input, and where ``radius`` is given, the ball of it around ``center`` within them.

    The ball is that of the Euclidean norm over all inputs together.
    """

    low: Mapping[Node, Array]
    high: Mapping[Node, Array]
    center: Mapping[Node, Array] | None = None
    radius: float | None = None

    @property
    def boxes(self) -> int:
        return int(next(iter(self.low.values())).shape[0])

    def of(self, n: Node) -> tuple[Array, Array]:
        """The box of an input."""
        return self.low[n], self.high[n]

    def within(self, windows: Mapping[Node, Region], boxes: Array) -> Domain:
        """The sets of parts of inputs, for groups that are of these ``boxes``."""

        def part(values: Mapping[Node, Array]) -> dict[Node, Array]:
            return {n: cut(values[n], window, boxes) for n, window in windows.items()}

        center = None if self.center is None else part(self.center)
        return Domain(part(self.low), part(self.high), center, self.radius)

    def middle(self, n: Node) -> tuple[Array, Array]:
        """The middle of the box of an input and how far it reaches, [boxes, elements], with what a sum of products with
        rows loses by rounding."""
        low, high = (x.reshape(x.shape[0], -1) for x in self.of(n))
        middle = (low + high) / 2
        slack = 4 * U64 * (low.shape[1] + 8)
        return middle, np.maximum(high - middle, middle - low) + slack * np.maximum(np.abs(low), np.abs(high))

    def least(self, rows: Mapping[Node, Array], shape: tuple[int, ...]) -> Array:
        """Lower bounds [boxes, rows] of the sum of rows times inputs."""
        total = np.zeros(shape)
        for n, row in rows.items():
            flat = (row.reshape(*shape, -1), *(x[:, :, None] for x in self.middle(n)))
            total += (flat[0] @ flat[1] - np.abs(flat[0]) @ flat[2])[..., 0]
        if self.radius is None or self.center is None or not rows:
            return total
        around, squares = np.zeros(shape), np.zeros(shape)
        for n, row in rows.items():
            flat_row, center = row.reshape(*shape, -1), self.center[n].reshape(self.center[n].shape[0], -1, 1)
            slack = 4 * U64 * (flat_row.shape[-1] + 8)
            around += (flat_row @ center - np.abs(flat_row) @ (slack * np.abs(center)))[..., 0]
            squares += (flat_row * flat_row).sum(-1) * (1 + slack)
        ball = around - self.radius * np.sqrt(squares) * (1 + 8 * U64)
        return np.maximum(total, ball - 8 * U64 * np.abs(around))

    def corner(self, rows: Mapping[Node, Array]) -> dict[Node, Array]:
        """The inputs [boxes, rows, elements...] at which the sum of rows times inputs is least."""
        if self.radius is not None and self.center is not None:
            norm = np.sqrt(sum((r * r).reshape(*r.shape[:2], -1).sum(-1) for r in rows.values()))
            norm = np.where(norm > 0, norm, 1.0)
            found = {}
            for n, row in rows.items():
                scale = (self.radius / norm).reshape(*norm.shape, *(1,) * (row.ndim - 2))
                found[n] = np.clip(self.center[n][:, None] - row * scale, self.low[n][:, None], self.high[n][:, None])
            return found
        return {n: np.where(row > 0, self.low[n][:, None], self.high[n][:, None]) for n, row in rows.items()}

"""Ways to tile a sum for Winograd's method, and the predicted time of each."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod

from edgec.device.device import Device
from edgec.ir.expr import Expr
from edgec.schedule.contract.cook_toom import Toom
from edgec.schedule.contract.winograd_weights import RunTimeWeights, vector_cycles


@dataclass(frozen=True)
class Window:
    """``extent`` neighboring outputs are one result of ``loop``; ``place`` is where their loop stands in the window."""

    loop: Expr
    extent: int
    place: int


@dataclass(frozen=True)
class Side:
    """A direction that tiles extend in: the loop over outputs, the loop over taps, and how both are transformed."""

    loop: Expr
    tap: Expr
    toom: Toom
    pooled: Window | None = None

    @property
    def step(self) -> int:
        """Outputs of a tile that are one result."""
        return self.pooled.extent if self.pooled is not None else 1

    @property
    def extent(self) -> int:
        return int(self.loop.value.extent)

    @property
    def tiles(self) -> int:
        """The last tile is moved back so that it ends where the outputs do; what it repeats is not stored."""
        return -(-self.extent // self.toom.outputs)

    @property
    def is_ragged(self) -> bool:
        return self.extent % self.toom.outputs != 0


@dataclass(frozen=True)
class Form:
    """A way to tile and what it is predicted to cost; ``block`` tiles of it are transformed together."""

    cycles: float
    sides: tuple[Side, ...]
    block: int
    rows: int
    vectors: int
    at_run: RunTimeWeights | None = None

    @property
    def outputs(self) -> tuple[int, ...]:
        return tuple(side.toom.outputs for side in self.sides)


def streaming(vectors: float, times: int, device: Device) -> float:
    """Cost of reading packed weights: nothing if half of the second-level cache holds them."""
    size = vectors * device.vector_lanes * 4
    return times * size / device.costs.register_tile.far_bytes if size > device.l2_bytes // 2 else 0.0


def _busy(rows: int, vectors: int) -> float:
    """The share of the multipliers that a register tile can use: few accumulators wait for one another."""
    accumulators = rows * vectors
    return accumulators / max(accumulators, rows + vectors, 8 if accumulators < 8 else 0)


def cycles_of_form(form: Form, tiles: int, depth: int, n: int, device: Device) -> float:
    """Predicted time: two vector operations a cycle, a store a cycle, and the weights once for every block."""
    lanes, costs, tooms = device.vector_lanes, device.costs.register_tile, [side.toom for side in form.sides]
    points, panels, blocks = prod(toom.inputs for toom in tooms), ceil(n / lanes), ceil(tiles / form.block)
    transform = points * (costs.transform + sum(len(toom.points) for toom in tooms) / 2)
    products = tiles * points * depth * panels / 2 / costs.peak_share / _busy(form.rows, form.vectors)
    if form.at_run is None:
        weights = streaming(points * depth * panels, blocks, device)
    else:
        is_kept = panels <= form.vectors and form.at_run.part == depth  # by all tasks
        times = 1 if is_kept else blocks
        weights = times * depth * panels * vector_cycles(form.at_run, tooms, device)
        weights += streaming(form.at_run.count * depth * panels, times, device)
    return tiles * (ceil(depth / lanes) + panels) * transform + products + weights

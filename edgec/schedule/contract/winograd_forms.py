"""Ways to tile a sum for Winograd's method, and the predicted time of each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, prod

import numpy as np

from edgec.device.device import Device
from edgec.ir.expr import Expr
from edgec.schedule.contract.cook_toom import Toom
from edgec.schedule.contract.tiles import tile_costs, tile_shape
from edgec.schedule.contract.winograd_weights import RunTimeWeights, part_of, vector_cycles
from edgec.schedule.division import parts, shares


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


@dataclass(frozen=True)
class Tiling:
    """A sum that is cut into ``tiles``: a product of ``depth`` terms by ``n`` columns at every point of a tile.

    ``at_run`` are weights that are no constants, in parts that depend on the form.
    """

    sides: tuple[Side, ...]
    tiles: int
    depth: int
    n: int
    at_run: RunTimeWeights | None

    def usual(self, device: Device, threads: int) -> Form:
        """The form with the block and the register tile that are best on one thread."""
        block = self._blocks(device)[0]
        return self._form(block, *tile_shape(block, self.n, self.depth, device), device, threads)

    def shared(self, usual: Form, device: Device, threads: int) -> Form:
        """The form whose longest share takes least: more blocks, and panels of any width."""
        found = [usual]
        for block in self._blocks(device, 2 * threads):
            heights: dict[int, tuple[float, int]] = {}
            for cost, _, _, rows, vectors in tile_costs(block, ceil(self.n / device.vector_lanes), self.depth, device):
                heights[vectors] = min(heights.get(vectors, (cost, rows)), (cost, rows))
            for vectors, (_, rows) in heights.items():
                even = ceil(block / ceil(block / rows))
                found.append(self._form(block, even, vectors, device, threads))
        return min(found, key=lambda form: form.cycles)

    def _form(self, block: int, rows: int, vectors: int, device: Device, threads: int) -> Form:
        at_run = self.at_run
        if at_run is not None:
            points = prod(side.toom.inputs for side in self.sides)
            at_run = replace(at_run, part=part_of(self.depth, points, vectors * device.vector_lanes, device))
        form = Form(0.0, self.sides, block, rows, vectors, at_run)
        return replace(form, cycles=cycles_of_form(form, self.tiles, self.depth, self.n, device, threads))

    def _blocks(self, device: Device, more: int = 0) -> list[int]:
        """Tiles of a block, as even as possible: half of the second-level cache holds its transformed input.

        Fewer than 28 would read the weights too often for what they are used for, more than 56 gained nothing. It is
        56 where weights are transformed again for every block. Then those of up to so many blocks ``more``.
        """
        points = prod(side.toom.inputs for side in self.sides)
        limit = 56 if self.at_run is not None else min(max(28, device.l2_bytes // 2 // (points * self.depth * 4)), 56)
        fewest = ceil(self.tiles / limit)
        return [*dict.fromkeys(ceil(self.tiles / count) for count in range(fewest, fewest + more + 1))]


def streaming(vectors: float, times: int, device: Device) -> float:
    """Cost of reading packed weights: nothing if half of the second-level cache holds them."""
    size = vectors * device.vector_lanes * 4
    return times * size / device.costs.register_tile.far_bytes if size > device.l2_bytes // 2 else 0.0


def _busy(rows: int, vectors: int) -> float:
    """The share of the multipliers that a register tile can use: few accumulators wait for one another."""
    accumulators = rows * vectors
    return accumulators / max(accumulators, rows + vectors, 8 if accumulators < 8 else 0)


def cycles_of_form(form: Form, tiles: int, depth: int, n: int, device: Device, threads: int = 1) -> float:
    """Predicted time: two vector operations a cycle, a store a cycle, and the weights once for every block.

    On several threads it is that of the longest share of tasks, a panel of a block each: every thread transforms the
    inputs of all blocks in its share.
    """
    lanes, costs, tooms = device.vector_lanes, device.costs.register_tile, [side.toom for side in form.sides]
    points, panels, blocks = prod(toom.inputs for toom in tooms), ceil(n / lanes), ceil(tiles / form.block)
    transform = points * (costs.transform + sum(len(toom.points) for toom in tooms) / 2)
    product = points * depth / 2 / costs.peak_share / _busy(form.rows, form.vectors)
    times = blocks
    if form.at_run is None:
        weights = streaming(points * depth * panels, blocks, device)
    else:
        is_kept = panels <= form.vectors and form.at_run.part == depth  # by all tasks
        times = 1 if is_kept else blocks
        weights = times * depth * panels * vector_cycles(form.at_run, tooms, device)
        weights += streaming(form.at_run.count * depth * panels, times, device)
    inputs, outputs = ceil(depth / lanes) * transform, panels * (transform + product)
    if threads == 1:
        return tiles * (inputs + outputs) + weights
    of_blocks, widths = parts(tiles, form.block), parts(panels, form.vectors) / panels
    tasks = np.outer(of_blocks * outputs + weights / times, widths).ravel()
    found = [0.0]
    for first, last in shares(len(tasks), threads):
        entered = of_blocks[first // len(widths) : ceil(last / len(widths))] if last > first else of_blocks[:0]
        again = 0.0 if times == blocks else (len(entered) - 1) * weights
        found.append(float(tasks[first:last].sum() + entered.sum() * inputs) - max(again, 0.0))
    return max(found)

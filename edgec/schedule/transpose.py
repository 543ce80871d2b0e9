"""Transposes: maps that read along one loop what they store along another, in square blocks through registers.

Lanes along the stores alone would gather every vector element by element, from as many lines of memory as it has lanes.
A block of as many rows as a vector has lanes is loaded along its rows, turned in registers, and stored along its
columns, so that every access is one of a whole vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, prod
from typing import ClassVar

import numpy as np

from edgec.device.device import Device
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.lanes import NARROWEST
from edgec.ir.nest import coefficient, most
from edgec.ir.vector import always_computed, is_vectorizable
from edgec.schedule.division import is_worth, most_even, parts, uneven
from edgec.schedule.flat import Flat, Weights, merge_loops
from edgec.schedule.loops import repacked
from edgec.schedule.program import BlockSchedule, Buffer, Level, Nest
from edgec.schedule.tables import with_tables

#: Blocks of one task along the loop of its loads: what is read of a row lies in neighboring lines.
BLOCKS = 4
#: The longest share over the mean up to which blocks are not divided along their stores.
EVEN = 1.05


@dataclass(frozen=True)
class Transpose(BlockSchedule):
    """A map in blocks: results are contiguous along ``n``, the loads ``turned`` along ``m``."""

    template: ClassVar[str] = "transpose"
    loops: tuple[Expr, ...]  # around the blocks, outermost first
    m: Expr
    n: Expr
    lanes: int  # of one vector
    body: Expr
    turned: tuple[Expr, ...]
    store: Buffer
    address: Expr
    chunk: int  # iterations of ``m`` in one task
    columns: int  # those of ``n``

    @property
    def task_loops(self) -> tuple[Expr, ...]:
        return self.loops

    @property
    def describe(self) -> str:
        around = [v.value.extent for v in self.loops]
        rows, columns = self.m.value.extent, self.n.value.extent
        return f"transpose of {rows} by {columns} over {around}, blocks of {self.lanes} by {self.lanes}"

    @property
    def bodies(self) -> list[Expr]:
        return [self.body]

    @property
    def at_store(self) -> list[Expr]:
        return [self.body]

    @property
    def nests(self) -> tuple[Nest, ...]:
        levels = [Level(self.loops, prod(map(most, self.loops))), Level((self.m,), most(self.m))]
        return (Nest((*levels, Level((self.n,), most(self.n))), (self.body,), lane=self.n),)


def transpose(flat: Flat, device: Device, weights: Weights) -> Transpose | None:
    """The schedule of a map whose vectors would be gathered, where another loop walks along all that is; else None."""
    if device.lanes(4) < NARROWEST or any(e.op == "reduce" for e in X.walk(flat.body)):
        return None
    flat = merge_loops(with_tables(flat, weights))
    n = next((v for v in flat.loops if coefficient(flat.address, v) == 1 and most(v) >= NARROWEST), None)
    if n is None:
        return None
    body = repacked(flat.body, flat.loops, n, weights)
    gathered = tuple(e for e in X.loads(body) if e.args and coefficient(e.args[0], n) not in (0, 1, None))
    if not gathered or not is_vectorizable(body, n):
        return None
    others = [v for v in flat.loops if v is not n and most(v) >= NARROWEST and coefficient(flat.address, v) is not None]
    steps = {v: {coefficient(e.args[0], v) for e in gathered} for v in others}
    along = [v for v in others if 1 in steps[v] and steps[v] <= {0, 1}]
    if not along:
        return None
    m = max(along, key=most)
    # What is the same all along m, a factor of a row, say, is gathered once a block.
    turned = tuple(e for e in gathered if coefficient(e.args[0], m) == 1)
    if not {*turned} <= {*always_computed(body, n)}:
        return None
    loops = [v for v in flat.loops if v is not n and v is not m]
    loops.sort(key=lambda v: -(coefficient(flat.address, v) or 0))
    return Transpose(
        tuple(loops), m, n, device.vector_lanes, body, turned, flat.store, flat.address,
        *_task(loops, m, n, device, flat.threads),
    )  # fmt: skip


def _task(loops: Sequence[Expr], m: Expr, n: Expr, device: Device, threads: int) -> tuple[int, int]:
    """Iterations of m and n in a task: all of n, unless shares of blocks along m alone are of very different sizes."""
    lanes, around = device.vector_lanes, prod(map(most, loops))
    if not is_worth(most(m) * most(n) * around * 4 / device.costs.kernel.memory_bytes, device, threads):
        return lanes * BLOCKS, most(n)

    def tasks(blocks: int, columns: int) -> np.ndarray:
        return np.tile(np.outer(parts(most(n), columns), parts(most(m), lanes * blocks)).ravel(), around)

    part = min(most(n), ceil(ceil(most(n) / threads) / lanes) * lanes)
    columns = most(n) if uneven(tasks(BLOCKS, most(n)), threads) <= EVEN else part
    blocks = most_even(((size, tasks(size, columns)) for size in range(BLOCKS, 0, -1)), threads)
    return lanes * blocks, columns

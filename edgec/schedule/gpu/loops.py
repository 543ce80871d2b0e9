"""Maps and reductions on a GPU: a thread for every few elements, or a team of threads for every result."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from edgec.device.facts import Device
from edgec.ir import expr as X
from edgec.ir.expr import Expr, Extent
from edgec.ir.nest import coefficient, extent, is_fixed, most
from edgec.schedule.flat import Flat, Weights, merge_loops
from edgec.schedule.gpu.kernel import LANES, GpuKernel, has_lanes
from edgec.schedule.loops import merge_reductions, repacked, taken_apart

#: Threads of one group.
GROUP = 256
#: A reduction of fewer elements is the work of one thread.
TEAM_FROM = 32


@dataclass(frozen=True)
class GpuMap(GpuKernel):
    """Every thread computes one element, or LANES of them along ``lane``; it accepts any formula."""

    loops: tuple[Expr, ...]  # outermost first, without the lane
    lane: Expr | None
    body: Expr

    @property
    def bodies(self) -> list[Expr]:
        return [self.body]

    @property
    def describe(self) -> str:
        lanes = f", {LANES} at once along {extent(self.lane)}" if self.lane is not None else ""
        return f"over {[extent(v) for v in self.loops]}{lanes}"


@dataclass(frozen=True)
class GpuReduce(GpuKernel):
    """Reductions along one loop, and work between and after them; a team of threads walks along it together.

    ``reductions`` are (combine, body) pairs in order, ``reduced(k)`` stands for the k-th in what follows it.
    ``neighbors`` results that lie side by side are computed by neighboring threads, so that what they read lies side by
    side too (the mean of a picture whose channels are innermost); 1 where the reduction itself runs along memory.
    """

    loops: tuple[Expr, ...]  # one result, or one row of them, an iteration
    row: Expr
    reductions: tuple[tuple[str, Expr], ...]
    result: Expr
    keeps_row: bool  # the result has the row's dimension; else it is one number a row
    team: int  # a power of two
    neighbors: int  # a power of two

    @property
    def bodies(self) -> list[Expr]:
        return [*(body for _, body in self.reductions), self.result]

    @property
    def describe(self) -> str:
        combines = ", ".join(combine for combine, _ in self.reductions)
        return f"of {extent(self.row)} ({combines}), {self.team} threads for each of {self.neighbors} neighbors"

    @property
    def results(self) -> Extent:
        return X.plain(prod(extent(v) for v in self.loops))


def map_(flat: Flat, weights: Weights) -> GpuMap:
    """The schedule that always applies."""
    flat = merge_loops(flat)
    loops = sorted(flat.loops, key=lambda v: -(coefficient(flat.address, v) or 0))
    lanes = [v for v in loops if coefficient(flat.address, v) == 1]
    if lanes:
        lane = lanes[0]
        body = repacked(flat.body, flat.loops, lane, weights)
        outer = tuple(v for v in loops if v is not lane)
        if has_lanes(body, flat.store, flat.address, lane):
            return GpuMap(flat.store, flat.address, outer, lane, body)
        return GpuMap(flat.store, flat.address, (*outer, lane), None, body)
    return GpuMap(flat.store, flat.address, tuple(loops), None, flat.body)


def reduce(flat: Flat, device: Device) -> GpuReduce | None:
    """A schedule along one reduced loop; None when the reductions do not share one that is long enough."""
    parts = taken_apart(merge_reductions(merge_loops(flat)))
    if parts is None or not is_fixed(*parts.loops) or most(parts.row) < TEAM_FROM:
        return None
    if any(body.dtype != "f32" for _, body in parts.reductions):
        return None
    loops = tuple(sorted(parts.loops, key=lambda v: -(coefficient(parts.address, v) or 0)))
    last = loops[-1] if loops else X.const(0)
    steps = [coefficient(e.args[0], parts.row) for _, b in parts.reductions for e in X.loads(b) if e.args]
    side_by_side = [coefficient(e.args[0], last) for _, b in parts.reductions for e in X.loads(b) if e.args]
    strided = not parts.keeps_row and 1 not in steps and 1 in side_by_side and last.op == "var"
    neighbors = 32 if strided else 1
    results = prod(map(most, loops))
    # As many threads as the row has work for, fewer where there are rows enough to fill the machine.
    team = 32
    while team * neighbors < GROUP and team * (1 if strided else LANES) <= most(parts.row) // 2:
        if results * team * neighbors > device.multiprocessors * 2048 * (neighbors if strided else 1):
            break
        team *= 2
    if strided:
        team = max(2, min(team, GROUP // neighbors))
    return GpuReduce(
        flat.store, parts.address, loops, parts.row, parts.reductions, parts.result, parts.keeps_row, team, neighbors
    )

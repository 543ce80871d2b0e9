"""Maps and reductions on a GPU: one thread per few elements, or a team of threads per result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

from edgec.device.device import Device
from edgec.ir import expr as X
from edgec.ir.expr import Expr, Extent
from edgec.ir.nest import coefficient, extent, is_fixed, most
from edgec.ir.vector import HALF
from edgec.schedule.flat import Flat, Weights, merge_loops, with_contiguous_weights
from edgec.schedule.gpu.kernel import LANES, GpuKernel, has_lanes, is_aligned, on_lanes, widths
from edgec.schedule.loops import as_one_loop, repacked, taken_apart, taken_apart_by_nests
from edgec.schedule.map import independent
from edgec.schedule.program import Buffer, Level, Nest

#: Threads of one block, and of one warp.
GROUP, WARP = 256, 32
#: Extensions of OpenCL with sums of sub-groups.
SUB_GROUPS = frozenset({"cl_khr_subgroups", "cl_intel_subgroups"})
#: One thread computes a reduction of fewer elements.
TEAM_FROM = 32
#: Most elements of a window that one thread goes through, and threads of a multiprocessor that such windows need.
ALONE, ENOUGH = 256, 64
#: Threads of a multiprocessor that hide the latency of loads, and most steps of a loop that one of them takes.
FULL, MOST_STEPS = 768, 8
#: Steps of a thread, at least, where several teams share a reduction; and most teams of one.
STEPS, PARTS = 16, 256
#: Most thread blocks that registers are shared by.
RESIDENT = 16


@dataclass(frozen=True)
class GpuMap(GpuKernel):
    """A map, of any formula: every thread computes one element, or ``width`` along ``lane``.

    Neighbors that lie ``apart`` in what they read are computed one by one, and stored together. Where no reduction
    depends on loops, a thread computes all of these ``inside``, and every reduction once.
    """

    template: ClassVar[str] = "map"
    loops: tuple[Expr, ...]  # outermost first, without the lane
    lane: Expr | None
    body: Expr
    width: int
    inside: tuple[Expr, ...] = ()
    apart: bool = False
    starts_next: bool = False  # the next kernel may start to wait while this one runs

    @property
    def groups(self) -> int:
        """Thread blocks of a launch, at most."""
        return -(
            -prod(map(most, self.loops)) * (most(self.lane) // self.width if self.lane is not None else 1) // GROUP
        )

    @property
    def bodies(self) -> list[Expr]:
        return [self.body]

    @property
    def at_store(self) -> list[Expr]:
        return [self.body]

    @property
    def nests(self) -> tuple[Nest, ...]:
        threads = prod(map(most, self.loops)) * (most(self.lane) // self.width if self.lane is not None else 1)
        levels = [Level(self.loops, threads)]
        if self.lane is not None:
            levels.append(Level((self.lane,), self.width))
        levels += [Level((v,), most(v)) for v in self.inside]
        return (Nest(tuple(levels), (self.body,), lane=None if self.apart else self.lane),)

    @property
    def describe(self) -> str:
        how = "one by one" if self.apart else "at once"
        lanes = f", {self.width} {how} along {extent(self.lane)}" if self.lane is not None else ""
        inside = f", each {[extent(v) for v in self.inside]}" if self.inside else ""
        return f"over {[extent(v) for v in self.loops]}{lanes}{inside}"


@dataclass(frozen=True)
class GpuReduce(GpuKernel):
    """Reductions along one loop, and work between and after them, by a team of threads per result.

    ``reductions`` are (combine, body) pairs in order, ``reduced(k)`` stands for the k-th in what follows it.
    ``neighbors`` adjacent results are computed by neighboring threads, so that their loads are adjacent too (the mean
    of an image with channels innermost); 1 where the reduction itself is contiguous.
    """

    template: ClassVar[str] = "reduce"
    loops: tuple[Expr, ...]  # one result, or one row of them, an iteration
    row: Expr
    reductions: tuple[tuple[X.Combine, Expr], ...]
    result: Expr
    keeps_row: bool  # the result has the row's dimension; else it is one number a row
    lanes: bool  # a thread reads LANES neighbors of the row at once
    team: int  # a power of two
    neighbors: int  # a power of two
    sub_groups: bool = False  # a team is a work-group of OpenCL, whose sub-groups add up first
    split: int = 1  # teams that share the one reduction of a result: the last of their thread blocks combines the parts
    wide: bool = False  # a thread reads LANES neighboring results at once
    resident: int = 1  # thread blocks at work on a multiprocessor at once, which share its registers
    ahead: int | None = None  # values that a thread loads before it needs the first of them; None: any number
    starts_next: bool = False  # the next kernel may start to wait while this one runs

    @property
    def groups(self) -> int:
        """Thread blocks of a launch, at most."""
        return -(-prod(map(most, self.loops)) // self.each) * self.split

    @property
    def bodies(self) -> list[Expr]:
        return [*(body for _, body in self.reductions), self.result]

    @property
    def describe(self) -> str:
        combines = ", ".join(combine for combine, _ in self.reductions)
        lanes = f", {LANES} at once" * self.lanes + f", {LANES} results at once" * self.wide
        parts = f", in {self.split} parts" * (self.split > 1)
        teams = f"{self.team} threads for each of {self.neighbors} neighbors"
        return f"of {extent(self.row)} ({combines}), {teams}{lanes}{parts}"

    @property
    def nests(self) -> tuple[Nest, ...]:
        levels, lane = (self.loops, (self.row,)), self.row if self.lanes else None
        if self.wide:
            wide = Nest.over(levels, (self.reductions[0][1],), True, (), self.loops[-1])
            return (wide, Nest.over((self.loops,), (self.result,), False, (), None))
        passes = tuple(Nest.over(levels, (body,), True, (), lane) for _, body in self.reductions)
        return (*passes, Nest.over(levels if self.keeps_row else (self.loops,), (self.result,), False, (), lane))

    @property
    def results(self) -> Extent:
        return X.plain(prod(extent(v) for v in self.loops))

    @property
    def each(self) -> int:
        """Results of one thread block."""
        return threads_of(self) // self.team

    @property
    def scratch_bytes(self) -> int:
        """The parts of all results, those that thread blocks have room for included."""
        return 4 * self.locks * self.each * self.split

    @property
    def locks(self) -> int:
        return -(-prod(map(most, self.loops)) // self.each) if self.split > 1 else 0


def threads_of(kernel: GpuMap | GpuReduce) -> int:
    """Threads of a thread block."""
    if isinstance(kernel, GpuReduce):
        return max(GROUP, kernel.team) if kernel.neighbors == 1 else kernel.team * kernel.neighbors
    return GROUP


def map_(flat: Flat, weights: Weights, device: Device) -> GpuMap:
    """Schedule ``flat`` as a map, which is always possible."""
    flat = merge_loops(flat)
    by_step = sorted(flat.loops, key=lambda v: -(coefficient(flat.address, v) or 0))
    inside = independent(flat.body, by_step)
    loops = [v for v in by_step if v not in inside]
    lanes = [v for v in loops if coefficient(flat.address, v) == 1]
    if lanes:
        lane = lanes[0]
        body = repacked(flat.body, flat.loops, lane, weights)
        outer = tuple(v for v in loops if v is not lane)
        for width in widths(device):
            if has_lanes(body, flat.store, flat.address, lane, width):
                return GpuMap(flat.store, flat.address, outer, lane, body, width, inside)
        if device.language == "cuda" and not inside and _are_apart(body, flat.store, flat.address, lane):
            return _one_by_one(GpuMap(flat.store, flat.address, outer, lane, body, LANES, apart=True), device)
        return GpuMap(flat.store, flat.address, (*outer, lane), None, body, 1, inside)
    return GpuMap(flat.store, flat.address, tuple(loops), None, flat.body, 1, inside)


def _are_apart(body: Expr, store: Buffer, address: Expr, lane: Expr) -> bool:
    """Are neighbors stored as one vector, and what they load is in no line along ``lane``?

    Threads that read lines do so together; a position that is a quotient costs more than the load, and less for many.
    """
    places = [load.args[0] for load in X.loads(body) if load.args and lane in X.free_variables(load.args[0])]
    is_stored = lane.op == "var" and is_fixed(lane) and store.dtype in ("f32", *HALF)
    is_stored = is_stored and most(lane) % LANES == 0 and is_aligned(address, lane) and body.dtype == "f32"
    return is_stored and bool(places) and all(coefficient(p, lane) is None for p in places)


def _one_by_one(found: GpuMap, device: Device) -> GpuMap:
    """The map with a part of its innermost loop in a thread, which finds the positions along the lane once for all."""
    if found.lane is None or not found.loops or not is_fixed(found.loops[-1]):
        return found
    *outer, last = found.loops
    threads = prod(map(most, (*found.loops, found.lane))) // found.width
    for steps in range(MOST_STEPS, 1, -1):
        if most(last) % steps == 0 and threads // steps >= FULL * device.gpu.multiprocessors:
            around, within = X.fresh(most(last) // steps), X.fresh(steps)
            place = {last: around * steps + within}
            address, body = X.substitute(found.address, place), X.substitute(found.body, place)
            return replace(found, address=address, loops=(*outer, around), body=body, inside=(within,))
    return found


def many(flat: Flat, weights: Weights, device: Device) -> GpuMap | None:
    """A map over windows so many that threads with vectors of neighbors fill the device; None where they do not.

    A team of threads a window would have most of its threads idle, and its loads are apart (depthwise 7 x 7). Where
    what is added up lies together, long rows are for teams.
    """
    sums = [e for e in X.walk(flat.body) if e.op == "reduce"]
    if not sums or not is_fixed(*flat.loops, *(v for e in sums for v in X.reduction_variables(e))):
        return None
    found = map_(flat, weights, device)
    places = [load.args[0] for e in sums for load in X.loads(e) if load.args]
    along = [v for e in sums for v in X.reduction_variables(e) if most(v) >= TEAM_FROM]
    is_beside = found.lane is not None and any(coefficient(p, found.lane) == 1 for p in places)
    if not is_beside and any(coefficient(p, v) == 1 for p in places for v in along):
        return None
    threads = prod(map(most, flat.loops)) // (found.width * prod(map(most, found.inside)))
    steps = max(prod(map(most, X.reduction_variables(e))) for e in sums)
    is_filled = threads >= ENOUGH * device.gpu.multiprocessors
    return found if found.width > 1 and steps <= ALONE and is_filled else None


def reduce(flat: Flat, device: Device, weights: Weights) -> GpuReduce | None:
    """Schedule ``flat`` along one reduced loop; None where its reductions do not share one that is long enough."""
    parts = taken_apart(flat)
    if parts is None:
        nest = taken_apart_by_nests(flat)
        parts = as_one_loop(nest) if nest is not None and is_fixed(*nest.walk, nest.row) else None
    if parts is None or not is_fixed(parts.row) or most(parts.row) < TEAM_FROM:
        return None
    if any(b.dtype != "f32" for _, b in parts.reductions):
        return None
    loops = tuple(sorted(parts.loops, key=lambda v: -(coefficient(parts.address, v) or 0)))
    row, last = parts.row, loops[-1] if loops else X.const(0)
    every = (*loops, row)
    reductions = tuple((c, with_contiguous_weights(b, every, row, weights)) for c, b in parts.reductions)
    result = with_contiguous_weights(parts.result, every, row, weights)
    places = [e.args[0] for _, b in reductions for e in X.loads(b) if e.args]
    strided = not parts.keeps_row and last.op == "var" and all(coefficient(p, row) != 1 for p in places)
    strided = strided and any(coefficient(p, last) == 1 for p in places)
    lanes = most(row) % LANES == 0 and not strided
    lanes = lanes and all(on_lanes(b, row) for _, b in reductions)
    if parts.keeps_row:
        lanes = lanes and has_lanes(result, flat.store, parts.address, row)
    results, steps, split = prod(map(most, loops)), most(row) // (LANES if lanes else 1), 1
    team, neighbors = _team(results, steps, strided, device)
    if device.language == "cuda" and len(reductions) == 1 and not parts.keeps_row and is_fixed(*loops):
        team, neighbors, split = _parts(results, steps, team, neighbors, device)
    wide = neighbors == WARP and device.language == "cuda" and not parts.keeps_row and _is_wide(reductions, last)
    found = GpuReduce(
        flat.store, parts.address, loops, row, reductions, result, parts.keeps_row, lanes, team, neighbors,
        neighbors == 1 and team >= GROUP and not SUB_GROUPS.isdisjoint(device.gpu.opencl_extensions), split, wide,
    )  # fmt: skip
    return _resident(found, device)


def _is_wide(reductions: Sequence[tuple[X.Combine, Expr]], last: Expr) -> bool:
    """Can a thread read LANES neighboring results of one reduction as vectors?"""
    if len(reductions) > 1 or last.op != "var" or not is_fixed(last) or most(last) % LANES:
        return False
    ((_, body),) = reductions
    along = [e.args[0] for e in X.loads(body) if last in X.free_variables(e)]
    return bool(along) and on_lanes(body, last) and all(is_aligned(place, last) for place in along)


def _resident(found: GpuReduce, device: Device) -> GpuReduce:
    """The reduction with registers for as many thread blocks as a multiprocessor of an NVIDIA GPU can hold.

    Where there are so many, others load while one waits. A compiler that unrolls loops for loads in flight instead
    leaves room for one or two: normalizations take twice as long then.
    """
    gpu, threads = device.gpu, threads_of(found)
    groups = -(-prod(map(most, found.loops)) // found.each) * found.split
    blocks = min(gpu.resident_threads // threads, -(-groups // max(gpu.multiprocessors, 1)), RESIDENT)
    if device.language != "cuda" or blocks < 2:
        return found
    return replace(found, resident=blocks, ahead=gpu.registers // (blocks * threads) // 2)


def _team(results: int, steps: int, strided: bool, device: Device) -> tuple[int, int]:
    """(threads of a team, neighbors): enough threads to fill the device, each with at least a few elements."""
    wanted = device.gpu.multiprocessors * 1024
    neighbors = 1
    if strided:
        neighbors = 32 if results >= 32 * device.gpu.multiprocessors else 8
    team = 32 if not strided else 4
    limit = device.gpu.group_threads // neighbors if strided else GROUP
    while team < limit and team * 4 <= steps and results * team < wanted:
        team *= 2
    return team, neighbors


def _parts(results: int, steps: int, team: int, neighbors: int, device: Device) -> tuple[int, int, int]:
    """(threads of a team, neighbors, parts) of long reductions of few results: parts enough to fill the device."""
    is_wide = neighbors > 1 and results >= WARP  # whole cache lines, from where threads read neighbors
    least = GROUP * 2 // WARP if is_wide else team
    if steps < 4 * STEPS * least:
        return team, neighbors, 1
    team, neighbors = least, WARP if is_wide else neighbors
    threads = max(GROUP, team) if neighbors == 1 else team * neighbors
    groups = -(-results * team // threads)
    wanted = device.gpu.multiprocessors * 2048 // threads
    return team, neighbors, max(1, min(steps // (team * STEPS), wanted // groups, PARTS))

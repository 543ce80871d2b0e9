"""Sums along what is contiguous, several results at once: lanes run along the terms, and not along the results.

Where a product has few columns (a convolution to one channel, a dense layer of few classes), vectors of results would
be mostly empty. Here they hold terms, each result has an accumulator, and those of a tile share what they load: a
tile of 8 pixels and 2 channels loads 10 vectors for 16 multiply-adds. At its end an accumulator is added up to one
number; where results along the tile are neighbors in memory, what follows the sums is computed on lanes again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import ceil, prod
from typing import ClassVar, NamedTuple

from edgec.device.device import Device
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.functions import FUNCTIONS
from edgec.ir.nest import coefficient, is_fixed, most
from edgec.ir.types import FLOATS
from edgec.ir.vector import LANES, is_vectorizable
from edgec.schedule.contract.parts import parts_of_long
from edgec.schedule.flat import Flat, Weights, merge_loops
from edgec.schedule.loops import (
    Parts,
    around_row,
    in_order_of_sum,
    is_contiguous,
    merge_reductions,
    taken_apart_by_nests,
)
from edgec.schedule.row import Row

#: Results of a tile along one loop, at most: so many hide the latency of additions.
LONGEST = 8
#: Cycles to add up the lanes of an accumulator, and of what follows it, for a result or a vector of them.
ACROSS_CYCLES, RESULT_CYCLES = 6.0, 6.0
#: Cycles of latency of an addition.
LATENCY = 4
#: The share by which long sums in more tiles, which threads share, may take longer; tiles that are enough to share.
SHARED, ENOUGH = 0.05, 8
#: Barriers that sums take as long as, at least, where they are worth sharing.
BARRIERS = 10


@dataclass(frozen=True)
class Rows(Row):
    """A row of one reduction to one number, computed for a tile of results at once.

    ``tile`` has the loops whose neighboring iterations are a tile, with their number; the last one is the innermost.
    """

    template: ClassVar[str] = "rows"
    tile: tuple[tuple[Expr, int], ...] = ()
    on_lanes: bool = False  # what follows the sums is computed on lanes, along the last loop of the tile

    @property
    def describe(self) -> str:
        sizes = " x ".join(str(v.value.extent) for v in (*self.walk, self.row))
        at_once = " x ".join(str(count) for _, count in self.tile) or "1"
        return f"rows of {sizes}, {at_once} at once"

    @property
    def tiles(self) -> Iterator[tuple[int, ...]]:
        """The sizes of tiles: whole ones, and those at the end of a loop."""
        sizes = ((count, most(v) % count) for v, count in self.tile)
        return product(*(dict.fromkeys(n for n in pair if n) for pair in sizes))


class Tile(NamedTuple):
    """A choice of loops and counts, with its predicted cycles for all results, and the number of its tiles."""

    cycles: float
    tiles: int
    loops: tuple[tuple[Expr, int], ...]
    on_lanes: bool


def rows(flat: Flat, device: Device, weights: Weights) -> Rows | None:
    """The schedule of one reduction to numbers of fixed loops along what is contiguous; None where it is none."""
    parts = _parts(flat, device.vector_lanes, weights)
    tile = _best(parts, device) if parts is not None else None
    if parts is None or tile is None:
        return None
    return Rows(
        parts.loops, parts.row, device.vector_lanes, parts.reductions, parts.result, False, (), flat.store,
        parts.address, parts.walk, tile.loops, tile.on_lanes,
    )  # fmt: skip


def cycles_of_rows(flat: Flat, device: Device) -> float | None:
    """Predicted cycles of `rows`; None where that is no way to compute the block."""
    parts = _parts(flat, device.vector_lanes, Weights())
    tile = _best(parts, device) if parts is not None else None
    return tile.cycles if tile is not None else None


def least_of_rows(flat: Flat) -> float:
    """Cycles that `rows` take at least: to add up the lanes of every result."""
    return ACROSS_CYCLES * prod(map(most, flat.loops))


def _parts(flat: Flat, lanes: int, weights: Weights) -> Parts | None:
    """The one reduction of a formula, along what is contiguous, with its weights in the order of its terms."""
    if len([e for e in X.walk(flat.body) if e.op == "reduce"]) != 1:
        return None
    nest = taken_apart_by_nests(merge_reductions(merge_loops(in_order_of_sum(flat, weights))))
    parts = around_row(nest) if nest is not None else None
    if parts is None or parts.keeps_row or not parts.is_of_numbers or not is_contiguous(parts):
        return None
    if parts.walk and most(parts.row) * 2 < lanes:
        return None  # vectors would be mostly empty
    body = parts.passes[0]
    is_along = is_fixed(*parts.loops, *parts.walk, parts.row) and parts.row in X.free_variables(body)
    return parts if is_along and is_vectorizable(body, parts.row, True) else None


def _best(parts: Parts, device: Device) -> Tile | None:
    """The tile with the least predicted cycles, of those that the registers hold; where few tiles take long, of those
    that take hardly longer the one with most tiles, so that threads share them."""
    ((combine, body),) = parts.reductions
    steps = [prod(map(most, parts.walk)), ceil(most(parts.row) / device.vector_lanes)]
    is_long = parts_of_long(steps) is not None
    loads = [X.free_variables(e) for e in X.loads(body) if parts.row in X.free_variables(e)]
    is_fused = body.op == "mul" and combine == "add" and body.dtype in FLOATS
    work = (
        sum(e.op in FUNCTIONS and e.dtype in LANES for e in X.walk(body) if parts.row in X.free_variables(e))
        + 1
        - is_fused
    )
    by_each = [v for v in parts.loops if v in X.free_variables(body) and most(v) > 1 and _is_even(body, v)]
    last = next((v for v in by_each if coefficient(parts.address, v) == 1), None)
    ends = last is not None and _ends_on_lanes(parts, last)
    found: list[Tile] = []
    for across in [None, *(v for v in by_each if v is not last)]:
        along = [v for v in (across, last) if v is not None]
        for counts in product(*(range(1, min(LONGEST, most(v)) + 1) for v in along)):
            tile = dict(zip(along, counts))
            results, read = prod(counts), sum(prod(n for v, n in tile.items() if v in free) for free in loads)
            if results * (1 + is_long) + min(counts, default=1) + 1 > device.vectors_in_registers:
                continue
            step = max(results * work / 2, read / 2, 0 if results >= 2 * LATENCY else LATENCY)
            on_lanes = ends and 1 < counts[-1] <= device.vector_lanes
            after = results * (ACROSS_CYCLES + RESULT_CYCLES / (counts[-1] if on_lanes else 1))
            each = prod(steps) * step + after + device.costs.register_tile.tile
            tiles = prod(ceil(most(v) / tile.get(v, 1)) for v in parts.loops)
            found.append(Tile(each * tiles, tiles, tuple(tile.items()), on_lanes))
    least = min(found, key=lambda t: t.cycles, default=None)
    if least is None or least.tiles >= ENOUGH or least.cycles < BARRIERS * device.costs.threads.barrier:
        return least
    near = (t for t in found if t.cycles <= least.cycles * (1 + SHARED))
    return max(near, key=lambda t: (min(t.tiles, ENOUGH), -t.cycles))


def _is_even(body: Expr, loop: Expr) -> bool:
    """Are neighboring results along a loop computed from places that lie evenly apart?"""
    return all(coefficient(e.args[0], loop) is not None for e in X.loads(body) if e.args)


def _ends_on_lanes(parts: Parts, loop: Expr) -> bool:
    """Can what follows the sums be computed on lanes along a loop?"""
    steps = (coefficient(e.args[0], loop) for e in X.loads(parts.result) if e.args)
    total = {e: X.load(e.value, (X.const(0) + loop,), e.dtype) for e in X.loads(parts.result) if not e.args}
    return all(s in (0, 1) for s in steps) and is_vectorizable(X.substitute(parts.result, total), loop)

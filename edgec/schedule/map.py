"""Maps: one pass over the output. The schedule that always applies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

from edgec.device.device import Device
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.lane_groups import in_group, without_groups
from edgec.ir.nest import coefficient, is_fixed, most
from edgec.ir.types import FLOATS
from edgec.ir.vector import is_vectorizable, widened
from edgec.schedule.added import Added
from edgec.schedule.flat import Flat, Weights, merge_loops
from edgec.schedule.loops import are_few_gathered, lanes_of_reductions, repacked, with_joined_lanes
from edgec.schedule.program import BlockSchedule, Buffer, Level, Nest
from edgec.schedule.tables import with_places_along, with_tables

#: Elements of one map task: so many that the cost of distributing tasks is negligible.
MAP_BLOCK = 4096
#: Elements of a cache line.
LINE = 16
#: Least iterations of a task of a scalar map, and least tasks, where its loops have as many.
SHORT = 16
#: Rows of a task, at most, where a row is less than so many vectors.
ROWS, SHORT_ROW = 64, 4


@dataclass(frozen=True)
class Map(BlockSchedule):
    """One pass over the output; ``lane`` is None when the body has no vector form.

    No reduction depends on the loops ``inside``, so each is computed once for all of their iterations (a softmax over
    columns, for example). Without reductions, they are the last loops of a scalar map where these are short.
    """

    template: ClassVar[str] = "map"
    loops: tuple[Expr, ...]  # outermost first, without ``lane`` and ``inside``
    lane: Expr | None
    lanes: int  # of one vector
    body: Expr
    store: Buffer
    address: Expr
    inside: tuple[Expr, ...] = ()  # the innermost loops, inside that over lanes: no reduction depends on them

    @property
    def task_loops(self) -> tuple[Expr, ...]:
        return self.loops

    @property
    def lane_block(self) -> int:
        """Iterations of the lane loop in one task: all of them where they share reductions."""
        if self.lane is None:
            return 1
        if any(e.op == "reduce" and self.lane not in X.free_variables(e) for e in X.walk(self.body)):
            return most(self.lane)
        summed = [prod(map(most, X.reduction_variables(e))) for e in X.walk(self.body) if e.op == "reduce"]
        lanes = MAP_BLOCK // max(prod(map(most, self.inside)), *summed, 1)
        whole = LINE if len(summed) > 0 else 64  # threads write lines of their own
        return min(most(self.lane), max(lanes // whole, 1) * whole)

    @property
    def describe(self) -> str:
        lanes = f"lanes along {self.lane.value.extent}" if self.lane is not None else "scalar"
        return f"map over {[v.value.extent for v in self.loops]}, {lanes}"

    @property
    def bodies(self) -> list[Expr]:
        return [self.body]

    @property
    def added(self) -> tuple[Added, ...]:
        """The order of each sum of floats: that of its loops, in one number or one a lane."""
        sums = [e for e in X.walk(self.body) if e.op == "reduce" and e.value[0] == "add" and e.dtype in FLOATS]
        opened = [X.opened(e) for e in sums]
        return tuple(Added.one_by_one(names, body) for names, body in opened if is_fixed(*names))

    @property
    def at_store(self) -> list[Expr]:
        return [self.body]

    @property
    def repeats(self) -> float:
        """Lanes of several groups are in a vector that one group would leave mostly empty."""
        sizes = [found[1] for e in X.walk(self.body) if (found := in_group(e, self.lane)) is not None]
        return max(sizes) / self.lanes if sizes else 1.0

    @property
    def nests(self) -> tuple[Nest, ...]:
        blocks = 1 if self.lane is None else -(-most(self.lane) // self.lane_block)
        outer = self.loops if self.lane is not None else self.loops[:-1]
        inner = (self.lane,) if self.lane is not None else self.loops[-1:]
        levels = [Level(outer, prod(map(most, outer)) * blocks), Level(inner, prod(map(most, inner)) / blocks)]
        levels += [Level((v,), most(v)) for v in self.inside]
        body = self.body if self.lane is None else without_groups(self.body, self.lane)
        return (Nest(tuple(levels), (body,), lane=self.lane),)


def map_(flat: Flat, device: Device, weights: Weights) -> Map:
    """The map of a block; it accepts any formula."""
    flat = merge_loops(with_tables(flat, weights))
    narrow = widened(flat.body)
    flat = replace(flat, body=narrow) if narrow is not None else flat
    loops = sorted(flat.loops, key=lambda v: -(coefficient(flat.address, v) or 0))
    lanes = [v for v in loops if coefficient(flat.address, v) == 1 and most(v) >= 4]
    if not _is_expensive(flat.body):
        lanes = [v for v in lanes if not are_few_gathered(flat.body, v, device.vector_lanes)]
    if not lanes and _is_expensive(flat.body):  # storing lanes one by one is cheap compared with scalar arithmetic
        lanes = [v for v in reversed(loops) if most(v) >= 16 and coefficient(flat.address, v) is not None]
    lanes = lanes_of_reductions(flat, lanes) or lanes
    if lanes:
        flat, lane = with_joined_lanes(flat, lanes[0], device.vector_lanes, weights)
        loops = sorted(flat.loops, key=lambda v: -(coefficient(flat.address, v) or 0))
        body = with_places_along(repacked(flat.body, flat.loops, lane, weights), lane, loops, weights)
        inside = independent(body, loops)
        if is_vectorizable(body, lane, True) and (lane not in inside or len(inside) == 1):
            outer, inside = around_lane(body, loops, lane)
            if most(lane) < SHORT_ROW * device.vector_lanes and not any(e.op == "reduce" for e in X.walk(body)):
                outer, inside = _few_rows(outer)
            return Map(outer, lane, device.vector_lanes, body, flat.store, flat.address, inside)
    last = independent(flat.body, loops)  # the innermost loops share what does not depend on them
    outer = tuple(v for v in loops if v not in last)
    if len(last) == 1:
        outer, last = (*outer, *last), ()
    if not any(e.op == "reduce" for e in X.walk(flat.body)):
        outer, last = _short_last(outer)
    return Map(outer, None, 1, flat.body, flat.store, flat.address, last)


def _short_last(loops: Sequence[Expr]) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """The loops, with those last ones apart that one before them should be around, because together they are short.

    A task has the innermost loops, and what begins it (divisions of its number) should not be paid for every element.
    There are still as many tasks.
    """
    at, elements = len(loops), 1
    while at > 2 and elements * most(loops[at - 1]) < SHORT <= prod(map(most, loops[: at - 2])):
        at -= 1
        elements *= most(loops[at])
    return tuple(loops[:at]), tuple(loops[at:])


def _few_rows(loops: Sequence[Expr]) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """The loops around short rows, with those last ones apart that a task goes through by itself."""
    at, rows = len(loops), 1
    while at > 1 and rows * most(loops[at - 1]) <= ROWS and prod(map(most, loops[: at - 1])) >= SHORT:
        at -= 1
        rows *= most(loops[at])
    return tuple(loops[:at]), tuple(loops[at:])


def _is_expensive(body: Expr) -> bool:
    return any(e.op in ("exp", "sigmoid", "tanh", "erf", "log", "pow", "sin", "cos") for e in X.walk(body))


def around_lane(body: Expr, loops: Sequence[Expr], lane: Expr) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """The loops around that over lanes, and those inside it, which no reduction depends on."""
    inside = tuple(v for v in independent(body, loops) if v is not lane)
    return tuple(v for v in loops if v is not lane and v not in inside), inside


def independent(body: Expr, loops: Sequence[Expr]) -> tuple[Expr, ...]:
    """The loops that no reduction depends on: as innermost loops they repeat none. Empty without reductions."""
    reductions = [e for e in X.walk(body) if e.op == "reduce"]
    needed = frozenset().union(*map(X.free_variables, reductions))
    return tuple(v for v in loops if v not in needed) if reductions else ()

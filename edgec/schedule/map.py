"""Maps: one pass over the output. The schedule that always applies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from edgec.device.device import Device
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.nest import coefficient, most
from edgec.ir.vector import free, is_vectorizable
from edgec.schedule.flat import Flat, Weights, merge_loops
from edgec.schedule.loops import repacked
from edgec.schedule.program import BlockSchedule, Buffer

#: Lanes of one map task: large enough that sharing out tasks costs nothing.
MAP_BLOCK = 4096


@dataclass(frozen=True)
class Map(BlockSchedule):
    """One pass over the output; ``lane`` is None when the body has no vector form.

    Reductions that lanes run across are done once for all of ``inside``: a softmax of columns, say.
    """

    template: ClassVar[str] = "map"
    loops: tuple[Expr, ...]  # outermost first, without the lane and what is inside
    lane: Expr | None
    lanes: int  # of one vector
    body: Expr
    store: Buffer
    address: Expr
    inside: tuple[Expr, ...] = ()  # loops inside that over lanes: no reduction depends on them

    @property
    def task_loops(self) -> tuple[Expr, ...]:
        return self.loops

    @property
    def describe(self) -> str:
        lanes = f"lanes along {self.lane.value.extent}" if self.lane is not None else "scalar"
        return f"map over {[v.value.extent for v in self.loops]}, {lanes}"

    @property
    def bodies(self) -> list[Expr]:
        return [self.body]

    @property
    def at_store(self) -> list[Expr]:
        return [self.body]


def map_(flat: Flat, device: Device, weights: Weights) -> Map:
    """The schedule that always applies."""
    flat = merge_loops(flat)
    loops = sorted(flat.loops, key=lambda v: -(coefficient(flat.address, v) or 0))
    lanes = [v for v in loops if coefficient(flat.address, v) == 1 and most(v) >= 4]
    if not lanes and _is_expensive(flat.body):  # scattering lanes is cheap beside computing them one by one
        lanes = [v for v in reversed(loops) if most(v) >= 16 and coefficient(flat.address, v) is not None]
    if lanes:
        lane = lanes[0]
        body = repacked(flat.body, flat.loops, lane, weights)
        if is_vectorizable(body, lane):
            inside = _independent(body, loops) if lane not in _independent(body, loops) else ()
            outer = tuple(v for v in loops if v is not lane and v not in inside)
            return Map(outer, lane, device.vector_lanes, body, flat.store, flat.address, inside)
    last = _independent(flat.body, loops)  # the innermost loop shares what does not depend on it
    return Map((*(v for v in loops if v not in last), *last), None, 1, flat.body, flat.store, flat.address)


def _is_expensive(body: Expr) -> bool:
    return any(e.op in ("exp", "sigmoid", "tanh", "erf", "log", "pow", "sin", "cos") for e in X.walk(body))


def _independent(body: Expr, loops: Sequence[Expr]) -> tuple[Expr, ...]:
    """The loops that no reduction depends on, where there are reductions."""
    within = [free(e) for e in X.walk(body) if e.op == "reduce" and {*loops} & free(e)]
    outermost = frozenset().union(*within)
    return tuple(v for v in loops if v not in outermost) if within else ()

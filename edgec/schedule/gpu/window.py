"""Sums and extremes over windows (depthwise convolutions, pools): a work-item computes vectors of neighboring outputs.

Weights are read once for all outputs of a work-item. Where none of their windows crosses a border, there are no
conditions; at borders outputs are computed one by one, as by a map.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import ClassVar

from edgec.device.device import Device
from edgec.ir import expr as X
from edgec.ir.expr import Expr, Extent
from edgec.ir.nest import coefficient, is_fixed, most
from edgec.schedule.flat import Flat, Weights, merge_loops
from edgec.schedule.gpu.kernel import GpuKernel, has_lanes, widths
from edgec.schedule.loops import repacked

#: Outputs of one work-item.
OUTPUTS = 4


@dataclass(frozen=True)
class GpuWindow(GpuKernel):
    """``body`` over ``loops``, ``along`` and ``lane``; ``element`` is that of its reduction without padding."""

    template: ClassVar[str] = "window"
    loops: tuple[Expr, ...]  # outermost first
    along: Expr
    lane: Expr
    width: int
    body: Expr
    window: tuple[Expr, ...]
    element: Expr
    inside: tuple[Expr, ...]  # all hold where none of OUTPUTS neighbors needs padding; over ``along`` of the first
    inside_one: tuple[Expr, ...]  # and where one output needs none
    sum: Expr

    @property
    def bodies(self) -> list[Expr]:
        return [self.body, self.element]

    @property
    def describe(self) -> str:
        sizes = [most(v) for v in self.window]
        return f"{self.sum.value[0]} over {sizes}, {OUTPUTS} outputs of {self.width} at once"

    @property
    def blocks(self) -> int:
        """Groups of neighboring outputs that work-items take along the loop."""
        return -(-most(self.along) // OUTPUTS)

    @property
    def tasks(self) -> Extent:
        each = 1
        for v in self.loops:
            each *= most(v)
        return each * self.blocks * (most(self.lane) // self.width)


def window(flat: Flat, device: Device, weights: Weights) -> GpuWindow | None:
    """Schedule one reduction over a window along vectors; None where outputs are not contiguous."""
    flat = merge_loops(flat)
    sums = [e for e in X.walk(flat.body) if e.op == "reduce"]
    if len(sums) != 1 or sums[0].dtype != "f32" or not is_fixed(*flat.loops):
        return None
    loops = sorted(flat.loops, key=lambda v: -(coefficient(flat.address, v) or 0))
    if len(loops) < 2 or coefficient(flat.address, loops[-1]) != 1 or most(loops[-2]) < 2:
        return None
    *outer, along, lane = loops
    body = repacked(flat.body, flat.loops, lane, weights)
    (reduction,) = (e for e in X.walk(body) if e.op == "reduce")
    if lane not in X.free_variables(reduction):  # one sum for all lanes is that of a row
        return None
    width = next((w for w in widths(device) if has_lanes(body, flat.store, flat.address, lane, w)), 0)
    names, element = X.opened(reduction)
    if not width or not is_fixed(*names):
        return None
    guards: dict[Expr, None] = {}
    element = X.transform(element, lambda e: _unguarded(e, lane, guards))
    several, one = (
        tuple(dict.fromkeys(c for guard in guards for c in _at_corners(guard, along, n, names))) for n in (OUTPUTS, 1)
    )
    return GpuWindow(
        flat.store, flat.address, tuple(outer), along, lane, width, body, names, element, several, one, reduction
    )


def _unguarded(e: Expr, lane: Expr, guards: dict[Expr, None]) -> Expr | None:
    """The value of a select without padding; its condition becomes a guard."""
    if e.op != "select" or X.loads(e.args[0]) or lane in X.free_variables(e.args[0]) or X.loads(e.args[2]):
        return None
    if e.args[0].dtype != "bool" or not _is_of_positions(e.args[0]):
        return None
    guards[e.args[0]] = None
    return e.args[1]


def _is_of_positions(e: Expr) -> bool:
    """Is it a conjunction of comparisons of indices? Each is then at its worst at a corner."""
    if e.op == "and":
        return all(map(_is_of_positions, e.args))
    affine = ("var", "const", "add", "sub", "mul", "neg")
    return e.op in ("lt", "le", "gt", "ge") and all(x.op in affine for a in e.args for x in X.walk(a))


def _at_corners(guard: Expr, along: Expr, outputs: int, names: tuple[Expr, ...]) -> list[Expr]:
    """The guard for the first and last of so many outputs at the first and last places of the window."""
    ends = [(along, along + (outputs - 1)), *((X.const(0), X.const(most(v) - 1)) for v in names)]
    return [X.substitute(guard, dict(zip((along, *names), corner))) for corner in product(*ends)]

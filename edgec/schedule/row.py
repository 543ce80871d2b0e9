"""Rows: reductions along what is contiguous, and element-wise work between them and after them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from edgec.device.device import Device
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.nest import coefficient, most
from edgec.ir.vector import always_computed, free, is_vectorizable
from edgec.schedule.flat import Flat, merge_loops
from edgec.schedule.loops import merge_reductions, taken_apart
from edgec.schedule.program import BlockSchedule, Buffer


@dataclass(frozen=True)
class Row(BlockSchedule):
    """Reductions along the contiguous loop ``row``, and element-wise work between them and after them.

    ``reductions`` are (combine, body) pairs in order; ``reduced(k)`` stands for the value of the k-th in later bodies
    and in ``result``. ``saved`` are row values kept in scratch because a later pass needs them again.
    """

    template: ClassVar[str] = "row"
    loops: tuple[Expr, ...]
    row: Expr
    lanes: int  # of one vector
    reductions: tuple[tuple[str, Expr], ...]
    result: Expr
    keeps_row: bool  # the result has the row's dimension; else it is one number a row
    saved: tuple[Expr, ...]
    store: Buffer
    address: Expr

    @property
    def task_loops(self) -> tuple[Expr, ...]:
        return self.loops

    @property
    def describe(self) -> str:
        combines = ", ".join(combine for combine, _ in self.reductions)
        return f"row of {self.row.value.extent}, passes {combines or 'none'}, {len(self.saved)} values kept"

    @property
    def bodies(self) -> list[Expr]:
        return [*(body for _, body in self.reductions), self.result]

    @property
    def scratch_bytes(self) -> int:
        return -(-most(self.row) // 16) * 64 * len(self.saved)


def row(flat: Flat, device: Device) -> Row | None:
    """Schedule along a contiguous reduction loop; None when the reductions do not share one."""
    parts = taken_apart(merge_reductions(merge_loops(flat)))
    if parts is None or any(not is_vectorizable(e, parts.row) for e in parts.passes):
        return None
    steps = {coefficient(e.args[0], parts.row) for _, o in parts.reductions for e in X.loads(o) if e.args}
    if not steps <= {0, 1}:
        return None
    return Row(
        parts.loops, parts.row, device.vector_lanes, parts.reductions, parts.result, parts.keeps_row,
        _worth_saving(parts.passes, parts.row), flat.store, parts.address,
    )  # fmt: skip


def _worth_saving(passes: list[Expr], line: Expr) -> tuple[Expr, ...]:
    """Row values that cost more than a load and are needed in more than one pass."""
    expensive = {"exp", "log", "tanh", "erf", "sigmoid", "div", "sqrt", "pow", "sin", "cos"}
    times: dict[Expr, int] = {}
    for body in passes:
        for e in always_computed(body, line):
            times[e] = times.get(e, 0) + 1
    return tuple(e for e, n in times.items() if n > 1 and e.op in expensive and e.dtype == "f32" and line in free(e))

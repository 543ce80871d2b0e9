"""Rows: reductions along what is contiguous, and element-wise work between them and after them.

A row may be walked several times over: the loops of the walk are those that are reduced but not contiguous with it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, prod
from typing import ClassVar

from edgec.device.device import Device
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.nest import coefficient, is_fixed, most
from edgec.ir.types import FLOATS
from edgec.ir.vector import always_computed, is_vectorizable
from edgec.schedule.added import Added
from edgec.schedule.contract.parts import Parts as PartsOfSum
from edgec.schedule.contract.parts import parts_of_long
from edgec.schedule.flat import Flat, Weights, merge_loops
from edgec.schedule.loops import (
    Parts,
    around_row,
    is_contiguous,
    lanes_of_reductions,
    taken_apart,
    taken_apart_by_nests,
)
from edgec.schedule.program import BlockSchedule, Buffer, Nest
from edgec.schedule.tables import with_places_along

#: Functions that cost more than a load.
EXPENSIVE = frozenset({"exp", "log", "tanh", "erf", "sigmoid", "div", "sqrt", "pow", "sin", "cos"})


@dataclass(frozen=True)
class Row(BlockSchedule):
    """Reductions over ``walk`` and, innermost, the contiguous loop ``row``; element-wise work between and after them.

    ``reductions`` are (combine, body) pairs in order; ``reduced(k)`` stands for the value of the k-th in later bodies
    and in ``result``. ``saved`` are row values kept in scratch because a later pass needs them again.
    """

    template: ClassVar[str] = "row"
    loops: tuple[Expr, ...]
    row: Expr
    lanes: int  # of one vector
    reductions: tuple[tuple[X.Combine, Expr], ...]
    result: Expr
    keeps_row: bool  # the result has the dimensions of the walk and the row; else it is one number
    saved: tuple[Expr, ...]
    store: Buffer
    address: Expr
    walk: tuple[Expr, ...] = ()  # loops around the row within a pass, outermost first

    @property
    def task_loops(self) -> tuple[Expr, ...]:
        return self.loops

    @property
    def describe(self) -> str:
        combines = ", ".join(combine for combine, _ in self.reductions)
        rows = " x ".join(str(v.value.extent) for v in (*self.walk, self.row))
        return f"row of {rows}, passes {combines or 'none'}, {len(self.saved)} values kept"

    @property
    def bodies(self) -> list[Expr]:
        return [*(body for _, body in self.reductions), self.result]

    @property
    def added(self) -> tuple[Added, ...]:
        """The order of each sum of floats: along the row on lanes, then to one number by the instruction set."""
        if not is_fixed(*self.walk, self.row):
            return ()
        loops = (*self.walk, self.row)
        bodies = [body for combine, body in self.reductions if is_sum_of_floats(combine, body)]
        return tuple(Added.on_lanes(loops, body, self.lanes, self.parts) for body in bodies)

    @property
    def parts(self) -> PartsOfSum | None:
        """The part of a long sum that is added up on its own: iterations of the walk, or vectors of the row."""
        return parts_of_long([*map(most, self.walk), ceil(most(self.row) / self.lanes)])

    @property
    def nests(self) -> tuple[Nest, ...]:
        levels = (self.loops, self.walk, (self.row,))
        found: list[Nest] = []
        known: tuple[Expr, ...] = ()
        for _, body in self.reductions:
            found.append(Nest.over(levels, (body,), True, known, self.row))
            known = tuple(e for e in self.saved if e in known or e in X.walk(body))
        return (*found, Nest.over(levels if self.keeps_row else (self.loops,), (self.result,), False, known, self.row))

    @property
    def scratch_bytes(self) -> int:
        return prod(map(most, self.walk)) * -(-most(self.row) // 16) * 64 * len(self.saved)


def is_sum_of_floats(combine: str, body: Expr) -> bool:
    """Does a reduction round what it adds up?"""
    return combine == "add" and body.dtype in FLOATS


def row(flat: Flat, device: Device, weights: Weights) -> Row | None:
    """Schedule along contiguous reduction loops; None when the reductions do not share them."""
    plain = taken_apart(flat)
    parts = _with_places(plain, weights) if plain is not None else None
    if parts is None or not is_contiguous(parts):
        nest = taken_apart_by_nests(flat)
        parts = around_row(nest) if nest is not None else None
        if parts is not None and not parts.keeps_row and most(parts.row) * 2 < device.vector_lanes:
            return None  # vectors would be mostly empty, and nothing is repeated without them
        if parts is None and plain is not None and _is_gathered(plain, flat, device):
            parts = plain
    if parts is None or not parts.is_of_numbers or any(not is_vectorizable(e, parts.row, True) for e in parts.passes):
        return None
    return Row(
        parts.loops, parts.row, device.vector_lanes, parts.reductions, parts.result, parts.keeps_row,
        _worth_saving(parts.passes, parts.row), flat.store, parts.address, parts.walk,
    )  # fmt: skip


def _with_places(parts: Parts, weights: Weights) -> Parts:
    """The same with tables for positions that are not linear along the row."""
    loops = (*parts.loops, parts.row)
    reductions = tuple((c, with_places_along(e, parts.row, loops, weights)) for c, e in parts.reductions)
    result = with_places_along(parts.result, parts.row, loops, weights) if parts.keeps_row else parts.result
    return replace(parts, reductions=reductions, result=result)


def _is_gathered(parts: Parts, flat: Flat, device: Device) -> bool:
    """Are long rows of expensive functions apart in memory along every loop? On lanes they are cheaper even so."""
    if not parts.keeps_row or most(parts.row) < device.vector_lanes or coefficient(parts.address, parts.row) != 1:
        return False
    if any(coefficient(a, parts.row) is None for a in parts.reduced_addresses):
        return False
    is_expensive = any(e.op in EXPENSIVE for body in parts.passes for e in X.walk(body))
    flat = merge_loops(flat)
    return is_expensive and not lanes_of_reductions(flat, [v for v in flat.loops if coefficient(flat.address, v) == 1])


def _worth_saving(passes: list[Expr], line: Expr) -> tuple[Expr, ...]:
    """Row values that cost more than a load and are needed in more than one pass."""
    times: dict[Expr, int] = {}
    for body in passes:
        for e in always_computed(body, line):
            times[e] = times.get(e, 0) + 1
    return tuple(
        e for e, n in times.items() if n > 1 and e.op in EXPENSIVE and e.dtype == "f32" and line in X.free_variables(e)
    )

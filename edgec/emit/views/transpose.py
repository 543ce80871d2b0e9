"""Transposes as their template sees them: one function for whole blocks, one for the rest."""

from __future__ import annotations

from functools import cached_property

from edgec.emit import c_lanes
from edgec.emit.c_expression import Printer, extent_text
from edgec.emit.c_text import advanced
from edgec.emit.views.base import Loop, LoopedView
from edgec.ir import expr as X
from edgec.ir.expr import Expr, Extent
from edgec.ir.nest import coefficient, extent, most
from edgec.ir.vector import LANES
from edgec.schedule.program import Buffer, Kernel
from edgec.schedule.storage import memory_type
from edgec.schedule.transpose import Transpose


class TransposeView(LoopedView):
    """A transpose: tasks are chunks of the loop along which it loads."""

    def __init__(self, kernel: Kernel, name: str, aliases: frozenset[Buffer]) -> None:
        super().__init__(kernel, name, aliases)
        self.names = {**self.outer_names, self.params.m: "m", self.params.n: "n"}

    @property
    def params(self) -> Transpose:
        schedule = self.kernel.schedule
        assert isinstance(schedule, Transpose)
        return schedule

    @property
    def chunk(self) -> int:
        return self.params.chunk

    @property
    def m_extent(self) -> Extent:
        return extent(self.params.m)

    @property
    def n_extent(self) -> Extent:
        return extent(self.params.n)

    @property
    def task_loops(self) -> list[Loop]:
        rows = Loop("start", X.plain(-(-self.m_extent // self.chunk)), step=self.chunk)
        if not self.is_cut:
            return [*self.outer, rows]
        columns = self.params.columns
        return [*self.outer, Loop("column", X.plain(-(-self.n_extent // columns)), step=columns), rows]

    @property
    def is_cut(self) -> bool:
        """Has a task only a part of the loop along which it stores?"""
        return self.params.columns < most(self.params.n)

    @property
    def first_column(self) -> str:
        return "column" if self.is_cut else "0"

    @property
    def column_end(self) -> str:
        end = extent_text(self.n_extent)
        return f"ec_min_int(column + {self.params.columns}, {end})" if self.is_cut else end

    @property
    def has_full(self) -> bool:
        """Can there be a whole block?"""
        return min(most(self.params.m), most(self.params.n)) >= self.params.lanes

    @property
    def has_rest(self) -> bool:
        """Can there be less than a block at an end?"""
        extents = (self.m_extent, self.n_extent)
        return not all(isinstance(n, int) and n % self.params.lanes == 0 for n in extents)

    @cached_property
    def tiles(self) -> list[TransposeTile]:
        return [TransposeTile(self, c) for c, exists in ((False, self.has_full), (True, self.has_rest)) if exists]

    def call(self, counted: bool, **places: str) -> str:
        """The call of the function for a whole block, or for one of ``count`` by ``columns``."""
        (tile,) = (t for t in self.tiles if t.counted == counted)
        return f"{tile.name}({', '.join(places.get(a, a) for a in tile.interface[1].split(', '))});"


class TransposeTile:
    """The body of one function: a block, whole or of ``columns`` stores of ``count`` lanes."""

    def __init__(self, view: TransposeView, counted: bool) -> None:
        self.view, self.counted = view, counted
        self.name = f"{view.name}_{'rest' if counted else 'block'}"

    @cached_property
    def interface(self) -> tuple[str, str]:
        indices = [*(d.name for d in self.view.outer), "m", "n", "columns"]
        return self.view.tile_interface(indices, self.lines)

    @property
    def parameters(self) -> str:
        return self.interface[0]

    @cached_property
    def lines(self) -> list[str]:
        p, view = self.view.params, self.view
        count, columns = ("count", "columns") if self.counted else (None, "EC_VL")
        printer = Printer(view.names, view.pointers, p.n, count)
        row = X.var("r", p.lanes)
        moved = {p.m: p.m + row}
        lines = [line for k, load in enumerate(p.turned) for line in self._turned(printer, f"a{k}", load, row)]
        places = [*printer.lines]  # what constants choose of where blocks lie
        inside = printer.enter(row, "r", 2)
        for k, load in enumerate(p.turned):
            printer.define(X.substitute(load, moved), f"a{k}[r]")
        value = printer.to_store(X.substitute(p.body, moved))
        store = view.store_line(printer, X.substitute(p.address, moved), value, p.n, count)
        unrolled = [] if self.counted else ["#pragma GCC unroll 16"]
        head = f"  for (ec_int r = 0; r < {columns}; ++r) {{"
        return [*places, *lines, *printer.lines[len(places) :], *unrolled, head, *inside, f"    {store}", "  }"]

    def _turned(self, printer: Printer, name: str, load: Expr, row: Expr) -> list[str]:
        """The lines that load a block row by row, and turn it."""
        p, view = self.view.params, self.view
        is_float = LANES[load.dtype] == "float"
        step = coefficient(load.args[0], p.n)
        assert step is not None
        printer.names[row] = "r"
        place = advanced(view.pointers[load.value], printer.position(load.args[0] + row * step))
        count = "(int)columns" if self.counted else None
        function = c_lanes.access("load", memory_type(load), count)
        value = f"{function}({place}{f', {count}' if count else ''})"
        if self.counted:
            nothing = c_lanes.broadcast("0.0f", "f32") if is_float else c_lanes.broadcast("0", "i32")
            value = f"r < count ? {value} : {nothing}"
        return [
            f"  {c_lanes.vector_type(load.dtype)} {name}[EC_VL];",
            *([] if self.counted else ["#pragma GCC unroll 16"]),
            f"  for (ec_int r = 0; r < EC_VL; ++r) {name}[r] = {value};",
            f"  ec_transpose{'' if is_float else '_i'}({name});",
        ]

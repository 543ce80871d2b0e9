"""Views of matrix products blocked in registers: addresses of rows of S and panels of L, and a finish."""

from __future__ import annotations

from functools import cached_property

from edgec.emit.gpu.base import GpuView, numbered
from edgec.emit.gpu.slots import Slot
from edgec.emit.views.base import Loop
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.nest import most
from edgec.schedule.gpu.registers import GpuBlocked, GpuRegisters


class BlockedView(GpuView):
    """The common part of fp32 and int8 products.

    Templates index loops by ``batch``, ``m``, ``n`` and ``panel``; the loops of k have names.
    """

    @property
    def params(self) -> GpuBlocked:
        schedule = self.kernel.schedule
        assert isinstance(schedule, GpuBlocked)
        return schedule

    @property
    def lanes(self) -> int:  # type: ignore[override]
        return self.params.lanes

    @property
    def threads(self) -> int:
        return self.params.items

    @property
    def groups(self) -> int:
        return -(-self.params.tasks // self.threads)

    @property
    def outer(self) -> list[Loop]:
        """The loops of k without the innermost."""
        return [Loop(f"k{i}", most(v), i) for i, v in enumerate(self.params.k[:-1])]

    @property
    def inner(self) -> int:
        """Steps of the innermost loop of k."""
        return most(self.params.k[-1])

    @cached_property
    def row(self) -> Slot:
        """The address of a row of S."""
        p = self.params
        names, lines = self._names(p.batch, p.m)
        printer = self.printer(names)
        text = f"{self.pointers[p.s]} + {printer.position(p.s_place)}"
        if p.inside is not None:
            text = f"{printer.value(p.inside)} ? {text} : {self.pointers[p.edge]}"
        return self._slot("row", [*lines, *printer.lines], text)

    @cached_property
    def panel(self) -> Slot:
        """The address of a panel of L."""
        p = self.params
        names, lines = self._names(p.batch, ())
        names[p.panel] = "panel"
        printer = self.printer(names)
        return self._slot("panel", lines, f"{self.pointers[p.l]} + {printer.position(p.l_place)}")

    def _names(self, batch: tuple[Expr, ...], m: tuple[Expr, ...]) -> tuple[dict[Expr, str], list[str]]:
        found, lines = numbered(batch, "batch", "b_")
        rows, more = numbered(m, "m", "m_")
        names = found | rows | {v: loop.name for v, loop in zip(self.params.k, self.outer)}
        return names, [f"  {line}" for line in (*lines, *more)]

    def _slot(self, what: str, lines: list[str], value: str) -> Slot:
        numbers = ("batch", "m", "n", "panel", *(loop.name for loop in self.outer))
        parameters, arguments = self.tile_interface(numbers, [*lines, value])
        return Slot(f"{self.name}_{what}", self.lanes, parameters, arguments, lines, value)


class RegistersView(BlockedView):
    """An fp32 matrix product."""

    @property
    def params(self) -> GpuRegisters:
        schedule = self.kernel.schedule
        assert isinstance(schedule, GpuRegisters)
        return schedule

    @property
    def unrolled(self) -> int:
        """Steps of k whose elements of S are loaded as one vector."""
        p = self.params
        return 4 if p.lanes == 4 and p.s_step == 1 and self.inner % 4 == 0 else 1

    @cached_property
    def finish(self) -> Slot:
        """The slot that stores f(sum) at (m, n), where ``sum`` holds neighbors along n."""
        p = self.params
        names, lines = self._names(p.batch, p.m)
        columns, more = numbered(p.n, "n", "n_")
        lane = p.n[-1]
        printer = self.printer(names | columns, lane)
        accumulated = X.load("sum", (X.const(0) + lane,), "f32")
        printer.define(accumulated, "sum")
        value = printer.to_store(X.substitute(p.epilogue, {p.accumulator: accumulated}))
        store = self.store_line(printer, p.address, value, lane, None)
        return self._slot("finish", [*lines, *(f"  {line}" for line in more), *printer.lines, f"  {store}"], "")

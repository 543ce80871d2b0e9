"""View of an int8 matrix product: addresses of rows of S and panels of L, and a finish."""

from __future__ import annotations

from functools import cached_property

from edgec.emit.c_literal import C_TYPES
from edgec.emit.gpu.base import numbered
from edgec.emit.gpu.registers import BlockedView
from edgec.emit.gpu.slots import Slot
from edgec.ir import expr as X
from edgec.schedule.contract.int8_dot import WORD
from edgec.schedule.gpu.dots import GpuDots


class DotsView(BlockedView):
    """An int8 matrix product."""

    @property
    def params(self) -> GpuDots:
        schedule = self.kernel.schedule
        assert isinstance(schedule, GpuDots)
        return schedule

    @property
    def words(self) -> tuple[int, int]:
        """(whole words, remaining elements) of the innermost loop of k."""
        return divmod(self.inner, WORD)

    @property
    def signs(self) -> str:
        """Signedness of S and L: ``us`` is unsigned times signed."""
        return "".join("u" if kind == "u8" else "s" for kind in self.params.types)

    @property
    def edge(self) -> str:
        return self.pointers[self.params.edge]

    @cached_property
    def finish(self) -> Slot:
        """The slot that stores f(sum) at (m, n): neighbors along n, or one result."""
        p = self.params
        names, lines = self._names(p.batch, p.m)
        columns, more = numbered(p.n, "n", "n_")
        lane = p.n[-1] if p.store_lanes else None
        printer = self.printer(names | columns, lane)
        accumulated = X.load("sum", (X.const(0) + lane,), "f32") if lane is not None else p.accumulator
        printer.define(accumulated, "sum")
        body = X.substitute(p.epilogue, {p.accumulator: accumulated})
        value = printer.to_store(body) if lane is not None else printer.value(body)
        store = self.store_line(printer, p.address, value, lane, None)
        text = [*lines, *(f"  {line}" for line in more), *printer.lines, f"  {store}"]
        slot = self._slot("finish", text, "")
        return Slot(slot.name, p.lanes if lane is not None else 1, slot.parameters, slot.arguments, slot.lines,
                    scalar=C_TYPES[p.accumulator.dtype])  # fmt: skip

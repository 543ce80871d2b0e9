"""View of a window reduction: one output by itself, and several neighbors whose windows cross no border."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from edgec.emit.c_literal import literal
from edgec.emit.gpu.base import GpuView, numbered
from edgec.emit.gpu.slots import Slot
from edgec.emit.views.base import Loop
from edgec.ir import expr as X
from edgec.ir.dtypes import neutral
from edgec.ir.expr import Expr, Extent
from edgec.ir.nest import most
from edgec.schedule.gpu.window import OUTPUTS, GpuWindow


@dataclass(frozen=True)
class Path:
    """So many outputs from ``first`` on: the lines and conditions under which their windows cross no border.

    Windows as large as their input always cross one.
    """

    outputs: int
    first: str
    never: bool  # do all windows cross a border
    lines: list[str]
    conditions: list[str]
    updates: list[str]


class WindowView(GpuView):
    """A window reduction; its loops are ``i0``, ..., outputs along the last ``first`` and ``w``, lanes ``n``."""

    outputs = OUTPUTS

    @property
    def params(self) -> GpuWindow:
        schedule = self.kernel.schedule
        assert isinstance(schedule, GpuWindow)
        return schedule

    @property
    def lanes(self) -> int:  # type: ignore[override]
        return self.params.width

    @property
    def tasks(self) -> Extent:
        return self.params.tasks

    @property
    def groups(self) -> Extent:
        return X.plain(-(-self.tasks // self.threads))

    @property
    def blocks(self) -> int:
        """Vectors of one output."""
        return most(self.params.lane) // self.lanes

    @property
    def extent(self) -> int:
        """The extent of the loop along which a work-item computes several outputs."""
        return most(self.params.along)

    @cached_property
    def numbering(self) -> tuple[dict[Expr, str], list[str]]:
        return numbered(self.params.loops, "rest", "i")

    def _names(self, w: str) -> dict[Expr, str]:
        return {**self.numbering[0], self.params.along: w, self.params.lane: "n"}

    @property
    def window(self) -> list[Loop]:
        return [Loop(f"k{i}", most(v), i) for i, v in enumerate(self.params.window)]

    @property
    def neutral(self) -> str:
        return literal(neutral(self.params.sum.value[0], "f32"), "f32")

    @property
    def paths(self) -> list[Path]:
        """(several neighbors, one output) where no padding is needed."""
        return [self._path(OUTPUTS, "first", self.params.inside), self._path(1, "w", self.params.inside_one)]

    def _path(self, outputs: int, first: str, inside: tuple[Expr, ...]) -> Path:
        p = self.params
        printer = self.printer(self._names(first))
        constant = [bool(c.value) for c in inside if c.op == "const"]
        conditions = [printer.value(c) for c in inside if c.op != "const"]
        updates = []
        for r in range(outputs):
            names = self._names(f"({first} + {r})" if r else first)
            names |= {v: loop.name for v, loop in zip(p.window, self.window)}
            element = self.printer(names, p.lane, depth=3)
            element.prefix = f"u{r}_"
            update = element.vector_update(p.sum.value[0], f"s{r}", p.element)
            updates += [*element.lines, f"      {update}"]
        return Path(outputs, first, not all(constant), printer.lines, conditions, updates)

    def _slot(self, what: str, given: dict[Expr, str]) -> Slot:
        p = self.params
        printer = self.printer(self._names("w"), p.lane)
        for e, text in given.items():
            printer.define(e, text)
        value = printer.to_store(p.body)
        store = self.store_line(printer, p.address, value, p.lane, None)
        lines = [*printer.lines, f"  {store}"]
        numbers = dict.fromkeys(self.numbering[0].values())
        parameters, arguments = self.tile_interface((*numbers, "w", "n"), lines)
        return Slot(f"{self.name}_{what}", self.lanes, parameters, arguments, lines)

    @cached_property
    def one(self) -> Slot:
        """The slot that computes and stores any one output."""
        return self._slot("one", {})

    @cached_property
    def finish(self) -> Slot:
        """The slot that stores an output from its ``sum``."""
        return self._slot("finish", {self.params.sum: "sum"})

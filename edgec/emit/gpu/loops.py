"""Views of maps and reductions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from edgec.emit.c_expression import extent_text
from edgec.emit.gpu.base import GpuView, count, numbered
from edgec.emit.gpu.printer import GpuPrinter
from edgec.ir import expr as X
from edgec.ir.dtypes import neutral
from edgec.ir.expr import Expr, Extent
from edgec.ir.nest import extent, most
from edgec.schedule.gpu.kernel import LANES
from edgec.schedule.gpu.loops import GpuMap, GpuReduce, threads_of
from edgec.schedule.loops import reduced


class MapView(GpuView):
    """A map: ``task`` numbers the elements, or vectors of LANES elements, one per thread."""

    @property
    def params(self) -> GpuMap:
        schedule = self.kernel.schedule
        assert isinstance(schedule, GpuMap)
        return schedule

    @property
    def tasks(self) -> Extent:
        p = self.params
        return X.plain(count(p.loops) * (extent(p.lane) // p.width if p.lane is not None else 1))

    @property
    def groups(self) -> Extent:
        return X.plain(-(-self.tasks // self.threads))

    @cached_property
    def lines(self) -> list[str]:
        p = self.params
        loops = p.loops if p.lane is None else (*p.loops, p.lane)
        names, lines = numbered(loops, "task", "i", p.width, self.syntax)
        printer = self.printer(names, None if p.apart else p.lane)
        heads = []
        for k, v in enumerate(p.inside):
            printer.enter(v, f"e{k}", k + 2)
            heads.append("  " * (k + 1) + self.syntax.loop(f"e{k}", extent_text(extent(v))))
        if p.apart and p.lane is not None:
            each = [printer.value(X.substitute(p.body, {p.lane: p.lane + j})) for j in range(p.width)]
            value = f"ec_make({', '.join(each)})"
        else:
            value = printer.to_store(p.body) if p.lane is not None else printer.value(p.body)
        depth = "  " * (len(p.inside) + 1)
        printer.scopes[-1].lines.append(depth + self.store_line(printer, p.address, value, p.lane, None))
        nested = [line for head, scope in zip(heads, printer.scopes[1:]) for line in (head, *scope.lines)]
        ends = ["  " * (k + 1) + "}" for k in reversed(range(len(heads)))]
        return [*(f"  {line}" for line in lines), *printer.lines, *nested, *ends]


@dataclass(frozen=True)
class Pass:
    """One pass of a team over its row: a reduction, or the result."""

    accumulator: str
    neutral: str
    before: list[str]  # computed once
    lines: list[str]  # for every element ``j``, or LANES of them from there on
    update: str  # combines the accumulator with an element
    across: list[str]  # combines the lanes of an accumulator
    merge: str  # combines the accumulator with ``other``, the one of another thread
    rounds: int  # of the loop that load before the first of them needs a value
    by_sub_groups: bool = False  # sub-groups of OpenCL combine accumulators first


class ReduceView(GpuView):
    """Reductions: thread ``member`` of a team takes every team-th element of its row (or LANES neighbors)."""

    @property
    def params(self) -> GpuReduce:
        schedule = self.kernel.schedule
        assert isinstance(schedule, GpuReduce)
        return schedule

    @property
    def has_sub_groups(self) -> bool:
        """Can the threads of a team combine accumulators by sub-groups of OpenCL?"""
        return False

    @property
    def held(self) -> Sequence[object]:
        """Loads along the row whose values a thread holds in registers, for all passes."""
        return ()

    @property
    def team(self) -> int:
        return self.params.team

    @property
    def neighbors(self) -> int:
        return self.params.neighbors

    @property
    def threads(self) -> int:
        return threads_of(self.params)

    @property
    def each(self) -> int:
        """Results of one thread block."""
        return self.params.each

    @property
    def split(self) -> int:
        """Thread blocks that share each result."""
        return self.params.split

    @property
    def span(self) -> int:
        """Elements of the row that one of them takes."""
        extent = most(self.params.row)
        return -(-extent // (self.split * self.step)) * self.step

    @property
    def step(self) -> int:
        """Elements that a thread reads at once."""
        return LANES if self.params.lanes else 1

    @property
    def results(self) -> Extent:
        return self.params.results

    @property
    def groups(self) -> Extent:
        return X.plain(-(-self.results // self.each) * self.split)

    @property
    def extent(self) -> Extent:
        return extent(self.params.row)

    @cached_property
    def numbering(self) -> tuple[dict[Expr, str], list[str]]:
        return numbered(self.params.loops, "task", "i", syntax=self.syntax)

    @property
    def loop_lines(self) -> list[str]:
        return self.numbering[1]

    @property
    def lane(self) -> Expr | None:
        return self.params.row if self.params.lanes else None

    @property
    def wide(self) -> bool:
        """Does a thread read neighboring results at once, the first of which is ``first``?"""
        return self.params.wide

    @cached_property
    def wide_numbering(self) -> tuple[dict[Expr, str], list[str]]:
        return numbered(self.params.loops, "first", "w", syntax=self.syntax)

    @property
    def resident(self) -> int:
        return self.params.resident

    def _rounds(self, body: Expr, lines: list[str]) -> int:
        most_rounds = 16 if len(lines) <= 6 else 4
        if self.params.ahead is None:
            return most_rounds
        step = LANES if self.wide else self.step
        return max(1, min(most_rounds, self.params.ahead // (max(1, len({*X.loads(body)})) * step)))

    def _printer(self, known: int, prefix: str) -> GpuPrinter:
        printer = self.printer(self.numbering[0], self.lane)
        printer.prefix = prefix
        for k in range(known):
            printer.define(reduced(k, "f32"), f"r{k}")
        return printer

    @cached_property
    def passes(self) -> list[Pass]:
        found = []
        for k, (combine, body) in enumerate(self.params.reductions):
            printer = self._printer(k, f"u{k}_")
            if self.wide:
                printer = self.printer(self.wide_numbering[0], self.params.loops[-1])
                printer.prefix = f"u{k}_"
            inside = printer.enter(self.params.row, "j", 2)
            name, start = f"r{k}", self.syntax.literal(neutral(combine, "f32"), "f32")
            across: list[str] = []
            if self.wide:
                update = printer.vector_update(combine, f"{name}_v", body)
            elif self.lane is not None:
                update = printer.vector_update(combine, f"{name}_v", body)
                for lane in range(LANES):
                    across.append(self.syntax.update(combine, name, f"ec_lane({name}_v, {lane})", "f32"))
            else:
                update = self.syntax.update(combine, name, printer.value(body), "f32")
            merge = self.syntax.update(combine, name, "other", "f32")
            by_sub_groups = self.has_sub_groups and combine == "add"  # their maximum is undefined for NaN
            rounds = self._rounds(body, inside)
            found.append(Pass(name, start, printer.lines, inside, update, across, merge, rounds, by_sub_groups))
        return found

    @cached_property
    def row_value(self) -> tuple[list[str], list[str], str]:
        """(lines before the loop over the row, lines inside it, value) of element ``j`` of a result along the row."""
        p = self.params
        printer = self._printer(len(p.reductions), "t")
        lines = printer.enter(p.row, "j", 2)
        value = printer.vector(p.result) if self.lane is not None else printer.value(p.result)
        return printer.lines, lines, value

    @cached_property
    def result(self) -> tuple[list[str], list[str]]:
        """(lines before the loop over the row, lines inside it that store) of the result."""
        p = self.params
        printer = self._printer(len(p.reductions), "t")
        lane = self.lane if p.keeps_row else None
        if lane is None:
            printer.lane = None
        lines = printer.enter(p.row, "j", 2) if p.keeps_row else printer.lines
        value = printer.to_store(p.result) if lane is not None else printer.value(p.result)
        place = self.store_line(printer, p.address, value, lane, None)
        return (printer.lines, [*lines, f"    {place}"]) if p.keeps_row else ([], [*lines, f"  {place}"])

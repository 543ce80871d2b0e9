"""Maps as their template sees them."""

from __future__ import annotations

from functools import cached_property

from edgec.emit.c_expression import Printer, extent_text
from edgec.emit.views.base import Loop, LoopedView
from edgec.ir import expr as X
from edgec.ir.expr import Expr, Extent
from edgec.ir.index import upper
from edgec.ir.nest import extent
from edgec.schedule.map import Map


class MapView(LoopedView):
    """A map: tasks are blocks of lanes, or single elements of the outer loops."""

    @property
    def params(self) -> Map:
        schedule = self.kernel.schedule
        assert isinstance(schedule, Map)
        return schedule

    @property
    def outer_variables(self) -> tuple[Expr, ...]:
        loops = self.params.loops
        return loops if self.params.lane is not None else loops[:-1]

    @property
    def lane(self) -> bool:
        return self.params.lane is not None

    @property
    def lane_extent(self) -> Extent:
        return extent(self.params.lane) if self.params.lane is not None else 1

    @property
    def lane_block(self) -> int:
        return self.params.lane_block

    @property
    def lane_blocks(self) -> Extent:
        return X.plain(-(-self.lane_extent // self.lane_block))

    @property
    def lane_start(self) -> str:
        """The first lane of a task."""
        return "n" if self.lane_blocks != 1 else "0"

    @property
    def lane_end(self) -> str:
        """The lane behind the last of a task."""
        return "end" if self.lane_blocks != 1 else extent_text(self.lane_extent)

    @property
    def is_short(self) -> bool:
        """Is a row always shorter than a vector, and its length known?"""
        return self.lane and isinstance(self.lane_extent, int) and not self.has_full

    @property
    def has_full(self) -> bool:
        """Can there be a whole vector?"""
        return upper(self.lane_extent) >= self.params.lanes

    @property
    def has_tail(self) -> bool:
        """Can there be less than a vector at the end?"""
        return not isinstance(self.lane_extent, int) or self.lane_extent % self.params.lanes != 0

    @property
    def inner(self) -> Loop | None:
        loops = self.params.loops
        return Loop("j", loops[-1].value.extent) if self.params.lane is None and loops else None

    @property
    def task_loops(self) -> list[Loop]:
        blocks = [Loop("n", self.lane_blocks, step=self.lane_block)] if self.lane_blocks != 1 else []
        return [*self.outer, *blocks]

    @property
    def inside(self) -> list[Loop]:
        """Loops inside that over lanes."""
        return [Loop(f"i{k}", v.value.extent, k) for k, v in enumerate(self.params.inside)]

    def _lines(self, printer: Printer) -> tuple[list[str], list[str], list[str]]:
        """(before the inner loop, inside it, inside all): what does not depend on a loop is computed once for it."""
        p, count = self.params, printer.count
        inner = p.lane if p.lane is not None else p.loops[-1] if p.loops else None
        depth = 2 if self.is_short or inner is None else 3
        around = printer.lines if inner is None else printer.enter(inner, "0" if self.is_short else "j", depth)
        lines = around
        for v, loop in zip(p.inside, self.inside):
            lines = printer.enter(v, loop.name, depth + 1 + loop.depth)
        value = printer.to_store(p.body) if p.lane is not None else printer.value(p.body)
        lines.append(f"{'  ' * (depth + len(p.inside))}{self.store_line(printer, p.address, value, p.lane, count)}")
        before = printer.lines if inner is not None else []
        if not p.inside:
            return before, around, []
        heads = [f"for (ec_int {d.name} = 0; {d.name} < {extent_text(d.extent)}; ++{d.name}) {{" for d in self.inside]
        loops = ["  " * (depth + d.depth) + head for d, head in zip(self.inside, heads)]
        scopes = printer.scopes[-len(p.inside) :]
        nested = [text for loop, scope in zip(loops, scopes) for text in (loop, *scope.lines)]
        return before, around, [*nested, *("  " * (depth + d.depth) + "}" for d in reversed(self.inside))]

    def _printer(self, count: str | None) -> Printer:
        return Printer(self.outer_names, self.pointers, self.params.lane, count, depth=2)

    @cached_property
    def _full(self) -> tuple[Printer, tuple[list[str], list[str], list[str]]]:
        printer = self._printer(None)
        return printer, self._lines(printer)

    @property
    def full(self) -> tuple[list[str], list[str], list[str]]:
        return self._full[1]

    @cached_property
    def tail(self) -> tuple[list[str], list[str], list[str]]:
        """The same of less than a vector; reductions before the loop are not computed again."""
        printer = self._printer(str(self.lane_extent) if self.is_short else "count")
        if self.has_full and not self.is_short:
            shared = self._full[0].scopes[0].known
            if any(e.op == "reduce" for e in shared):
                printer.given.update(shared)
                printer.prefix = "rest"
        return self._lines(printer)

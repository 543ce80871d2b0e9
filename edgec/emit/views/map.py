"""Maps as their template sees them."""

from __future__ import annotations

from functools import cached_property

from edgec.emit.c_expression import Printer
from edgec.emit.views.base import Loop, LoopedView
from edgec.ir import expr as X
from edgec.ir.expr import Expr, Extent
from edgec.ir.index import upper
from edgec.ir.nest import extent
from edgec.schedule.loops import MAP_BLOCK, Map


class MapView(LoopedView):
    """A map: tasks are blocks of lanes, or single elements of the outer loops."""

    @property
    def params(self) -> Map:
        params: Map = self.kernel.params
        return params

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
        return min(upper(self.lane_extent), MAP_BLOCK)

    @property
    def lane_blocks(self) -> Extent:
        return X.plain(-(-self.lane_extent // self.lane_block))

    @property
    def has_full(self) -> bool:
        """Can there be a whole vector?"""
        return upper(self.lane_extent) >= self.params.lanes

    @property
    def has_tail(self) -> bool:
        """Can there be less than a vector at the end?"""
        return not isinstance(self.lane_extent, int) or self.lane_extent % 64 != 0

    @property
    def inner(self) -> Loop | None:
        loops = self.params.loops
        return Loop("j", loops[-1].value.extent) if self.params.lane is None and loops else None

    @property
    def tasks(self) -> Extent:
        return X.plain(super().tasks * (self.lane_blocks if self.lane else 1))

    def _lines(self, count: str | None) -> tuple[list[str], list[str]]:
        """(before the inner loop, inside it): what does not depend on the inner loop is computed once."""
        p = self.params
        inner = p.lane if p.lane is not None else p.loops[-1] if p.loops else None
        printer = Printer(self.outer_names, self.pointers, p.lane, count, depth=2 if inner is not None else 3)
        lines = printer.lines if inner is None else printer.enter(inner, "j", 3)
        value = printer.to_store(p.body) if p.lane is not None else printer.value(p.body)
        lines.append(f"      {self.store_line(printer, p.address, value, p.lane, count)}")
        return (printer.lines, lines) if inner is not None else ([], lines)

    @cached_property
    def full(self) -> tuple[list[str], list[str]]:
        return self._lines(None)

    @cached_property
    def tail(self) -> tuple[list[str], list[str]]:
        return self._lines("count")

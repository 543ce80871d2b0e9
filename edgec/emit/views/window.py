"""Windows as their template sees them: unrolled tile functions."""

from __future__ import annotations

from functools import cached_property
from itertools import product

from edgec.emit import c_lanes
from edgec.emit.c_expression import Printer
from edgec.emit.c_literal import literal
from edgec.emit.views.base import LoopedView
from edgec.ir import expr as X
from edgec.ir.evaluate import neutral
from edgec.ir.expr import Extent
from edgec.ir.index import upper
from edgec.ir.nest import extent
from edgec.ir.vector import HALF
from edgec.schedule.loops import Window
from edgec.schedule.program import Buffer, Kernel


class WindowView(LoopedView):
    """A window: unrolled taps, ``rows`` outputs at once."""

    def __init__(self, kernel: Kernel, name: str, aliases: frozenset[Buffer]) -> None:
        super().__init__(kernel, name, aliases)
        self.names = self.outer_names
        self.names[self.params.n] = "n"
        if self.params.m.op == "var":
            self.names[self.params.m] = "m"

    @property
    def params(self) -> Window:
        params: Window = self.kernel.params
        return params

    @property
    def rows(self) -> int:
        return self.params.rows

    @property
    def m_extent(self) -> Extent:
        return extent(self.params.m)

    @property
    def n_extent(self) -> int:
        return int(self.params.n.value.extent)

    @property
    def lanes(self) -> int:
        return self.params.lanes

    @property
    def has_full(self) -> bool:
        return self.n_extent >= self.lanes

    @property
    def has_tail(self) -> bool:
        return self.n_extent % self.lanes != 0

    @property
    def tail(self) -> int:
        return self.n_extent % self.lanes

    @property
    def full_tiles(self) -> bool:
        """Can there be a tile of all rows?"""
        return upper(self.m_extent) >= self.rows

    @property
    def rest_heights(self) -> list[int]:
        """Tiles that the last rows are taken in: one where their number is known, else one for each of its bits."""
        if isinstance(self.m_extent, int):
            return [self.m_extent % self.rows] if self.m_extent % self.rows else []
        return [1 << b for b in reversed(range((self.rows - 1).bit_length()))]

    @property
    def indices(self) -> list[str]:
        return [*(d.name for d in self.outer), "m", "n"]

    @cached_property
    def tiles(self) -> list[WindowTile]:
        heights = dict.fromkeys([*([self.rows] if self.full_tiles else []), *self.rest_heights])
        tails = [False] * self.has_full + [True] * self.has_tail
        return [WindowTile(self, h, t) for h in heights for t in tails]

    def call(self, rows: int, counted: bool) -> str:
        (tile,) = (t for t in self.tiles if t.rows == rows and t.counted == counted)
        return f"{tile.name}({tile.interface[1]})"


class WindowTile:
    """The body of one tile function."""

    def __init__(self, view: WindowView, rows: int, counted: bool) -> None:
        self.view, self.rows, self.counted = view, rows, counted
        self.name = f"{view.name}_{rows}{'_tail' if counted else ''}"

    @cached_property
    def interface(self) -> tuple[str, str]:
        return self.view.tile_interface(self.view.indices, self.lines)

    @property
    def parameters(self) -> str:
        return self.interface[0]

    @cached_property
    def lines(self) -> list[str]:
        p, view = self.view.params, self.view
        count = str(view.tail) if self.counted else None
        printer = Printer(view.names, view.pointers, p.n, count)
        combine, _ = p.reduction.value
        names, body = X.opened(p.reduction)
        dtype = p.reduction.dtype
        start = c_lanes.broadcast(literal(neutral(combine, dtype), dtype), dtype)
        lines = printer.lines
        lines += [f"  {c_lanes.vector_type(dtype)} c{r} = {start};" for r in range(self.rows)]
        for taps in product(*(range(v.value.extent) for v in names)):
            at = {v: X.const(t) for v, t in zip(names, taps)}
            for r in range(self.rows):
                moved = X.substitute(body, at | ({p.m: p.m + r} if p.m.op == "var" else {}))
                lines.append("  " + printer.vector_update(combine, f"c{r}", moved))
        for r in range(self.rows):
            shift = {p.m: p.m + r} if p.m.op == "var" else {}
            accumulated = X.load(("accumulator", r), (X.const(0) + p.n,), dtype)
            printer.define(accumulated, c_lanes.narrowed(f"c{r}", dtype) if dtype in HALF else f"c{r}")
            whole = X.substitute(X.substitute(p.body, {p.reduction: accumulated}), shift)
            value = printer.to_store(whole)
            lines.append("  " + view.store_line(printer, X.substitute(p.address, shift), value, p.n, count))
        return lines

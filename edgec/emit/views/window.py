"""Windows as their template sees them: unrolled tile functions."""

from __future__ import annotations

from functools import cached_property
from itertools import product

from edgec.emit import c_lanes
from edgec.emit.c_expression import Printer, extent_text
from edgec.emit.c_literal import literal
from edgec.emit.views.base import Loop, LoopedView
from edgec.emit.views.epilogue import HalfEnd
from edgec.ir import expr as X
from edgec.ir.dtypes import neutral
from edgec.ir.expr import Expr, Extent
from edgec.ir.index import upper
from edgec.ir.nest import extent
from edgec.ir.vector import HALF
from edgec.schedule.contract.fp16_sums import COLUMNS
from edgec.schedule.contract.int8_dot import WORD, Taps
from edgec.schedule.program import Buffer, Kernel
from edgec.schedule.window import Window


class WindowView(LoopedView):
    """A window: unrolled taps, ``rows`` outputs at once."""

    def __init__(self, kernel: Kernel, name: str, aliases: frozenset[Buffer]) -> None:
        super().__init__(kernel, name, aliases)
        self.names = self.outer_names
        self.names[self.params.n] = "n"
        if self.deep > 1:
            self.names[self.params.loops[-1]] = "h"
        if self.params.m.op == "var":
            self.names[self.params.m] = "m"

    @property
    def params(self) -> Window:
        schedule = self.kernel.schedule
        assert isinstance(schedule, Window)
        return schedule

    @property
    def rows(self) -> int:
        return self.params.rows

    @property
    def deep(self) -> int:
        return self.params.deep

    @property
    def h_extent(self) -> int:
        return int(self.params.loops[-1].value.extent)

    @property
    def last_deep(self) -> int:
        """Depth of the last tile, where it differs from the others."""
        return self.h_extent % self.deep if self.deep > 1 else 0

    @property
    def task_loops(self) -> list[Loop]:
        found = self.outer
        if self.deep > 1:
            found = [*self.outer[:-1], Loop("h", -(-self.h_extent // self.deep), step=self.deep)]
        if not (columns := self.params.columns):
            return found
        column = Loop("column", -(-self.n_extent // columns), step=columns)
        return [column, *found] if self.params.columns_first else [*found, column]

    @property
    def m_extent(self) -> Extent:
        return extent(self.params.m)

    @property
    def n_extent(self) -> int:
        return int(self.params.n.value.extent)

    @property
    def lanes(self) -> int:
        """Results beside one another of a tile: a vector, or one of fp16."""
        return self.params.lanes * self.vectors

    @property
    def vectors(self) -> int:
        return COLUMNS if self.params.in_fp16 else 1

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
        return [*(d.name for d in self.outer), "h", "m", "n"]

    @cached_property
    def tiles(self) -> list[WindowTile]:
        depths = [self.deep, *([self.last_deep] if self.last_deep else [])]
        widths = dict.fromkeys([*([self.rows] if self.full_tiles else []), *self.rest_heights])
        tails = [False] * self.has_full + [True] * self.has_tail
        return [WindowTile(self, d, w, t) for d in depths for w in widths for t in tails]

    def call(self, deep: int, rows: int, counted: bool, **places: str) -> str:
        """The call of a tile function; ``places`` are the C of indices that have no variable."""
        (tile,) = (t for t in self.tiles if (t.deep, t.rows, t.counted) == (deep, rows, counted))
        return f"{tile.name}({', '.join(places.get(a, a) for a in tile.interface[1].split(', '))});"

    def sweep(self, deep: int, counted: bool, **places: str) -> list[str]:
        """C that computes all outputs along ``m`` for a vector of them along ``n``."""
        rows, m = self.rows, extent_text(self.m_extent)
        if isinstance(self.m_extent, int):
            whole = self.m_extent // rows * rows
            tile = self.call(deep, rows, counted, **places, **({"m": "0"} if whole == rows else {})) if whole else ""
            loop = f"for (ec_int m = 0; m < {whole}; m += {rows}) " if whole > rows else ""
            rest = [self.call(deep, r, counted, **places, m=str(whole)) for r in self.rest_heights]
            return [*([loop + tile] if whole else []), *rest]
        lines = ["ec_int m = 0;"]
        if self.full_tiles:
            lines.append(f"for (; m + {rows} <= {m}; m += {rows}) {self.call(deep, rows, counted, **places)}")
        for r in self.rest_heights:
            call = self.call(deep, r, counted, **places)
            lines += [f"if (m + {r} <= {m}) {{", f"  {call}", f"  m += {r};", "}"]
        return [*lines, "(void)m;"]

    def sweeps(self, deep: int) -> list[str]:
        """C that computes all outputs along ``m`` and ``n``."""
        whole, columns = self.n_extent // self.lanes * self.lanes, self.params.columns
        lines = []
        if columns:
            end = f"ec_min_int(column + {columns}, {whole})"
            lines += [f"for (ec_int n = column; n < {end}; n += {self.lanes}) {{",
                      *(f"  {line}" for line in self.sweep(deep, False)), "}"]  # fmt: skip
        elif whole == self.lanes:
            lines += self.sweep(deep, False, n="0")
        elif whole:
            lines += [f"for (ec_int n = 0; n < {whole}; n += {self.lanes}) {{",
                      *(f"  {line}" for line in self.sweep(deep, False)), "}"]  # fmt: skip
        if not self.has_tail:
            return lines
        tail = self.sweep(deep, True, n=str(whole))
        if columns:
            return [*lines, f"if (column + {columns} >= {self.n_extent}) {{", *(f"  {line}" for line in tail), "}"]
        if whole and not isinstance(self.m_extent, int):  # a variable m of its own
            tail = ["{", *(f"  {line}" for line in tail), "}"]
        return lines + tail


class WindowTile:
    """The body of one tile function: ``deep`` x ``rows`` outputs."""

    def __init__(self, view: WindowView, deep: int, rows: int, counted: bool) -> None:
        self.view, self.deep, self.rows, self.counted = view, deep, rows, counted
        size = f"{deep}x{rows}" if view.deep > 1 else f"{rows}"
        self.name = f"{view.name}_{size}{'_tail' if counted else ''}"

    @cached_property
    def interface(self) -> tuple[str, str]:
        return self.view.tile_interface(self.view.indices, self.lines)

    @property
    def parameters(self) -> str:
        return self.interface[0]

    @property
    def outputs(self) -> list[dict[Expr, Expr]]:
        """The positions of the outputs, relative to the first."""
        p = self.view.params
        along = p.loops[-1] if self.view.deep > 1 else X.const(0)
        places = product(range(self.deep), range(self.rows))
        return [{v: v + by for v, by in ((along, d), (p.m, r)) if v.op == "var"} for d, r in places]

    @cached_property
    def lines(self) -> list[str]:
        p, view = self.view.params, self.view
        count = str(view.tail) if self.counted else None
        printer = Printer(view.names, view.pointers, p.n, count)
        dtype = p.reduction.dtype
        lines = printer.lines
        if p.in_fp16:
            return self._in_fp16()
        if p.taps is not None:
            self._dots(printer, p.taps)
        else:
            self._updates(printer)
        for r, moved in enumerate(self.outputs):
            self._stored(printer, c_lanes.narrowed(f"c{r}", dtype) if dtype in HALF else f"c{r}", moved, count)
        return lines

    def _stored(self, printer: Printer, total: str, moved: dict[Expr, Expr], count: str | None) -> None:
        """The lines that store one sum (or maximum, ...) on lanes."""
        p = self.view.params
        accumulated = X.load(("accumulator", total), (X.const(0) + p.n,), p.reduction.dtype)
        printer.define(X.substitute(accumulated, moved), total)
        value = printer.to_store(X.substitute(X.substitute(p.body, {p.reduction: accumulated}), moved))
        address = X.substitute(p.address, moved)
        printer.lines.append("  " + self.view.store_line(printer, address, value, p.n, count))

    def _in_fp16(self) -> list[str]:
        """Sums of products in fp16, and as two vectors of floats what becomes of them."""
        p, view = self.view.params, self.view
        live = view.tail if self.counted else view.lanes
        part, more = ("_n", f", {live}") if self.counted else ("", "")
        whole = Printer(view.names, view.pointers, p.n)
        lines = [f"  ec_vh h{r} = ec_zero_h();" for r in range(len(self.outputs))]
        for _, r, element in p.elements(self.outputs):
            places = (f"{view.pointers[e.value]} + {whole.position(e.args[0])}{more}" for e in element.args)
            a, b = (f"ec_load_h{part}({place})" for place in places)
            lines.append(f"  h{r} = ec_fma_lanes_h({a}, {b}, h{r});")
        if p.end is not None:
            end = HalfEnd(view, "e", p.end, {}, live)
            return [*lines, *end.operands, *(end.stored(f"h{r}", moved) for r, moved in enumerate(self.outputs))]
        for v, half in enumerate(("low", "high")):
            first = v * p.lanes
            if live <= first:
                break
            count = str(live - first) if live < first + p.lanes else None
            printer = Printer(view.names, view.pointers, p.n, count, prefix=f"e{v}_")
            for r, moved in enumerate(self.outputs):
                self._stored(printer, f"ec_{half}_floats(h{r})", moved | ({p.n: p.n + first} if v else {}), count)
            lines += printer.lines
        return lines

    def _updates(self, printer: Printer) -> None:
        """Sums (or maxima, ...) of a tile, in the order of what they read: it is used at once, and then no more."""
        p = self.view.params
        combine, _ = p.reduction.value
        dtype = p.reduction.dtype
        start = c_lanes.broadcast(literal(neutral(combine, dtype), dtype), dtype)
        printer.lines.extend(f"  {c_lanes.vector_type(dtype)} c{r} = {start};" for r in range(len(self.outputs)))
        for _, r, element in p.elements(self.outputs):
            printer.lines.append("  " + printer.vector_update(combine, f"c{r}", element))

    def _dots(self, printer: Printer, taps: Taps) -> None:
        """Sums of products of bytes of a tile, four taps at a time; what outputs share is put together once."""
        for r, moved in enumerate(self.outputs):
            start = printer.vector(X.substitute(taps.start, moved))
            printer.lines.append(f"  ec_vi c{r} = {start};")
        dots: dict[tuple[Expr, ...], str] = {}
        dot = "ec_dot_ss" if taps.is_signed else "ec_dot_us"
        others = product(*(range(v.value.extent) for v in taps.names[:-1]))
        for k, (other, word) in enumerate(product(others, range(taps.dots))):
            at = {v: X.const(t) for v, t in zip(taps.names, other)}
            along = range(word * WORD, min((word + 1) * WORD, taps.along.value.extent))
            for r, moved in enumerate(self.outputs):
                change = at | moved
                loads = tuple(X.substitute(taps.x, change | {taps.along: X.const(t)}) for t in along)
                if loads not in dots:
                    dots[loads] = name = f"w{len(dots)}"
                    printer.lines.append(f"  const ec_vi {name} = {_word(printer, loads, taps)};")
                weights = printer.vector(X.substitute(taps.word, {taps.place: X.const(k)} | moved))
                printer.lines.append(f"  c{r} = {dot}(c{r}, {dots[loads]}, {weights});")


def _word(printer: Printer, loads: tuple[Expr, ...], taps: Taps) -> str:
    """The bytes of some loads beside one another, as the machine takes them."""
    bytes_ = [printer.vector(load) for load in loads] + ["ec_set1_i(0)"] * (WORD - len(loads))
    text = f"ec_bytes({', '.join(bytes_)})"
    live = 0x80808080 >> 8 * (WORD - len(loads))
    bits = f"ec_set1_i({live - (live >> 31 << 32)})"
    if loads[0].dtype == "u8":
        return f"{text} ^ {bits}" if taps.flip else text
    unsigned = f"ec_add_i({text}, {bits})"  # of signed bytes that borrow from one another, 128 more is a byte again
    return unsigned if taps.flip else f"{unsigned} ^ {bits}"

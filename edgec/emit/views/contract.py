"""Contractions as their template sees them: tile functions, and the tasks that sweep them over rows and panels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

from edgec.emit.c_expression import Printer, extent_text
from edgec.emit.views.base import Loop, View, numbered
from edgec.ir import expr as X
from edgec.ir.expr import Expr, Extent
from edgec.ir.nest import coefficient, extent
from edgec.schedule.contract import Contract
from edgec.schedule.program import Buffer, Kernel


class ContractView(View):
    """A contraction: tile functions, and the tasks that sweep them over rows and panels."""

    def __init__(self, kernel: Kernel, name: str, aliases: frozenset[Buffer]) -> None:
        super().__init__(kernel, name, aliases)
        p = self.params
        self.outer = numbered(p.outer)
        self.sums = {v: Loop(f"k{d}", extent(v), d) for d, v in enumerate(p.k)}
        self.names = {v: d.name for v, d in self.outer.items()} | {v: d.name for v, d in self.sums.items()}
        self.names[p.n] = "n"
        if p.m.op == "var":
            self.names[p.m] = "m"

    @property
    def params(self) -> Contract:
        params: Contract = self.kernel.params
        return params

    # ---- facts the template writes down

    @property
    def sum_loops(self) -> list[Loop]:
        return list(self.sums.values())

    @property
    def sum_indent(self) -> str:
        return "  " * (len(self.sums) - 1)

    @property
    def width(self) -> int:
        return self.params.width

    @property
    def rows(self) -> int:
        return self.params.rows

    @property
    def m_extent(self) -> Extent:
        return self.params.m_extent

    @property
    def n_extent(self) -> Extent:
        return self.params.n_extent

    @property
    def k_extent(self) -> Extent:
        return self.params.k_extent

    @property
    def uses_panel(self) -> bool:
        return self.params.l_mode != "direct"

    @property
    def packs(self) -> bool:
        return self.params.l_mode == "gathered"

    @property
    def packed_parameter(self) -> str:
        return self.pointers[self.params.packed] if self.params.packed is not None else "0"

    @property
    def panel_size(self) -> Extent:
        return X.plain(self.k_extent * self.width)

    @property
    def tile_chunk(self) -> int:
        return self.params.tile_chunk

    @property
    def tile_count(self) -> Extent:
        return self.params.tiles

    @property
    def task_dimensions(self) -> list[Loop]:
        p = self.params
        around = [self.outer[v] for v in p.panel_outer]
        rest = [self.outer[v] for v in p.outer if v not in p.panel_outer]
        panel, chunk = Loop("panel_index", p.panels), Loop("chunk", p.chunks)
        return [*around, panel, *rest, chunk] if p.panel_first else [*around, *rest, chunk, panel]

    @property
    def tasks(self) -> Extent:
        return X.plain(prod(d.extent for d in self.task_dimensions))

    @property
    def panel_number(self) -> str:
        text = "panel_index"
        scale = self.params.panels
        for v in reversed(self.params.panel_outer):
            text += f" + {self.outer[v].name} * {extent_text(scale)}"
            scale = X.plain(scale * extent(v))
        return f"({text})"

    @property
    def indices(self) -> list[str]:
        return [*(d.name for d in self.outer.values()), "m", "n"]

    # ---- run-time packing

    def _gather(self) -> tuple[list[str], str]:
        p = self.params
        names = {v: t for v, t in self.names.items() if v is not p.n} | {p.n: "(n + j)"}
        printer = Printer(names, self.pointers, depth=len(self.sums) + 2)
        guarded = X.select(X.load("inside", (), "bool"), p.l, X.const(0.0, "f32"))
        printer.define(X.load("inside", (), "bool"), "j < width")
        value = printer.value(guarded)
        return [line.strip() for line in printer.lines], value

    @property
    def gather_lines(self) -> list[str]:
        return self._gather()[0]

    @property
    def gather(self) -> str:
        return self._gather()[1]

    @property
    def sum_position(self) -> str:
        text = ""
        scale: Extent = 1
        for loop in reversed(self.sum_loops):
            text = f"{loop.name} * {extent_text(scale)}" + (f" + {text}" if text else "")
            scale = X.plain(scale * loop.extent)
        return f"({text or '0'})"

    # ---- tiles

    @property
    def _heights(self) -> list[int]:
        """Rows of tiles: all, and what the last rows are taken in (one for each bit of a number not known yet)."""
        p = self.params
        if isinstance(p.m_extent, int):
            return [h for h in (p.rows if p.m_extent >= p.rows else 0, p.m_extent % p.rows) if h]
        return [p.rows, *(1 << b for b in reversed(range((p.rows - 1).bit_length())))]

    @property
    def _widths(self) -> list[tuple[int, int | None]]:
        """(vectors, live lanes of the last): whole panels, and the last one (in single vectors where it is open)."""
        p = self.params
        if not isinstance(p.n_extent, int):
            return [(p.vectors, p.lanes), (1, None)]
        last = p.n_extent - (-(-p.n_extent // p.width) - 1) * p.width
        widths: list[tuple[int, int | None]] = [(p.vectors, p.lanes)] if p.n_extent >= p.width else []
        if last != p.width:
            widths.append((-(-last // p.lanes), last % p.lanes or p.lanes))
        return widths

    @cached_property
    def tiles(self) -> list[Tile]:
        return [Tile(self, h, v, live) for h in dict.fromkeys(self._heights) for v, live in self._widths]

    @property
    def calls(self) -> list[Call]:
        """Which tile functions the panel and the row tile at hand need."""
        p = self.params
        full, panels_full = X.plain(p.m_extent // p.rows), X.plain(p.n_extent // p.width)
        calls = []
        for k, rows in enumerate(self._heights):
            for vectors, live in self._widths:
                (t,) = (t for t in self.tiles if (t.rows, t.vectors, t.live) == (rows, vectors, live))
                conditions, change = [], {}
                if len(self._heights) > 1:
                    conditions.append(f"tile {'>=' if k else '<'} {extent_text(full)}")
                if k and not isinstance(p.m_extent, int):
                    rest = extent_text(X.plain(p.m_extent % p.rows))
                    conditions.append(f"({rest} & {rows})")
                    change["m"] = f"m + ({rest} & ~{2 * rows - 1})"
                if len(self._widths) > 1:
                    whole = (vectors, live) == (p.vectors, p.lanes)
                    conditions.append(f"panel_index {'<' if whole else '>='} {extent_text(panels_full)}")
                sweep = ""
                if live is None:
                    end = extent_text(p.n_extent)
                    sweep = f"for (ec_int v = n; v < {end}; v += {p.lanes}) "
                    change |= {
                        "n": "v", "panel": "panel + (v - n)", "count": f"(int)ec_min_int({p.lanes}, {end} - v)"
                    }  # fmt: skip
                arguments = ", ".join(change.get(a, a) for a in t.interface[1].split(", "))
                condition = f"if ({' && '.join(conditions)}) " if conditions else ""
                calls.append(Call(condition + sweep, f"{t.name}({arguments})"))
        return calls


@dataclass(frozen=True)
class Call:
    """A call of a tile function, and when it is made."""

    condition: str
    call: str


class Tile:
    """One unrolled tile: ``rows`` x ``vectors``; of the last vector ``live`` lanes exist (None: ``count`` of them)."""

    def __init__(self, view: ContractView, rows: int, vectors: int, live: int | None) -> None:
        self.view, self.rows, self.vectors, self.live = view, rows, vectors, live
        p = view.params
        suffix = "" if live == p.lanes else "_n" if live is None else f"_{live}"
        self.name = f"{view.name}_{rows}x{vectors}{suffix}"
        self.hoisted: list[str] = []
        self._pointer: tuple[str, dict[Expr, int]] | None = None
        if p.s.op == "load" and p.s.value in view.pointers:
            self._hoist()

    def _hoist(self) -> None:
        """Point at the first element of S; the loops of the sum then add constants alone."""
        p = self.view.params
        address = p.s.args[0]
        steps = {v: coefficient(address, v) for v in (*p.k, p.m) if v.op == "var"}
        if any(c is None for c in steps.values()):
            return
        start = X.substitute(address, {v: X.const(0) for v in p.k})
        text = Printer(self.view.names, self.view.pointers).position(start)
        pointer = self.view.pointers[p.s.value]
        self.hoisted = [f"const float *const s = {pointer} + {text};"]
        self._pointer = ("s", {v: c for v, c in steps.items() if c is not None})

    @cached_property
    def interface(self) -> tuple[str, str]:
        lines = [*self.hoisted, *self.epilogue, *(self.lanes(v) for v in range(self.vectors))]
        lines += [extent_text(loop.extent) for loop in self.view.sum_loops]
        for r in range(self.rows):
            lines += [*self.broadcast_lines(r), self.broadcast(r)]
        return self.view.tile_interface(self.view.indices, lines)

    @property
    def parameters(self) -> str:
        return self.interface[0]

    def accumulators(self, r: int) -> str:
        return ", ".join(f"c{r}_{v} = ec_set1(0.0f)" for v in range(self.vectors))

    def _count(self, v: int) -> str | None:
        whole = self.live == self.view.params.lanes
        return None if v < self.vectors - 1 or whole else str(self.live) if self.live is not None else "count"

    def lanes(self, v: int) -> str:
        p = self.view.params
        if self.view.uses_panel:
            return f"ec_load(panel + {v * p.lanes})" if v else "ec_load(panel)"
        shifted = X.substitute(p.l, {p.n: p.n + v * p.lanes})
        return Printer(self.view.names, self.view.pointers, p.n, self._count(v))._text(shifted)

    def _broadcast(self, r: int) -> tuple[list[str], str]:
        p = self.view.params
        if self._pointer is not None:
            name, steps = self._pointer
            parts = [f"{self.view.names[v]} * {steps[v]}" if steps[v] != 1 else self.view.names[v]
                     for v in p.k if v.op == "var" and steps[v]]  # fmt: skip
            offset = r * steps.get(p.m, 0)
            if offset or not parts:
                parts.append(str(offset))
            return [], f"{name}[{' + '.join(parts)}]"
        shifted = X.substitute(p.s, {p.m: p.m + r}) if p.m.op == "var" else p.s
        printer = Printer(self.view.names, self.view.pointers, depth=0, prefix=f"a{r}_")
        text = printer.value(shifted)
        return printer.lines, text

    def broadcast_lines(self, r: int) -> list[str]:
        return self._broadcast(r)[0]

    def broadcast(self, r: int) -> str:
        return self._broadcast(r)[1]

    @cached_property
    def epilogue(self) -> list[str]:
        p, view = self.view.params, self.view
        lines: list[str] = []
        # Whole vectors share one printer, so that a bias is loaded once for all rows.
        for v in range(self.vectors):
            count = self._count(v)
            printer = Printer(view.names, view.pointers, p.n, count, prefix=f"e{v}_")
            for r in range(self.rows):
                accumulated = X.load(("accumulator", r, v), (X.const(0) + p.n,), "f32")
                change = {p.n: p.n + v * p.lanes} | ({p.m: p.m + r} if p.m.op == "var" else {})
                printer.define(accumulated, f"c{r}_{v}")
                body = X.substitute(X.substitute(p.epilogue, change), {p.accumulator: accumulated})
                value = printer.vector(body)
                address = X.substitute(p.address, change)
                printer.lines.append(f"  {view.store_line(printer, address, value, p.n, count)}")
            lines += printer.lines
        return lines

"""Contractions as their template sees them: tile functions, and the tasks that sweep them over rows and panels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

from edgec.emit.c_expression import Printer
from edgec.emit.views.base import Loop, View, numbered
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.nest import coefficient
from edgec.schedule.contract import Contract
from edgec.schedule.program import Buffer, Kernel


class ContractView(View):
    """A contraction: tile functions, and the tasks that sweep them over rows and panels."""

    def __init__(self, kernel: Kernel, name: str, aliases: frozenset[Buffer]) -> None:
        super().__init__(kernel, name, aliases)
        p = self.params
        self.outer = numbered(p.outer)
        self.sums = {v: Loop(f"k{d}", v.value.extent, d) for d, v in enumerate(p.k)}
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
    def m_extent(self) -> int:
        return self.params.m_extent

    @property
    def n_extent(self) -> int:
        return self.params.n_extent

    @property
    def k_extent(self) -> int:
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
    def panel_size(self) -> int:
        return self.k_extent * self.width

    @property
    def tile_chunk(self) -> int:
        return self.params.tile_chunk

    @property
    def tile_count(self) -> int:
        return self.params.tiles

    @property
    def task_dimensions(self) -> list[Loop]:
        p = self.params
        around = [self.outer[v] for v in p.panel_outer]
        rest = [self.outer[v] for v in p.outer if v not in p.panel_outer]
        panel, chunk = Loop("panel_index", p.panels), Loop("chunk", p.chunks)
        return [*around, panel, *rest, chunk] if p.panel_first else [*around, *rest, chunk, panel]

    @property
    def tasks(self) -> int:
        return prod(d.extent for d in self.task_dimensions)

    @property
    def panel_number(self) -> str:
        text = "panel_index"
        scale = self.params.panels
        for v in reversed(self.params.panel_outer):
            text += f" + {self.outer[v].name} * {scale}"
            scale *= v.value.extent
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
        text, scale = "", 1
        for loop in reversed(self.sum_loops):
            text = f"{loop.name} * {scale}" + (f" + {text}" if text else "")
            scale *= loop.extent
        return f"({text or '0'})"

    # ---- tiles

    @cached_property
    def tiles(self) -> list[Tile]:
        p = self.params
        heights = [h for h in (p.rows if p.m_extent >= p.rows else 0, p.m_extent % p.rows) if h]
        last = p.n_extent - (p.panels - 1) * p.width
        widths = [(p.vectors, p.lanes)] if p.panels > 1 or last == p.width else []
        if last != p.width:
            widths.append((-(-last // p.lanes), last % p.lanes or p.lanes))
        return [Tile(self, h, v, live) for h in heights for v, live in widths]

    @property
    def calls(self) -> list[Call]:
        p = self.params
        full = p.m_extent // p.rows
        panels_full = p.n_extent // p.width
        calls = []
        for t in self.tiles:
            conditions = []
            if len({x.rows for x in self.tiles}) > 1:
                conditions.append(f"tile {'<' if t.rows == p.rows else '>='} {full}")
            if len({(x.vectors, x.live) for x in self.tiles}) > 1:
                whole = (t.vectors, t.live) == (p.vectors, p.lanes)
                conditions.append(f"panel_index {'<' if whole else '>='} {panels_full}")
            call = f"{t.name}({t.interface[1]})"
            calls.append(Call(f"if ({' && '.join(conditions)}) " if conditions else "", call))
        return calls


@dataclass(frozen=True)
class Call:
    """A call of a tile function, and when it is made."""

    condition: str
    call: str


class Tile:
    """One unrolled tile: ``rows`` x ``vectors``, of whose last vector ``live`` lanes exist."""

    def __init__(self, view: ContractView, rows: int, vectors: int, live: int) -> None:
        self.view, self.rows, self.vectors, self.live = view, rows, vectors, live
        p = view.params
        self.name = f"{view.name}_{rows}x{vectors}{'' if live == p.lanes else f'_{live}'}"
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
        return None if v < self.vectors - 1 or whole else str(self.live)

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

"""What a template sees of a kernel: names, loops and printed fragments of its body. No decision is made here."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import prod

from edgec.emit.c_expression import STORAGE, Printer, literal
from edgec.ir import expr as X
from edgec.ir import index
from edgec.ir.evaluate import neutral
from edgec.ir.expr import Expr
from edgec.schedule.contract import Contract
from edgec.schedule.loops import MAP_BLOCK, Map, Row, Window, reduced
from edgec.schedule.nest import coefficient
from edgec.schedule.program import Buffer, Kernel
from edgec.schedule.vector import free


@dataclass(frozen=True)
class Loop:
    """A loop as the template writes it."""

    name: str
    extent: int
    depth: int = 0

    @property
    def indent(self) -> str:
        return "  " * self.depth


class View:
    """Names and parameters every kernel has."""

    def __init__(self, kernel: Kernel, name: str, aliases: frozenset[Buffer]) -> None:
        self.kernel = kernel
        self.name = name
        self.buffers = list(kernel.operands)
        self.aliases = aliases  # operands that share memory with the result, on purpose
        self.pointers: dict[object, str] = {b: f"p{k}" for k, b in enumerate(self.buffers[:-1])}
        self.target = "y"

    @property
    def declarations(self) -> dict[str, str]:
        """How each operand is declared as a parameter, by its name."""
        out = self.buffers[-1]
        declared = {
            self.pointers[b]: f"const {STORAGE[b.dtype]} *{'' if b in self.aliases else 'restrict '}"
            for b in self.buffers[:-1]
        }
        return {**declared, self.target: f"{STORAGE[out.dtype]} *{'' if self.aliases else 'restrict '}"}

    @property
    def parameters(self) -> str:
        return ", ".join(f"{kind}{name}" for name, kind in self.declarations.items())

    def tile_interface(self, indices: Iterable[str], lines: Iterable[str]) -> tuple[str, str]:
        """Parameters and arguments of a tile function: the operands and indices its text uses, no others."""
        used = set(re.findall(r"[A-Za-z_]\w*", " ".join(lines)))
        known = {**self.declarations, "panel": "const float *restrict ", **{name: "ec_int " for name in indices}}
        names = [name for name in known if name in used]
        return ", ".join(f"{known[n]}{n}" for n in names), ", ".join(names)

    @property
    def thread_parameters(self) -> str:
        scratch = "unsigned char *scratch_bytes, " if self.kernel.scratch_bytes else ""
        return f"{scratch}ec_int thread, ec_int threads"

    def store_line(self, printer: Printer, address: Expr, value: str, lane: Expr | None, count: str | None) -> str:
        out = self.buffers[-1]
        place = printer.position(address)
        if lane is None:
            if out.dtype in ("f16", "bf16"):
                return f"{self.target}[{place}] = ec_to_{out.dtype}({value});"
            return f"{self.target}[{place}] = {value};"
        stride = coefficient(address, lane)
        tail = f", {count}" if count else ""
        suffix = "_n" if count else ""
        if stride == 1:
            return f"ec_store{suffix}({self.target} + {place}, {value}{tail});"
        return f"ec_scatter{suffix}({self.target} + {place}, {stride}, {value}{tail});"


def _loops(variables: Iterable[Expr], prefix: str = "o") -> dict[Expr, Loop]:
    return {v: Loop(f"{prefix}{k}", v.value.extent) for k, v in enumerate(variables)}


class MapView(View):
    """A map: tasks are blocks of lanes, or single elements of the outer loops."""

    @property
    def params(self) -> Map:
        params: Map = self.kernel.params
        return params

    @cached_property
    def _outer(self) -> dict[Expr, Loop]:
        loops = self.params.loops
        return _loops(loops if self.params.lane is not None else loops[:-1])

    @property
    def outer(self) -> list[Loop]:
        return list(self._outer.values())

    @property
    def lane(self) -> bool:
        return self.params.lane is not None

    @property
    def lane_extent(self) -> int:
        return int(self.params.lane.value.extent) if self.params.lane is not None else 1

    @property
    def lane_block(self) -> int:
        return min(self.lane_extent, MAP_BLOCK)

    @property
    def lane_blocks(self) -> int:
        return -(-self.lane_extent // self.lane_block)

    @property
    def has_tail(self) -> bool:
        return self.lane_extent % 4 != 0 or self.lane_extent % 64 != 0

    @property
    def inner(self) -> Loop | None:
        loops = self.params.loops
        return Loop("j", loops[-1].value.extent) if self.params.lane is None and loops else None

    @property
    def tasks(self) -> int:
        return prod(d.extent for d in self.outer) * (self.lane_blocks if self.lane else 1)

    def _lines(self, count: str | None) -> list[str]:
        p = self.params
        names = {v: d.name for v, d in self._outer.items()}
        if p.lane is not None:
            names[p.lane] = "j"
        elif p.loops:
            names[p.loops[-1]] = "j"
        printer = Printer(names, self.pointers, p.lane, count, depth=3)
        value = printer.vector(p.body) if p.lane is not None else printer.value(p.body)
        return [*printer.lines, f"      {self.store_line(printer, p.address, value, p.lane, count)}"]

    @property
    def full(self) -> list[str]:
        return self._lines(None)

    @property
    def tail(self) -> list[str]:
        return self._lines("count")

    @property
    def scalar(self) -> list[str]:
        return self._lines(None)


class ContractView(View):
    """A contraction: tile functions, and the tasks that sweep them over rows and panels."""

    def __init__(self, kernel: Kernel, name: str, aliases: frozenset[Buffer]) -> None:
        super().__init__(kernel, name, aliases)
        p = self.params
        self.outer = _loops(p.outer)
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
    def n_extent(self) -> int:
        return self.params.n_extent

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
        return self.params.k_extent * self.params.width

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


class WindowView(View):
    """A window: unrolled taps, ``rows`` outputs at once."""

    def __init__(self, kernel: Kernel, name: str, aliases: frozenset[Buffer]) -> None:
        super().__init__(kernel, name, aliases)
        self._outer = _loops(self.params.loops)
        self.names = {v: d.name for v, d in self._outer.items()}
        self.names[self.params.n] = "n"
        if self.params.m.op == "var":
            self.names[self.params.m] = "m"

    @property
    def params(self) -> Window:
        params: Window = self.kernel.params
        return params

    @property
    def outer(self) -> list[Loop]:
        return list(self._outer.values())

    @property
    def tasks(self) -> int:
        return prod(d.extent for d in self.outer)

    @property
    def rows(self) -> int:
        return self.params.rows

    @property
    def m_extent(self) -> int:
        return self.params.m.value.extent if self.params.m.op == "var" else 1

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
        return self.m_extent >= self.rows

    @property
    def rest_rows(self) -> int:
        return self.m_extent % self.rows

    @property
    def indices(self) -> list[str]:
        return [*(d.name for d in self.outer), "m", "n"]

    @cached_property
    def tiles(self) -> list[WindowTile]:
        heights = [h for h in (self.rows if self.full_tiles else 0, self.rest_rows) if h]
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
        start = literal(neutral(combine, "f32"), "f32")
        lines = printer.lines
        lines += [f"  ec_vf c{r} = ec_set1({start});" for r in range(self.rows)]
        for taps in _grid([v.value.extent for v in names]):
            at = {v: X.const(t) for v, t in zip(names, taps)}
            for r in range(self.rows):
                moved = X.substitute(body, at | ({p.m: p.m + r} if p.m.op == "var" else {}))
                lines.append("  " + printer._vector_update(combine, f"c{r}", moved))
        for r in range(self.rows):
            shift = {p.m: p.m + r} if p.m.op == "var" else {}
            accumulated = X.load(("accumulator", r), (X.const(0) + p.n,), "f32")
            printer.define(accumulated, f"c{r}")
            whole = X.substitute(X.substitute(p.body, {p.reduction: accumulated}), shift)
            value = printer.vector(whole)
            lines.append("  " + view.store_line(printer, X.substitute(p.address, shift), value, p.n, count))
        return lines


def _grid(extents: list[int]) -> Iterable[tuple[int, ...]]:
    from itertools import product

    return product(*(range(n) for n in extents))


@dataclass
class Pass:
    """One walk along a row: a reduction, or the result."""

    before: list[str]
    accumulator: str
    neutral: str
    horizontal: str
    full: list[str]
    tail: list[str]
    loops: bool = True


class RowView(View):
    """Rows: one pass a reduction, one for the result; row values needed again are kept in scratch."""

    @property
    def params(self) -> Row:
        params: Row = self.kernel.params
        return params

    @cached_property
    def _outer(self) -> dict[Expr, Loop]:
        return _loops(self.params.loops)

    @property
    def outer(self) -> list[Loop]:
        return list(self._outer.values())

    @property
    def tasks(self) -> int:
        return prod(d.extent for d in self.outer)

    @property
    def extent(self) -> int:
        return int(self.params.row.value.extent)

    @property
    def full(self) -> bool:
        return self.extent >= self.params.lanes

    @property
    def tail(self) -> int:
        return self.extent % self.params.lanes

    @property
    def row_stride(self) -> int:
        return -(-self.extent // 16) * 16

    @property
    def saved(self) -> list[str]:
        return [f"saved{k}" for k in range(len(self.params.saved))]

    @cached_property
    def _plan(self) -> tuple[list[Pass], list[str]]:
        p = self.params
        names = {v: d.name for v, d in self._outer.items()}
        scalars = Printer(names, self.pointers, depth=2, prefix="u")
        for k in range(len(p.reductions)):
            scalars.define(reduced(k), f"r{k}")
        passes: list[Pass] = []
        written: set[Expr] = set()
        for k, (combine, body) in enumerate(p.reductions):
            passes.append(self._pass(f"r{k}", combine, body, scalars, written, names))
        if p.keeps_row:
            passes.append(self._pass("", "", p.result, scalars, written, names))
            return passes, []
        before = len(scalars.lines)
        value = scalars.value(p.result)
        finish = scalars.lines[before:]
        place = scalars.position(p.address)
        return passes, [*finish, f"    {self.target}[{place}] = {value};"]

    def _pass(
        self, name: str, combine: str, body: Expr, scalars: Printer, written: set[Expr], names: dict[Expr, str]
    ) -> Pass:
        p = self.params
        # What does not depend on the row is computed before the loop, by the printer all passes share.
        mark = len(scalars.lines)
        for e in _invariants(body, p.row):
            scalars.define(e, scalars.value(e))
        before = scalars.lines[mark:]
        places = dict(zip(p.saved, self.saved))
        first = [e for e in X.walk(body) if e in places and e not in written]
        texts: list[list[str]] = []
        for count in (None, str(self.tail)):
            printer = Printer({**names, p.row: "j"}, self.pointers, p.row, count, depth=3)
            printer.given.update(scalars.given)
            suffix = "_n" if count else ""
            tail = f", {count})" if count else ")"
            for e in written:
                printer.define(e, f"ec_load{suffix}({places[e]} + j{tail}")
            for e in first:
                text = printer.vector(e)
                printer.lines.append(f"      ec_store{suffix}({places[e]} + j, {text}{tail};")
            if name:
                value = printer.vector(body)
                if count:
                    fill = literal(neutral(combine, "f32"), "f32")
                    live = f"ec_lt(ec_iota(), ec_set1({count}.0f))"
                    value = f"ec_select({live}, {value}, ec_set1({fill}))"
                update = {"add": f"{name}_v + {value}", "mul": f"{name}_v * {value}"}.get(
                    combine, f"ec_{combine}({name}_v, {value})"
                )
                printer.lines.append(f"      {name}_v = {update};")
            else:
                value = printer.vector(body)
                printer.lines.append("      " + self.store_line(printer, p.address, value, p.row, count))
            texts.append(list(printer.lines))
        written.update(first)
        horizontal = {"add": "sum", "mul": "prod"}.get(combine, combine)
        start = literal(neutral(combine, "f32"), "f32") if name else ""
        return Pass(before, name, start, horizontal, *texts)

    @property
    def passes(self) -> list[Pass]:
        return self._plan[0]

    @property
    def finish(self) -> list[str]:
        return self._plan[1]


def _invariants(body: Expr, row: Expr) -> list[Expr]:
    """The largest float sub-expressions that do not depend on the row and are worth a name."""
    found: list[Expr] = []
    seen: set[Expr] = set()
    stack = [body]
    while stack:
        e = stack.pop()
        if e in seen or e.dtype == "i64":
            continue
        seen.add(e)
        if row not in free(e):
            if e.op not in ("const",) and e.dtype == "f32":
                found.append(e)
            continue
        stack.extend(a for a in e.args if e.op != "load")
    return found


VIEWS = {"map": MapView, "contract": ContractView, "window": WindowView, "row": RowView}
__all__ = ["VIEWS", "ContractView", "Loop", "MapView", "RowView", "View", "WindowView", "index"]

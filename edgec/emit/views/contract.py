"""Contractions as their template sees them: tile functions, and the tasks that sweep them over rows and panels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

from edgec.emit.c_expression import Printer, extent_text
from edgec.emit.c_lanes import access
from edgec.emit.c_literal import STORAGE
from edgec.emit.views.base import Loop
from edgec.emit.views.epilogue import on_vectors
from edgec.emit.views.packing import PackingView
from edgec.ir import expr as X
from edgec.ir.expr import Expr, Extent
from edgec.ir.nest import coefficient, extent
from edgec.ir.types import CODED
from edgec.schedule.contract import walked_as_one
from edgec.schedule.products import WORD, Words
from edgec.schedule.program import Buffer, Kernel
from edgec.schedule.storage import memory_type

#: The sign bits of the four bytes of a word.
SIGN_BITS = "(-2139062144)"


class ContractView(PackingView):
    """A contraction: tile functions, and the tasks that sweep them over rows and panels."""

    def __init__(self, kernel: Kernel, name: str, aliases: frozenset[Buffer]) -> None:
        super().__init__(kernel, name, aliases)
        self.panel_type = f"const {self.unit} *restrict "

    # ---- facts the template writes down

    @property
    def steps(self) -> list[Step]:
        """What stands in the innermost place of the loops around a sum: its own loop, and the bytes left over."""
        words = self.params.words
        inner = self.sum_loops[-1] if self.sums else None
        if words is None:
            return [Step(inner)]
        whole = [Step(inner if words.whole > 1 else None, words.size)] if words.whole else []
        return whole + ([Step(None, words.rest)] if words.rest else [])

    @property
    def sum_indent(self) -> str:
        return "  " * (len(self.sums) - 1)

    @property
    def unit(self) -> str:
        """What a panel is made of: a number, four bytes or a pair of bf16 a lane."""
        if self.words is not None:
            return "int32_t"
        return STORAGE[self.panel_dtype]

    @property
    def panel_dtype(self) -> str:
        return self.params.packed.dtype if self.params.packed is not None else "f32"

    @property
    def vector(self) -> str:
        """The type of what is multiplied."""
        return "ec_vi" if self.words is not None else "ec_vf"

    @property
    def columns(self) -> str:
        """The type of what a vector of L is multiplied as: blocks are read where they lie."""
        return "int32_t *" if self.has_blocks else self.vector

    @property
    def has_blocks(self) -> bool:
        return self.words is not None and self.words.are_blocks

    @property
    def step_width(self) -> int:
        """How far the panel goes on with every step of the sum."""
        return self.width * (self.words.rows if self.words is not None else 1)

    @property
    def total(self) -> str:
        """The type of what products are added up in."""
        if self.has_blocks:
            return "ec_sums"
        return "ec_vi" if self.has_starts else "ec_vf"

    @property
    def has_starts(self) -> bool:
        """Does a panel begin with what accumulators start at?"""
        return self.words is not None and self.words.are_bytes

    @property
    def lanes(self) -> int:
        return self.params.lanes

    @property
    def rows(self) -> int:
        """Results of a tile along m; where they are pooled, each of them is several sums."""
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
    def streams(self) -> bool:
        """Are there more packed weights than a first-level cache holds, so that it pays to ask for them early?"""
        p = self.params
        return p.packed is not None and p.packed.bytes > 1 << 15

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
        panel, chunk = Loop("panel_index", p.panels), Loop("chunk", p.chunks)
        # As the result lies in memory: threads then share out rows of it, like the kernels before and after.
        steps = {self.outer[v]: coefficient(p.address, v) or 0 for v in p.outer if v not in p.panel_outer}
        steps[chunk] = coefficient(p.address, p.m) or 0 if p.m.op == "var" else 0
        rows = sorted(steps, key=lambda d: -steps[d])
        return [*around, panel, *rows] if p.panel_first else [*around, *rows, panel]

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

    # ---- sums for cores that run instructions in order

    @property
    def in_order(self) -> bool:
        return self.params.in_order

    @property
    def suffix(self) -> str:
        return "_i" if self.words is not None else ""

    @property
    def pairs_outer(self) -> list[Loop]:
        """The loops of the sum around the one that is taken in pairs."""
        return self.sum_loops[: len(self.sums) - walked_as_one(self.params.s, self.params.k)]

    @property
    def pairs_loop(self) -> Loop:
        """The loop that is taken in pairs of steps: all those together that S walks as one."""
        inner = self.sum_loops[len(self.pairs_outer) :]
        return Loop(inner[-1].name, prod(int(d.extent) for d in inner), len(self.pairs_outer))

    @property
    def pairs_end(self) -> int:
        return int(self.pairs_loop.extent) // 2 * 2

    @property
    def has_odd_step(self) -> bool:
        return int(self.pairs_loop.extent) % 2 == 1

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
    def more_arguments(self) -> tuple[str, ...]:
        """What a call of a tile function passes behind what the function's text needs."""
        return ()

    @property
    def calls(self) -> list[Call]:
        """Which tile functions the panel and the row tile at hand need."""
        p = self.params
        full, panels_full = X.plain(p.m_extent // p.rows), X.plain(p.n_extent // p.width)
        calls = []
        for k, rows in enumerate(self._heights):
            for vectors, live in self._widths:
                (t,) = (t for t in self.tiles if (t.height, t.vectors, t.live) == (rows, vectors, live))
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
                calls.append(Call(condition + sweep, f"{t.name}({', '.join([arguments, *self.more_arguments])})"))
        return calls


@dataclass(frozen=True)
class Step:
    """What is done once for every round of ``loop`` (None: once): of bytes, ``live`` ones at a time."""

    loop: Loop | None
    live: int = 0


@dataclass(frozen=True)
class Column:
    """One column of a tile of vectors in one of the steps that are written out: which of all, and is it the last?"""

    number: int
    step: int
    vector: int
    is_last: bool


def _dot(words: Words) -> str:
    if not words.are_bytes:
        return "ec_dot_bf16"
    return "ec_dot_ss" if words.is_signed else "ec_dot_us"


@dataclass(frozen=True)
class Call:
    """A call of a tile function, and when it is made."""

    condition: str
    call: str


class Tile:
    """One unrolled tile: ``height`` results (``rows`` sums) x ``vectors``.

    Of the last vector ``live`` lanes exist (None: ``count`` of them).
    """

    def __init__(self, view: ContractView, height: int, vectors: int, live: int | None) -> None:
        self.view, self.height, self.vectors, self.live = view, height, vectors, live
        p = view.params
        self.rows = height * p.sums
        suffix = "" if live == p.lanes else "_n" if live is None else f"_{live}"
        self.name = f"{view.name}_{height}x{vectors}{suffix}"
        self.hoisted: list[str] = []
        self._pointer: tuple[str, dict[Expr, int]] | None = None
        if p.s.op == "load" and p.s.value in view.pointers:
            self._hoist()

    def _at(self, r: int) -> dict[Expr, int]:
        """Where in the tile a sum stands: how far along m, and where in its window."""
        p = self.view.params
        place, inside = divmod(r, p.sums)
        found = {p.m: place} if p.m.op == "var" else {}
        for v in reversed(p.window):
            inside, found[v] = divmod(inside, int(v.value.extent))
        return found

    def _sums(self, m: int) -> range:
        """The sums of one result."""
        return range(m * self.view.params.sums, (m + 1) * self.view.params.sums)

    def _hoist(self) -> None:
        """Point at the first element of S; the loops of the sum then add constants alone."""
        p = self.view.params
        address = p.s.args[0]
        steps = {v: coefficient(address, v) for v in (*p.k, *p.window, p.m) if v.op == "var"}
        if any(c is None for c in steps.values()):
            return
        start = X.substitute(address, {v: X.const(0) for v in (*p.k, *p.window)})
        text = Printer(self.view.names, self.view.pointers).position(start)
        pointer = self.view.pointers[p.s.value]
        self.hoisted = [f"const {STORAGE[memory_type(p.s)]} *s = {pointer} + {text};"]
        self._pointer = ("s", {v: c for v, c in steps.items() if c is not None})

    @cached_property
    def interface(self) -> tuple[str, str]:
        lines = [*self.hoisted, *self.epilogue, *(self.lanes(v) for v in range(self.vectors))]
        lines += [extent_text(loop.extent) for loop in self.view.sum_loops]
        for r in range(self.rows):
            for step in self.view.steps:
                lines += [*self.broadcast_lines(r), self.broadcast(r, step)]
        return self.view.tile_interface(self.view.indices, lines)

    @property
    def parameters(self) -> str:
        return self.interface[0]

    def accumulators(self, r: int) -> str:
        start = [self._starts(v) if self.view.has_starts else "ec_set1(0.0f)" for v in range(self.vectors)]
        return ", ".join(f"c{r}_{v} = {text}" for v, text in enumerate(start))

    def _starts(self, v: int) -> str:
        p = self.view.params
        return f"ec_sums_from(panel + {v * p.lanes})" if self.view.has_blocks else self.lanes(v)

    def _count(self, v: int) -> str | None:
        whole = self.live == self.view.params.lanes
        return None if v < self.vectors - 1 or whole else str(self.live) if self.live is not None else "count"

    def lanes(self, v: int) -> str:
        p = self.view.params
        if self.view.has_blocks:
            return f"panel + {v * p.lanes * self.view.step_width // self.view.width}"
        if self.view.uses_panel:
            load = access("load", "i32" if p.words is not None else self.view.panel_dtype, None)
            return f"{load}(panel + {v * p.lanes})" if v else f"{load}(panel)"
        shifted = X.substitute(p.l, {p.n: p.n + v * p.lanes})
        return Printer(self.view.names, self.view.pointers, p.n, self._count(v))._text(shifted)

    def update(self, r: int, v: int) -> str:
        """One step of the sum on accumulators."""
        words = self.view.words
        if words is None:
            return f"ec_fma(s{r}, l{v}, c{r}_{v})"
        return f"{'ec_dot_blocks' if words.are_blocks else _dot(words)}(c{r}_{v}, s{r}, l{v})"

    def row_total(self, r: int, step: Step) -> str:
        """The bytes of S added up, those alone that exist."""
        words = self.view.words
        assert words is not None
        return f"{_dot(words)}(total{r}, s{r}, ec_set1_i({0x01010101 >> 8 * (WORD - step.live):#x}))"

    def columns(self, steps: int) -> list[Column]:
        """The columns of the tile in so many steps of the innermost loop, in the order they are multiplied."""
        return [Column(j, *divmod(j, self.vectors), j == steps * self.vectors - 1) for j in range(steps * self.vectors)]

    def place_of(self, column: int) -> int:
        """Where in the panel a column of L lies, from the first of the step at hand on."""
        step, vector = divmod(column, self.vectors)
        return step * self.view.width + vector * self.view.lanes

    def update_lane(self, r: int, column: Column) -> str:
        """Products of a column of L with one of the two of S that a row has ready."""
        to = f"c{r}_{column.vector}"
        if self.view.words is not None:
            return f"{_dot(self.view.words)}_lane({to}, s{r}, {column.step}, l{column.number % 2})"
        return f"ec_fma_lane(s{r}, {column.step}, l{column.number % 2}, {to})"

    def two(self, r: int, is_first: bool, load: str = "ec_low") -> str:
        """Two steps of S of one row, those at the head of the loop that is taken in pairs or where it stands."""
        k = self.view.params.k
        loops = k[: len(self.view.pairs_outer)] + (() if is_first else k[-1:])
        load += self.view.suffix
        text = f"{load}(s + {self._place(r, loops)})"
        return f"ec_turned({text})" if self.view.words is not None and self.view.words.flip else text

    def _place(self, r: int, loops: tuple[Expr, ...], offset: int = 0) -> str:
        """Where S is read inside loops of the sum, from its first element on."""
        assert self._pointer is not None
        _, steps = self._pointer
        parts = [f"{self.view.names[v]} * {steps[v]}" if steps[v] != 1 else self.view.names[v]
                 for v in loops if v.op == "var" and steps[v]]  # fmt: skip
        offset += sum(far * steps[v] for v, far in self._at(r).items())
        if offset or not parts:
            parts.append(str(offset))
        return " + ".join(parts)

    def broadcast_lines(self, r: int) -> list[str]:
        """What is computed before S is broadcast."""
        return self._computed(r)[0] if self._pointer is None else []

    def broadcast(self, r: int, step: Step) -> str:
        """S of one row in all lanes."""
        if step.live:
            return self._word(r, step)
        if self._pointer is None:
            return f"ec_set1({self._computed(r)[1]})"
        lies, element = memory_type(self.view.params.s), f"s[{self._place(r, self.view.params.k)}]"
        return f"ec_set1({f'ec_from_{lies}({element})' if lies in CODED else element})"

    def _computed(self, r: int) -> tuple[list[str], str]:
        p = self.view.params
        shifted = X.substitute(p.s, {v: v + far if v is p.m else X.const(far) for v, far in self._at(r).items()})
        printer = Printer(self.view.names, self.view.pointers, depth=0, prefix=f"a{r}_")
        text = printer.value(shifted)
        return printer.lines, text

    def _word(self, r: int, step: Step) -> str:
        words = self.view.words
        assert words is not None
        loops, first, size = self.view.params.k, 0, words.size
        if step.live < size:  # the last word stands behind the loop over the others
            loops, first = loops[:-1], words.whole * size * words.step
        if words.are_blocks:
            place = f"s + {self._place(r, loops, first)}"
            text = f"ec_block({place})" if step.live == size else f"ec_block_first({place}, {step.live})"
        elif words.step == 1 and step.live == size:
            text = f"ec_word(s + {self._place(r, loops, first)})"
        elif not words.are_bytes:
            both = [f"s[{self._place(r, loops, first + b * words.step)}]" for b in range(step.live)]
            text = f"ec_pair_of({', '.join([*both, *['0'] * (size - step.live)])})"
        elif words.step == 1 and words.whole:
            text = f"ec_word_last(s + {self._place(r, loops, first + step.live - WORD)}, {step.live})"
        else:
            bytes_ = [f"s[{self._place(r, loops, first + b * words.step)}]" for b in range(step.live)]
            text = f"ec_word_of({', '.join([*bytes_, *['0'] * (WORD - step.live)])})"
        return f"{text} ^ ec_set1_i({SIGN_BITS})" if words.flip else text

    def _lanes_of(self, r: int, v: int) -> str:
        """A complete sum, on lanes."""
        return f"ec_lanes_of(c{r}_{v})" if self.view.has_blocks else f"c{r}_{v}"

    @cached_property
    def epilogue(self) -> list[str]:
        p, view = self.view.params, self.view
        lines: list[str] = []
        if p.words is not None and p.words.column_offset:
            for r in range(self.rows):
                lines += [f"  c{r}_{v} = ec_add_i(c{r}_{v}, ec_mul_i(total{r}, ec_set1_i({p.words.column_offset})));"
                          for v in range(self.vectors)]  # fmt: skip
        # Whole vectors share one printer, so that a bias is loaded once for all rows.
        for v in range(self.vectors):
            count = self._count(v)
            printer = Printer(view.names, view.pointers, p.n, count, prefix=f"e{v}_")
            for m in range(self.height):
                names = {tuple(self._at(r)[w] for w in p.window): self._lanes_of(r, v) for r in self._sums(m)}
                change = {p.n: p.n + v * p.lanes} | ({p.m: p.m + m} if p.m.op == "var" else {})
                body = on_vectors(printer, X.substitute(p.epilogue, change), p.n, names.__getitem__)
                value = printer.to_store(body)
                address = X.substitute(p.address, change)
                printer.lines.append(f"  {view.store_line(printer, address, value, p.n, count)}")
            lines += printer.lines
        return lines

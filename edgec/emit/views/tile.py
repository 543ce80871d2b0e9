"""One unrolled register tile of a contraction, as C lines: loads, the steps of the sum, and stores."""

from __future__ import annotations

from functools import cached_property

from edgec.emit.c_expression import Printer, extent_text
from edgec.emit.c_lanes import access
from edgec.emit.c_literal import STORAGE
from edgec.emit.c_text import advanced
from edgec.emit.views.base import Loop
from edgec.emit.views.epilogue import HalfEnd, on_vectors
from edgec.emit.views.sums import Step, SumsView
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.nest import coefficient, is_fixed, most
from edgec.ir.types import CODED, DTYPES
from edgec.schedule.contract.fp16_sums import COLUMNS
from edgec.schedule.contract.int8_dot import WORD
from edgec.schedule.storage import memory_type

#: Multiply-adds of an unrolled loop in a tile of one vector, at most: GCC 12 takes 0.5 s for 240, 5 s for 320.
MOST_ALONE = 256
#: Bytes beyond which prefetchers do not go, and of a line of the cache.
PAGE, LINE = 4096, 64
#: Bytes of an L beyond which it comes from memory, or from a cache that cores share.
FAR = 1 << 20
#: Bytes of an S beyond which the first-level cache does not hold it from one panel to the next.
BEYOND_FIRST = 1 << 16
#: Steps of a sum between the terms of S that are multiplied and those that are asked for.
STEPS_AHEAD = 8
#: The sign bits of the four bytes of a word.
SIGN_BITS = "(-2139062144)"


class Tile:
    """One unrolled tile: ``height`` results (``rows`` sums) x ``vectors``.

    The last vector has ``live`` valid lanes; None: a number that is known at run time (``count`` in C).
    """

    def __init__(self, view: SumsView, height: int, vectors: int, live: int | None) -> None:
        self.view, self.height, self.vectors, self.live = view, height, vectors, live
        p = view.params
        self.rows = height * p.sums
        suffix = "" if live == p.lanes else "_n" if live is None else f"_{live}"
        self.name = f"{view.name}_{height}x{vectors}{suffix}"
        self.hoisted: list[str] = []
        self._pointer: tuple[str, dict[Expr, int]] | None = None
        if p.s.op == "load" and p.s.value in view.pointers and not p.ahead:
            self._hoist()

    def _at(self, r: int) -> dict[Expr, int]:
        """The position of sum ``r`` of the tile: along m, and in its pooling window."""
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
        """Declare a pointer to the first element of S, so that the loops of the sum add only constants to it."""
        p = self.view.params
        address = p.s.args[0]
        steps = {v: coefficient(address, v) for v in (*p.k, *p.window, p.m) if v.op == "var"}
        if any(c is None for c in steps.values()):
            return
        start = X.substitute(address, {v: X.const(0) for v in (*p.k, *p.window)})
        text = Printer(self.view.names, self.view.pointers).position(start)
        pointer = self.view.pointers[p.s.value]
        self.hoisted = [f"const {STORAGE[memory_type(p.s)]} *s = {advanced(pointer, text)};"]
        self._pointer = ("s", {v: c for v, c in steps.items() if c is not None})

    @cached_property
    def interface(self) -> tuple[str, str]:
        lines = [*self.hoisted, *self.epilogue]
        for v in range(self.vectors):
            lines += [*self.lane_lines(v), self.lanes(v)]
        lines += [*self.requested, *(extent_text(loop.extent) for loop in self.view.sum_loops)]
        for r in range(self.rows):
            lines += [*self.ahead(r)]
            for step in self.view.steps:
                lines += [*self.broadcast_lines(r), self.broadcast(r, step)]
        return self.view.tile_interface(self.view.indices, lines)

    @property
    def parameters(self) -> str:
        return self.interface[0]

    @property
    def groups(self) -> list[int]:
        """The first of the rows that one step multiplies: every row, or every second one for matrix instructions."""
        return [*range(0, self.rows, self.view.micro.rows)]

    def accumulators(self, r: int) -> str:
        return ", ".join(f"c{r}_{v} = {self._start(v)}" for v in range(self.vectors))

    def _start(self, v: int) -> str:
        micro = self.view.micro
        if not micro.has_starts:
            return micro.zero
        return micro.initial.format(l=self._starts(v))

    def _starts(self, v: int) -> str:
        """The initial values of a vector of accumulators: as a vector, or as their address in the panel."""
        place = f"panel + {v * self.view.params.lanes}" if v else "panel"
        return f"ec_load_i32({place})" if self.view.micro.sums_on_lanes else f"panel + {v * self.view.params.lanes}"

    def _count(self, v: int) -> str | None:
        whole = self.live == self.view.params.lanes
        return None if v < self.vectors - 1 or whole else str(self.live) if self.live is not None else "count"

    @property
    def half_vectors(self) -> int:
        """Number of fp16 vectors: each has the lanes of two fp32 vectors; the last may be half used."""
        return -(-self.vectors // COLUMNS)

    def half_lanes(self, v: int) -> str:
        return f"ec_load_h(panel{f' + {v * COLUMNS * self.view.params.lanes}' if v else ''})"

    def half_broadcast(self, r: int) -> str:
        """An element of S in fp16, broadcast to all lanes."""
        return f"ec_half(s + {self._place(r, self.view.params.k)})"

    @property
    def places(self) -> list[tuple[int, int]]:
        """(row, vector) of all fp32 accumulators."""
        return [(r, v) for r in range(self.rows) for v in range(self.vectors)]

    @property
    def at_once(self) -> int:
        """Number of vectors that are widened from fp16 before the first is added to its accumulator."""
        return 6

    def waits(self, r: int, v: int) -> int:
        """The index in memory of an fp32 accumulator while a partial sum is computed in fp16."""
        return (r * self.vectors + v) * self.view.lanes

    def widened(self, r: int, v: int) -> str:
        """A vector of fp32, widened from a partial sum in fp16."""
        return f"ec_{'high' if v % COLUMNS else 'low'}_floats(h{r}_{v // COLUMNS})"

    def lanes(self, v: int) -> str:
        p = self.view.params
        if self.view.columns.endswith("*"):
            return f"panel + {v * p.lanes * self.view.step_width // self.view.width}"
        if self.view.uses_panel:
            load = access("load", "i32" if p.dots is not None else self.view.panel_dtype, None)
            text = f"{load}(panel + {v * p.lanes})" if v else f"{load}(panel)"
            return text if p.magnitudes is None or self._has_both else self._magnitudes(text, p.magnitudes)
        return self._direct(v)[1]

    def lane_lines(self, v: int) -> list[str]:
        """Lines that compute where L lies in memory, where its place is data."""
        return [] if self.view.columns.endswith("*") or self.view.uses_panel else self._direct(v)[0]

    def _direct(self, v: int) -> tuple[list[str], str]:
        """A vector of L, read where it lies in memory, and the lines before."""
        p = self.view.params
        printer = Printer(self.view.names, self.view.pointers, p.n, self._count(v), depth=0, prefix=f"b{v}_")
        text = printer.text(X.substitute(p.l, {p.n: p.n + v * p.lanes}))
        return printer.lines, text

    @property
    def _has_both(self) -> bool:
        """Is the first row of the tile multiplied by L, and the second one by its magnitudes?"""
        p = self.view.params
        return p.magnitudes is not None and p.magnitudes is p.m and self.rows == 2

    def _magnitudes(self, vector: str, where: Expr) -> str:
        """A vector of L without its signs, where it is to have none."""
        return f"ec_abs({vector})" if where.op == "const" else f"ec_abs_if({self.view.names[where]}, {vector})"

    def unrolls(self, loop: Loop) -> bool:
        """Is the compiler asked to unroll this innermost loop of the sum completely?

        Of a tile of one vector every broadcast has one use, and GCC tries to join all of them with all others.
        """
        steps = loop.extent if isinstance(loop.extent, int) else 0
        return self.view.unrolls(loop) and (self.vectors > 1 or self.rows * steps <= MOST_ALONE)

    @cached_property
    def asks_across(self) -> bool:
        """Does L lie in place, too large for near caches, its rows too far apart for hardware to ask for the next?"""
        p, inner = self.view.params, self.view.params.k[-1:]
        if p.l_mode != "direct" or p.l.op != "load" or not inner or inner[0].op != "var":
            return False
        size = DTYPES[memory_type(p.l)].itemsize
        step = coefficient(p.l.args[0], inner[0]) or 0
        return step * size >= PAGE // 4 and p.l.value.bytes > FAR and size == 4 and not self.view.columns.endswith("*")

    def across(self, v: int) -> list[str]:
        """The address of a vector of L in this step of the next panel, to prefetch if it may begin a cache line."""
        p = self.view.params
        if not self.asks_across or v * p.lanes % self.view.line:
            return []
        place = X.substitute(p.l.args[0], {p.n: p.n + (self.vectors + v) * p.lanes})
        return [advanced(self.view.pointers[p.l.value], Printer(self.view.names, self.view.pointers).position(place))]

    @cached_property
    def terms_ahead(self) -> list[str]:
        """The addresses of the terms of S some steps ahead, the first and the last row's, to prefetch: of rows that are
        neighbors in memory, where terms lie so far apart that no hardware asks for them."""
        p = self.view.params
        if self._pointer is None or p.dots is not None or p.window or not p.k:
            return []
        inner = p.k[-1]
        if inner.op != "var" or not is_fixed(inner):
            return []
        size, steps = DTYPES[memory_type(p.s)].itemsize, self._pointer[1]
        step, across = steps[inner] * size, abs(steps.get(p.m, 0)) * size * (self.rows - 1)
        is_far = abs(step) >= PAGE // 4 and across < LINE and p.s.value.bytes > BEYOND_FIRST
        if not is_far or most(inner) < 4 * STEPS_AHEAD or len(self.places) < STEPS_AHEAD:
            return []
        ends = dict.fromkeys((0, self.rows - 1))
        return [f"s + {self._place(r, p.k, STEPS_AHEAD * steps[inner])}" for r in ends]

    def prefetched(self, v: int) -> list[str]:
        """The address in the panel to prefetch with vector ``v`` of L, if that begins a cache line."""
        place = v * self.view.params.lanes * self.view.micro.columns
        if not self.view.streams or place % self.view.line:
            return []
        return [f"EC_AHEAD + {place}" if v else "EC_AHEAD"]

    @cached_property
    def requested(self) -> list[str]:
        """The addresses of what the epilogue reads in rows so far apart that no hardware asks for them early."""
        p, found = self.view.params, list[str]()
        for load in dict.fromkeys(e for e in X.loads(p.result) if e.args and e.value in self.view.pointers):
            far = coefficient(load.args[0], p.m) if p.m.op == "var" else 0
            if not X.free_variables(load.args[0]) <= {*self.view.names}:  # of a sum inside
                continue
            if coefficient(load.args[0], p.n) != 1 or (far or 0) * DTYPES[memory_type(load)].itemsize < PAGE:
                continue
            printer = Printer(self.view.names, self.view.pointers)
            for m in range(self.height):
                for v in range(self.vectors):
                    place = X.substitute(load.args[0], {p.m: p.m + m, p.n: p.n + v * p.lanes})
                    found.append(advanced(self.view.pointers[load.value], printer.position(place)))
        return found

    def update(self, r: int, v: int) -> str:
        """The accumulator after one step of the sum, as a C expression."""
        l = f"ec_abs(l{v})" if self._has_both and r else f"l{v}"
        return self.view.micro.update.format(c=f"c{r}_{v}", s=f"s{r}", l=l)

    def row_total(self, r: int, step: Step) -> str:
        """The sum of the valid bytes of S, accumulated with the same instruction."""
        ones = f"ec_set1_i({0x01010101 >> 8 * (WORD - step.live):#x})"
        return self.view.micro.update.format(c=f"total{r}", s=f"s{r}", l=ones)

    def _place(self, r: int, loops: tuple[Expr, ...], offset: int = 0) -> str:
        """The offset of an element of S, relative to the pointer, inside loops of the sum."""
        assert self._pointer is not None
        _, steps = self._pointer
        parts = [f"{self.view.names[v]} * {steps[v]}" if steps[v] != 1 else self.view.names[v]
                 for v in loops if v.op == "var" and steps[v]]  # fmt: skip
        offset += sum(far * steps[v] for v, far in self._at(r).items())
        if offset or not parts:
            parts.append(str(offset))
        return " + ".join(parts)

    def ahead(self, r: int, count: str | None = None) -> list[str]:
        """Lines that compute elements of a row of S from ``at`` on: a vector, or its first ``count``."""
        p = self.view.params
        if not p.ahead:
            return []
        inner = p.k[-1]
        names = {**self.view.names, inner: "at"}
        printer = Printer(names, self.view.pointers, inner, count, depth=0, prefix=f"a{r}_")
        value = printer.vector(self._shifted(r))
        return [*printer.lines, f"ec_store(ahead + {r * p.ahead} + (at - from), {value});"]

    def broadcast_lines(self, r: int) -> list[str]:
        """Lines that compute S before it is broadcast."""
        return self._computed(r)[0] if self._pointer is None and not self.view.params.ahead else []

    def broadcast(self, r: int, step: Step) -> str:
        """The elements of S of one row and step, broadcast to all lanes."""
        if step.live:
            return self._word(r, step)
        if self.view.params.ahead:
            return f"ec_set1(ahead[{r * self.view.params.ahead} + ({self.view.names[self.view.params.k[-1]]} - from)])"
        if self._pointer is None:
            return f"ec_set1({self._computed(r)[1]})"
        lies, element = memory_type(self.view.params.s), f"s[{self._place(r, self.view.params.k)}]"
        return f"ec_set1({f'ec_from_{lies}({element})' if lies in CODED else element})"

    def _computed(self, r: int) -> tuple[list[str], str]:
        printer = Printer(self.view.names, self.view.pointers, depth=0, prefix=f"a{r}_")
        text = printer.value(self._shifted(r))
        return printer.lines, text

    def _shifted(self, r: int) -> Expr:
        """An element of S of sum ``r``."""
        p = self.view.params
        return X.substitute(p.s, {v: v + far if v is p.m else X.const(far) for v, far in self._at(r).items()})

    def _word(self, r: int, step: Step) -> str:
        """The elements of S for a step of several elements (of ``tall`` rows), or for the remainder."""
        dots, micro = self.view.dots, self.view.micro
        assert dots is not None
        loops, first, is_whole = self.view.params.k, 0, step.live == micro.size
        if not is_whole:  # the remainder comes after the loop over whole steps
            loops, first = loops[:-1], dots.whole * micro.size * dots.step
        rows = [min(r + i, self.rows - 1) for i in range(micro.rows)]
        places = [f"s + {self._place(row, loops, first)}" for row in rows]
        if dots.step == 1 and is_whole:
            text = f"{micro.read}({', '.join(places)})"
        elif micro.read_partial:
            text = f"{micro.read_partial}({', '.join([*places, str(step.live)])})"
        elif micro.read_last and dots.step == 1 and dots.whole:
            text = f"{micro.read_last}(s + {self._place(r, loops, first + step.live - micro.size)}, {step.live})"
        else:
            elements = [f"s[{self._place(r, loops, first + b * dots.step)}]" for b in range(step.live)]
            text = f"{micro.gather}({', '.join([*elements, *['0'] * (micro.size - step.live)])})"
        return f"{text} ^ ec_set1_i({SIGN_BITS})" if dots.flip else text

    def _lanes_of(self, r: int, v: int) -> str:
        """A complete sum as a vector with one result per lane."""
        number, row = divmod(r, self.view.micro.rows)
        return self.view.micro.finish.format(c=f"c{number * self.view.micro.rows}_{v}", row=row)

    @cached_property
    def epilogue(self) -> list[str]:
        p, view = self.view.params, self.view
        lines: list[str] = []
        if p.fp16 is not None and p.fp16.end is not None:
            whole = (self.vectors - 1) * p.lanes + (self.live or 0)
            at = {v: {p.n: p.n + v * COLUMNS * p.lanes} for v in range(self.half_vectors)}
            for v, moved in at.items():
                ready = HalfEnd(view, f"e{v}_", p.fp16.end, moved, whole - v * COLUMNS * p.lanes)
                lines += ready.operands
                for m in range(self.height):
                    lines.append(ready.stored(f"h{m}_{v}", moved | ({p.m: p.m + m} if p.m.op == "var" else {})))
            return lines
        if p.dots is not None and p.dots.column_offset:
            for r in range(self.rows):
                lines += [f"  c{r}_{v} = ec_add_i(c{r}_{v}, ec_mul_i(total{r}, ec_set1_i({p.dots.column_offset})));"
                          for v in range(self.vectors)]  # fmt: skip
        # Whole vectors share one printer, so that a bias is loaded once for all rows.
        for v in range(self.vectors):
            count = self._count(v)
            printer = Printer(view.names, view.pointers, p.n, count, prefix=f"e{v}_")
            result, place = (X.substitute(e, {p.n: p.n + v * p.lanes}) for e in (p.result, p.address))
            for m in range(self.height):
                names = {tuple(self._at(r)[w] for w in p.window): self._lanes_of(r, v) for r in self._sums(m)}
                change = {p.m: p.m + m} if p.m.op == "var" else {}
                body = on_vectors(printer, X.substitute(result, change), p.n, names.__getitem__)
                value = printer.to_store(body)
                address = X.substitute(place, change)
                printer.lines.append(f"  {view.store_line(printer, address, value, p.n, count)}")
            lines += printer.lines
        return lines

"""Panels of a contraction that are packed when it runs: what is read for each of their elements, and where it goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from edgec.emit.c_expression import Printer, extent_text
from edgec.emit.c_text import advanced
from edgec.emit.views.base import Loop, View, numbered
from edgec.ir import expr as X
from edgec.ir.expr import Extent
from edgec.ir.nest import extent
from edgec.schedule.contract.contract import Contract
from edgec.schedule.contract.int8_dot import WORD, DotGroup
from edgec.schedule.program import Buffer, Kernel


class PackingView(View):
    """Loops of a contraction by their names in C, and the packing of a panel."""

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
        schedule = self.kernel.schedule
        assert isinstance(schedule, Contract)
        return schedule

    @property
    def all_sums(self) -> list[Loop]:
        return list(self.sums.values())

    @property
    def passes(self) -> bool:
        """Does each part of a sum pass over several tasks, so that the loops around parts are around tasks?"""
        return self.params.together > 0

    @property
    def sum_loops(self) -> list[Loop]:
        """The loops of the sum in a tile, and in a panel that is packed at run time."""
        parts = self.params.parts
        return self.all_sums[parts.split :] if self.passes and parts is not None else self.all_sums

    @property
    def outer_sums(self) -> list[Loop]:
        return self.sum_loops[:-1]

    @property
    def dots(self) -> DotGroup | None:
        return self.params.dots

    @property
    def width(self) -> int:
        return self.params.width

    @property
    def is_whole(self) -> bool:
        """Are all panels full of columns?"""
        n = self.params.n_extent
        return isinstance(n, int) and n % self.width == 0

    def _gather(self) -> tuple[list[str], str]:
        p = self.params
        inside = [] if self.is_whole else ["j < width"]
        names = {v: t for v, t in self.names.items() if v is not p.n} | {p.n: "(n + j)"}
        if p.dots is not None:
            names |= {p.dots.inner: "w"} if p.dots.inner.op == "var" else {}  # a sum of one term has no loop
            inside += [f"w < {extent(p.dots.inner)}"] if p.dots.rest else []
        printer = Printer(names, self.pointers, depth=len(self.sums) + 2)
        guarded = p.l
        if inside:
            guarded = X.select(X.load("inside", (), "bool"), p.l, X.const(0, p.l.dtype))
            printer.define(X.load("inside", (), "bool"), " && ".join(inside))
        value = printer.value(guarded)
        return [line.strip() for line in printer.lines], value

    @property
    def block_call(self) -> str:
        """C that packs the terms along the innermost loop of a sum in blocks; "" for element by element."""
        p, blocks = self.params, self.params.blocks
        if blocks is None:
            return ""
        live = str(self.width) if self.is_whole else "(int)width"
        around = self.packed_around
        is_cut = self.passes and not around  # a block is as long as a part
        names = self.names | ({blocks.inner[0]: "part"} if is_cut else {})
        place = Printer(names, self.pointers).position(
            X.substitute(blocks.load.args[0], {v: X.const(0) for v in blocks.inner[is_cut:]})
        )
        first = advanced(self.pointers[blocks.load.value], place)
        if p.dots is None:
            below = X.plain(prod(extent(v) for v in blocks.inner[1:]))
            rounds = "(stop - part)" if is_cut else extent_text(extent(blocks.inner[0]))
            terms = rounds if below == 1 else f"{rounds} * {extent_text(below)}"
            each = extent_text(X.plain(prod(extent(v) for v in blocks.inner)))
            to = f"scratch + {self._from_part(around)} * {each} * {self.width}" if around else "scratch"
            if blocks.stride is None:
                return f"ec_pack_columns({to}, {first}, columns, {blocks.step}, {terms}, {self.width})"
            return f"ec_pack_floats({to}, {first}, {blocks.step}, {blocks.stride}, {terms}, {self.width}, {live})"
        terms = extent_text(extent(blocks.inner[0]))
        row = f"({self.sum_position} * {p.dots.count} + 1)" if self.outer_sums else "1"
        totals = "scratch" if p.dots.row_offset else "NULL"
        return (
            f"ec_pack_words(scratch + {row} * {self.width}, {totals}, {first}, "
            f"{blocks.step}, {blocks.stride}, {terms}, {self.width}, {live}, {int(blocks.flip)})"
        )

    @property
    def column(self) -> str:
        """The place of column ``j`` of a panel behind its first one, in C; "" where columns are evenly apart."""
        p, blocks = self.params, self.params.blocks
        if blocks is None or blocks.stride is not None:
            return ""
        address = X.substitute(blocks.load.args[0], {v: X.const(0) for v in (*p.k, *p.outer)})
        j = "j" if self.is_whole else "ec_min_int(j, width - 1)"
        here, first = (
            Printer(self.names | {p.n: n}, self.pointers, depth=len(self.sums) + 2).position(address)
            for n in (f"(n + {j})", "n")
        )
        return f"({here}) - ({first})"

    @property
    def packed_around(self) -> list[Loop]:
        """The loops around a call that packs a block."""
        blocks = self.params.blocks
        if blocks is None or self.dots is not None:
            return self.outer_sums
        return self.sum_loops[: len(self.sum_loops) - len(blocks.inner)]

    def _from_part(self, loops: Sequence[Loop]) -> str:
        """The number of an iteration of loops around one another, the first of which begins where a part does."""
        if not self.passes:
            return _position(loops)
        return _position([replace(loops[0], name=f"({loops[0].name} - part)"), *loops[1:]])

    @property
    def start(self) -> str:
        """Start of a column's accumulators, from the sum of its bytes in the panel."""
        dots = self.dots
        assert dots is not None
        terms = X.plain(prod(loop.extent for loop in self.outer_sums) * extent(dots.inner) * dots.column_offset)
        total = "(uint32_t)scratch[j]" + (f" + (uint32_t){terms}" if dots.column_offset else "")
        return f"(int32_t)(({total}) * (uint32_t){dots.row_offset})"

    @property
    def gather_lines(self) -> list[str]:
        return self._gather()[0]

    @property
    def gather(self) -> str:
        return self._gather()[1]

    @property
    def sum_position(self) -> str:
        return _position(self.outer_sums) if self.dots is not None else self._from_part(self.sum_loops)

    @property
    def gather_loops(self) -> list[Loop]:
        """Loops over a panel that is packed at run time, byte by byte where dots are packed."""
        if self.dots is None:
            return self.sum_loops
        return [*self.outer_sums, Loop("w", self.dots.count * WORD, len(self.outer_sums))]

    @property
    def byte_position(self) -> str:
        dots = self.dots
        assert dots is not None
        row = f"{self.sum_position} * {dots.count} + w / {WORD} + 1" if self.outer_sums else f"w / {WORD} + 1"
        return f"(({row}) * {self.width} + j) * {WORD} + w % {WORD}"

    @property
    def gathered_byte(self) -> str:
        """The byte of an element in a panel; 0 where a step reaches beyond the sum."""
        dots = self.dots
        assert dots is not None
        text = f"(element - {dots.column_offset})" if dots.column_offset else "element"
        return f"(w < {extent(dots.inner)} ? {text} : 0)" if dots.rest and dots.column_offset else text


def _position(loops: Sequence[Loop]) -> str:
    """The number of an iteration of loops around one another, in C."""
    text = ""
    scale: Extent = 1
    for loop in reversed(loops):
        text = f"{loop.name} * {extent_text(scale)}" + (f" + {text}" if text else "")
        scale = X.plain(scale * loop.extent)
    return f"({text or '0'})"

"""Contractions as their template sees them: tile functions, and the tasks that sweep them over rows and panels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

from edgec.emit.c_expression import extent_text
from edgec.emit.c_literal import STORAGE
from edgec.emit.views.base import Loop
from edgec.emit.views.packing import PackingView
from edgec.emit.views.tile import Step, Tile
from edgec.ir import expr as X
from edgec.ir.expr import Extent
from edgec.ir.nest import coefficient, extent
from edgec.schedule.contract import walked_as_one
from edgec.schedule.halves import COLUMNS, Halves
from edgec.schedule.program import Buffer, Kernel
from edgec.schedule.storage import memory_type


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

    def unrolls(self, loop: Loop) -> bool:
        """Is that innermost loop of a sum to be unrolled whole?"""
        return isinstance(loop.extent, int) and loop.extent <= self.params.unrolled

    @property
    def unit(self) -> str:
        """What a panel is made of: a number, four bytes or a pair of bf16 a lane."""
        if self.words is not None:
            return "int32_t"
        return STORAGE[self.panel_dtype]

    @property
    def element(self) -> str:
        """What S is made of in memory."""
        return STORAGE[memory_type(self.params.s)]

    @property
    def panel_dtype(self) -> str:
        return self.params.packed.dtype if self.params.packed is not None else "f32"

    @property
    def vector(self) -> str:
        """The type of what is multiplied."""
        return "ec_vh" if self.halves is not None else "ec_vi" if self.words is not None else "ec_vf"

    @property
    def columns(self) -> str:
        """The type of what a vector of L is multiplied as: where it is several registers, it is read where it lies."""
        return self.vector if self.sums_on_lanes else "int32_t *"

    @property
    def has_blocks(self) -> bool:
        return self.words is not None and self.words.are_blocks

    @property
    def halves(self) -> Halves | None:
        return self.params.halves

    @property
    def part_loops(self) -> list[Loop]:
        """The loops inside a part of a sum that is added up in halves; the first has as many rounds as a part."""
        assert self.halves is not None
        return self.sum_loops[self.halves.split :]

    @property
    def around_parts(self) -> list[Loop]:
        assert self.halves is not None
        return self.sum_loops[: self.halves.split]

    @property
    def sums_on_lanes(self) -> bool:
        """Are accumulators vectors of results from the first step on, or made so when they are complete?"""
        return self.words is None or self.words.are_plain

    @property
    def step_width(self) -> int:
        """How far the panel goes on with every step of the sum."""
        return self.width * (self.words.rows if self.words is not None else 1)

    @property
    def total(self) -> str:
        """The type of what products are added up in."""
        if not self.sums_on_lanes:
            assert self.words is not None
            return "ec_sums" if self.has_blocks else "ec_two_i" if self.words.are_bytes else "ec_two"
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
    def line(self) -> int:
        """Elements of a panel that a line of the cache holds."""
        return 32 if self.halves is not None else 16

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
        return "_h" if self.halves is not None else "_i" if self.words is not None else ""

    @property
    def turn(self) -> int:
        """Steps that a load of S serves: four numbers or words (halves: eight), or half of them, or a block."""
        if self.has_blocks:
            return 1
        return (COLUMNS if self.halves is not None else 1) * (2 if self.has_halves else 4)

    @property
    def has_halves(self) -> bool:
        """Is half a vector of S loaded at a time, where the other would want a multiply-add more to start beside?

        A turn has whole fours of columns of L all the same.
        """
        in_fours = self.halves is not None or self.params.vectors % 2 == 0
        return self.params.dual_issue_load and in_fours and not self.has_blocks

    @property
    def turns_outer(self) -> list[Loop]:
        """The loops of the sum around the one that is taken in turns."""
        return self.sum_loops[: len(self.sums) - walked_as_one(self.params.s, self.params.k)]

    @property
    def turns_loop(self) -> Loop:
        """The loop that is taken in turns: all those together that S walks as one."""
        inner = self.sum_loops[len(self.turns_outer) :]
        return Loop(inner[-1].name, prod(int(d.extent) for d in inner), len(self.turns_outer))

    @property
    def turns_end(self) -> int:
        """Steps of whole turns."""
        return int(self.turns_loop.extent) // self.turn * self.turn

    @property
    def steps_left(self) -> int:
        return int(self.turns_loop.extent) % self.turn

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
class Call:
    """A call of a tile function, and when it is made."""

    condition: str
    call: str

"""The sums of a contraction: steps, panels and accumulator types, and the tasks that sweep over rows and panels."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from edgec.emit.c_expression import extent_text
from edgec.emit.c_literal import STORAGE
from edgec.emit.c_text import advanced
from edgec.emit.views.base import Loop
from edgec.emit.views.packing import PackingView
from edgec.ir import expr as X
from edgec.ir.expr import Extent
from edgec.ir.nest import coefficient, extent
from edgec.schedule.contract.fp16_sums import Fp16Accumulation
from edgec.schedule.contract.micro_kernel import InOrder, MicroKernel
from edgec.schedule.contract.parts import Parts
from edgec.schedule.contract.step import walked_as_one
from edgec.schedule.program import Buffer, Kernel
from edgec.schedule.storage import memory_type


@dataclass(frozen=True)
class Step:
    """One step of a sum in every iteration of ``loop`` (None: once); for int8, of ``live`` elements."""

    loop: Loop | None
    live: int = 0


class SumsView(PackingView):
    """The sums of a contraction: their steps, panels and accumulator types, and the tasks around them."""

    def __init__(self, kernel: Kernel, name: str, aliases: frozenset[Buffer]) -> None:
        super().__init__(kernel, name, aliases)
        self.panel_type = f"const {self.unit} *restrict "

    # ---- facts the template writes down

    @property
    def micro(self) -> MicroKernel:
        return self.params.micro

    @property
    def steps(self) -> list[Step]:
        """The innermost steps of a sum: its own loop, and the elements left over."""
        dots = self.params.dots
        inner = self.sum_loops[-1] if self.sums else None
        if dots is None:
            return [Step(inner)]
        whole = [Step(inner if dots.whole > 1 else None, self.micro.size)] if dots.whole else []
        return whole + ([Step(None, dots.rest)] if dots.rest else [])

    @property
    def sum_indent(self) -> str:
        return "  " * (len(self.sums) - 1)

    def unrolls(self, loop: Loop) -> bool:
        """Should the compiler unroll this innermost loop of a sum completely?"""
        return isinstance(loop.extent, int) and loop.extent <= self.params.unrolled

    @property
    def unit(self) -> str:
        """The C type of a panel: a number, four int8 or a pair of bf16 a lane."""
        if self.dots is not None:
            return "int32_t"
        return STORAGE[self.panel_dtype]

    @property
    def element(self) -> str:
        """The C type of S in memory."""
        return STORAGE[memory_type(self.params.s)]

    @property
    def panel_dtype(self) -> str:
        return self.params.packed.dtype if self.params.packed is not None else "f32"

    @property
    def vector(self) -> str:
        """The type of what is multiplied."""
        return self.micro.s_type

    @property
    def columns(self) -> str:
        """The type of what a vector of L is multiplied as: where it is several registers, it is read where it lies."""
        return self.micro.l_type

    @property
    def fp16(self) -> Fp16Accumulation | None:
        return self.params.fp16

    @property
    def parts(self) -> Parts:
        assert self.params.parts is not None
        return self.params.parts

    @property
    def part_loops(self) -> list[Loop]:
        """The loops inside a part of a sum; the first has as many rounds as a part."""
        return self.all_sums[self.parts.split :]

    @property
    def part_end(self) -> str:
        """The end of a part in its loop, whose last part may be shorter."""
        part, extent = self.parts.rounds, self.part_loops[0].extent
        is_even = isinstance(extent, int) and extent % part == 0
        return f"part + {part}" if is_even else f"ec_min_int(part + {part}, {extent_text(extent)})"

    @property
    def around_parts(self) -> list[Loop]:
        return self.all_sums[: self.parts.split]

    @property
    def has_part_loop(self) -> bool:
        """Is the first loop inside a part cut, so that it needs a loop over parts around it?"""
        first = self.part_loops[0].extent
        return not isinstance(first, int) or first > self.parts.rounds

    @property
    def long(self) -> bool:
        """Is a sum in fp32 added up in parts?"""
        return self.params.long is not None

    @property
    def parts_before(self) -> str:
        """A number in C that is 0 in the first part of a sum alone."""
        return " | ".join([*(loop.name for loop in self.around_parts), "part"])

    @property
    def parts_behind(self) -> str:
        """The condition in C that parts of a sum are still to come."""
        ends = [f"{loop.name} < {extent_text(X.plain(loop.extent - 1))}" for loop in self.around_parts]
        return " || ".join([*ends, f"stop < {extent_text(self.part_loops[0].extent)}"])

    def start_of(self, loop: Loop) -> str:
        """The first iteration of a loop of a sum, in C."""
        return "part" if self.is_cut(loop) else "0"

    def end_of(self, loop: Loop) -> str:
        """The end of a loop of a sum, in C."""
        return ("stop" if self.passes else "end") if self.is_cut(loop) else extent_text(loop.extent)

    def packed_from(self, loop: Loop) -> str:
        """The first iteration of a loop over a panel that is packed: a part of it alone where parts pass over tasks."""
        return self.start_of(loop) if self.passes else "0"

    def packed_until(self, loop: Loop) -> str:
        return self.end_of(loop) if self.passes else extent_text(loop.extent)

    def is_cut(self, loop: Loop) -> bool:
        """Is this the loop of a long sum that is cut into parts?"""
        return self.long and loop == self.part_loops[0]

    @property
    def ahead(self) -> int:
        """Elements of a row of S that are computed on lanes ahead of their products."""
        return self.params.ahead

    def has_rest(self, loop: Loop) -> bool:
        """May a row of S end within a vector?"""
        parts = [loop.extent, *([self.parts.rounds] if self.is_cut(loop) else [])]
        return any(not isinstance(n, int) or n % self.lanes for n in parts)

    @property
    def step_width(self) -> int:
        """The advance of the panel pointer with every step of the sum."""
        return self.width * self.micro.panel_rows

    @property
    def total(self) -> str:
        """The type of what products are added up in."""
        return self.micro.accumulator

    @property
    def has_starts(self) -> bool:
        """Does a panel begin with what accumulators start at?"""
        return self.micro.has_starts

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
        return 16 * self.micro.columns

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
    def task_loops(self) -> list[Loop]:
        p = self.params
        around = [self.outer[v] for v in p.panel_outer]
        panel = Loop("group", p.groups) if self.grouped else Loop("panel_index", p.panels)
        chunk = Loop("tile" if p.tile_chunk == 1 else "chunk", p.chunks)
        # As the result lies in memory: threads then share out rows of it, like the kernels before and after.
        steps = {self.outer[v]: coefficient(p.address, v) or 0 for v in p.outer if v not in p.panel_outer}
        steps[chunk] = coefficient(p.address, p.m) or 0 if p.m.op == "var" else 0
        rows = sorted(steps, key=lambda d: -steps[d])
        loops = [*around, panel, *rows] if p.panel_first else [*around, *rows, panel]
        return [d for d in loops if d.extent != 1 or d not in (panel, chunk)]

    @property
    def tasks(self) -> Extent:
        return X.plain(prod(d.extent for d in self.task_loops))

    @property
    def grouped(self) -> bool:
        """Has a task several panels, which are packed beside one another?"""
        return self.params.group > 1

    @property
    def group_loop(self) -> str:
        """The head of the loop over the panels of a group, in C."""
        p = self.params
        first, end = ("0", p.panels) if p.groups == 1 else (f"group * {p.group}", f"group * {p.group} + {p.group}")
        if p.groups != 1 and X.plain(p.panels % p.group) != 0:
            end = f"ec_min_int({end}, {extent_text(p.panels)})"
        return f"for (ec_int panel_index = {first}; panel_index < {end}; ++panel_index) {{"

    @property
    def place_in_group(self) -> str:
        """The number of a panel in its group, in C."""
        return "panel_index" if self.params.groups == 1 else f"(panel_index - group * {self.params.group})"

    @property
    def panel_number(self) -> str:
        """The number of the panel, or of the group of panels, that a task has packed."""
        count = self.params.groups if self.grouped else self.params.panels
        terms = ["group" if self.grouped else "panel_index"] if count != 1 else []
        scale = count
        for v in reversed(self.params.panel_outer):
            terms.append(self.outer[v].name if scale == 1 else f"{self.outer[v].name} * {extent_text(scale)}")
            scale = X.plain(scale * extent(v))
        return f"({' + '.join(terms)})" if len(terms) > 1 else terms[0] if terms else "0"

    @property
    def panel(self) -> str:
        """The pointer to the packed panel at hand."""
        number, size = self.panel_number, extent_text(self.panel_size)
        return advanced(self.packed_parameter, number if number == "0" else f"{number} * {size}")

    @property
    def indices(self) -> list[str]:
        return [*(d.name for d in self.outer.values()), "m", "n"]

    # ---- sums for cores that run instructions in order

    @property
    def in_order(self) -> bool:
        return self.micro.order is not None

    @property
    def order(self) -> InOrder:
        assert self.micro.order is not None
        return self.micro.order

    @property
    def turn(self) -> int:
        """Steps that a load of S serves, whole or half a vector."""
        return self.order.steps // (2 if self.loads_half_vectors else 1)

    @property
    def loads_half_vectors(self) -> bool:
        """Is half a vector of S loaded at a time, where the other would want a multiply-add more to start beside?

        A turn has whole fours of columns of L all the same.
        """
        return self.order.dual_issue and (self.micro.columns > 1 or self.params.vectors % 2 == 0)

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

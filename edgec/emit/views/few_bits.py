"""Contractions by weights of few bits as their template sees them."""

from __future__ import annotations

from functools import cached_property

from edgec.emit.c_expression import Printer, extent_text
from edgec.emit.c_text import advanced
from edgec.emit.views.base import Loop
from edgec.emit.views.contract import ContractView
from edgec.emit.views.sums import Step
from edgec.emit.views.tile import Tile
from edgec.ir import expr as X
from edgec.ir.expr import Extent
from edgec.schedule.contract.few_bits import FewBits, Row

_TYPES = {"f32": "float", "f16": "uint16_t", "u8": "uint8_t", "i8": "int8_t"}


class FewBitsView(ContractView):
    """The loops of a sum are groups, and elements of a group."""

    whole = Step(None)  # S is read number by number

    @property
    def params(self) -> FewBits:
        schedule = self.kernel.schedule
        assert isinstance(schedule, FewBits)
        return schedule

    @cached_property
    def tiles(self) -> list[Tile]:
        return [FewBitsTile(self, h, v, live) for h in dict.fromkeys(self._heights) for v, live in self._widths]

    @property
    def keeps_order(self) -> bool:
        return False

    @property
    def panel_size(self) -> Extent:
        return self.params.panel_words

    @property
    def planes(self) -> int:
        return self.params.planes

    @property
    def bits(self) -> int:
        return self.params.bits

    @property
    def group(self) -> int:
        return self.params.group

    @property
    def zero(self) -> int:
        return self.params.zero

    @property
    def scale(self) -> Row:
        return self.params.scale

    @property
    def base(self) -> Row | None:
        return self.params.base

    @property
    def groups(self) -> Loop:
        return self.sum_loops[0]

    @property
    def place(self) -> Loop:
        """The loop over the elements of a group."""
        return self.sum_loops[1]

    @property
    def numbers(self) -> list[tuple[str, Row]]:
        return self.params.numbers

    @property
    def span(self) -> int:
        return self.params.span

    @property
    def factors(self) -> list[tuple[str, str]]:
        """(name, type) of the factors that begin a group of groups."""
        return [(name, row.factor) for name, row in self.numbers if row.factor]

    def words(self, dtype: str) -> int:
        return self.params.words(dtype)

    def row(self, dtype: str, v: int) -> str:
        """Vector ``v`` of a row of numbers at the panel's pointer, as floats."""
        place = f" + {v * self.lanes}" if v else ""
        load = f"(const {_TYPES[dtype]} *)panel{place}"
        if dtype in ("u8", "i8"):
            return f"ec_to_float(ec_load_{dtype}({load}))"
        return f"ec_load_f16({load})" if dtype == "f16" else f"ec_load({load})"

    def number(self, name: str, row: Row, v: int) -> str:
        """Scales or offsets of a group, as floats."""
        text = self.row(row.dtype, v)
        if row.factor:
            return f"{text} * {name}_factor{v}"
        return f"-{text} * scale{v}" if name == "base" and self.params.has_points else text

    def panel_vector(self, row: int, v: int) -> str:
        """A vector of the panel, so many rows of words ahead."""
        place = row * self.width + v * self.lanes
        return f"ec_load_i32(panel + {place})" if place else "ec_load_i32(panel)"

    # ---- S as integers

    @property
    def row_bytes(self) -> int:
        """Bytes of the integers of a row of S."""
        return int(self.groups.extent) * self.planes * self.group

    @property
    def rounded_rows(self) -> int:
        """Rows of S that a task makes integers of."""
        return self.params.rounded_rows

    @property
    def more_parameters(self) -> str:
        if not self.planes:
            return ""
        first = ", ec_int first_row" if self.params.m.op == "var" else ""
        totals = ", const int32_t *restrict totals" if self.needs_totals else ""
        return f", const int8_t *restrict digits, const float *restrict scales{totals}{first}"

    @property
    def needs_totals(self) -> bool:
        """Do sums of S matter, since code 0 does not stand for 0?"""
        return self.zero != 0 or self.base is not None

    @property
    def more_arguments(self) -> tuple[str, ...]:
        first = ("first_row",) if self.params.m.op == "var" else ()
        totals = ("totals",) if self.needs_totals else ()
        return ("digits", "scales", *totals, *first) if self.planes else ()

    @property
    def chunk_row(self) -> str:
        """The first of the rows whose integers a task needs."""
        p = self.params
        if p.chunks == 1:
            return "0"
        return f"tile * {p.rows}" if p.tile_chunk == 1 else f"chunk * {p.tile_chunk * p.rows}"

    @property
    def rounding(self) -> str:
        """The number of these rows: tasks of the same are neighbors."""
        panels = self.params.panels
        if self.tasks == 1 or self.tasks == panels:
            return "0"
        return self.task if panels == 1 else f"{self.task} / {extent_text(panels)}"

    @property
    def source(self) -> str:
        """The pointer to the first element of a group in a row of S."""
        p = self.params
        start = X.substitute(p.s.args[0], {p.k[1]: X.const(0)})
        names = self.names | {p.k[0]: "group"} | ({p.m: "row"} if p.m.op == "var" else {})
        return advanced(self.pointers[p.s.value], Printer(names, self.pointers).position(start))

    # ---- codes

    @property
    def step_codes(self) -> int:
        """Codes of a lane that are decoded together."""
        return {4: 8, 6: 16, 8: 4}[self.bits]

    @property
    def step_rows(self) -> int:
        """Rows of words that they take."""
        return {4: 1, 6: 3, 8: 1}[self.bits]

    @property
    def dot(self) -> str:
        """The C function of four products."""
        return "ec_dot_codes" if self.bits < 8 else "ec_dot_ss" if self.params.signed else "ec_dot_us"


class FewBitsTile(Tile):
    """A tile that decodes weights; with planes, its rows of S are integers."""

    view: FewBitsView

    def _hoist(self) -> None:
        if not self.view.planes:
            super()._hoist()

    @property
    def interface(self) -> tuple[str, str]:
        if not self.view.planes:
            return super().interface
        lines = [*self.epilogue, *(["m"] if self.shifts else []), "panel"]
        return self.view.tile_interface(self.view.indices, lines)

    @property
    def shifts(self) -> bool:
        """Are there rows before those of the tile?"""
        return self.view.params.m.op == "var"

    @property
    def loaded(self) -> list[str]:
        """C lines that load the words of a step."""
        view, lines = self.view, []
        for v in range(self.vectors):
            for row in range(view.step_rows):
                lines.append(f"const ec_vi w{row}_{v} = {view.panel_vector(row, v)};")
                if view.streams:
                    lines.append(f"ec_prefetch(panel + EC_AHEAD + {row * view.width + v * view.lanes});")
        return lines

    def codes(self, part: int, v: int) -> str:
        """Four codes of a step, in the bytes of a lane."""
        if self.view.bits == 8:
            return f"w0_{v}"
        low = f"(ec_vi)((ec_vu_)w{part // 2}_{v} >> 4) & 0x0f0f0f0f" if part % 2 else f"w{part // 2}_{v} & 0x0f0f0f0f"
        if self.view.bits == 4:
            return low
        shift = ("<< 4", "<< 2", ">> 0", ">> 2")[part]
        return f"({low}) | ((ec_vi)((ec_vu_)w2_{v} {shift}) & 0x30303030)"

    def byte(self, place: int, v: int) -> str:
        """One of four codes, as an integer."""
        shifted = f"(ec_vi)((ec_vu_)codes{v} >> {8 * place})" if place else f"codes{v}"
        return f"{shifted} & 255"

    def zero(self, v: int) -> str:
        """The value that code 0 stands for."""
        own = f"scale{v} * ec_set1({float(-self.view.zero)}f)"
        return own if self.view.base is None else f"base{v}" if not self.view.zero else f"base{v} + {own}"

    # ---- sums of integers

    def _group(self, r: int) -> str:
        """The number of the group at hand, in the integers of a row of the tile."""
        groups = self.view.groups
        return f"{r * int(groups.extent)} + {groups.name}" if r else groups.name

    def integers(self, r: int, p: int) -> str:
        """Sums of products of a plane, which start where a zero point has its share."""
        start = "ec_set1_i(0)"
        if self.view.zero:
            start = f"ec_set1_i({-self.view.zero} * totals[{self._total(r, p)}])"
        return ", ".join(f"d{p}_{r}_{v} = {start}" for v in range(self.vectors))

    def _total(self, r: int, p: int) -> str:
        planes = self.view.planes
        place = self._group(r)
        return f"({place}) * {planes} + {p}" if planes > 1 else place

    def digits(self, r: int, p: int) -> str:
        """The place of a plane of the group at hand."""
        view = self.view
        own = r * view.row_bytes + p * view.group
        at = f"{view.groups.name} * {view.planes * view.group}"
        return f"{own} + {at}" if own else at

    def scale_at(self, r: int) -> str:
        """The place of the scale of the group at hand."""
        return self._group(r)

    def joined(self, r: int, v: int) -> str:
        """The sum of all planes, as floats."""
        if self.view.planes == 1:
            return f"ec_to_float(d0_{r}_{v})"
        return f"ec_join_planes({', '.join(f'd{p}_{r}_{v}' for p in range(self.view.planes))})"

    def total(self, r: int) -> str:
        """The sum of the integers of S in the group at hand, as floats in every lane."""
        totals = [f"ec_set1_i(totals[{self._total(r, p)}])" for p in range(self.view.planes)]
        return f"ec_join_planes({', '.join(totals)})" if len(totals) > 1 else f"ec_to_float({totals[0]})"

"""Contractions as their template sees them: tile functions, and the tasks that sweep them over rows and panels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from edgec.emit.c_expression import extent_text
from edgec.emit.views.in_order import InOrderTile
from edgec.emit.views.sums import SumsView
from edgec.emit.views.tile import Tile
from edgec.ir import expr as X


class ContractView(SumsView):
    """A contraction: its tile functions, and their calls."""

    @property
    def _heights(self) -> list[int]:
        """Rows of tiles: all, and what the last rows are taken in (one for each bit of a number not known yet)."""
        p = self.params
        if isinstance(p.m_extent, int):
            return [h for h in (p.rows if p.m_extent >= p.rows else 0, p.m_extent % p.rows) if h]
        whole = [p.rows] if X.plain(p.m_extent // p.rows) != 0 else []
        return [*whole, *(1 << b for b in reversed(range((p.rows - 1).bit_length())))]

    @property
    def _widths(self) -> list[tuple[int, int | None]]:
        """(vectors, live lanes of the last): whole panels, and the last one (in single vectors where it is open)."""
        p = self.params
        if not isinstance(p.n_extent, int):
            whole = [(p.vectors, p.lanes)] if X.plain(p.n_extent // p.width) != 0 else []
            return [*whole, (1, None)]
        last = p.n_extent - (-(-p.n_extent // p.width) - 1) * p.width
        widths: list[tuple[int, int | None]] = [(p.vectors, p.lanes)] if p.n_extent >= p.width else []
        if last != p.width:
            widths.append((-(-last // p.lanes), last % p.lanes or p.lanes))
        return widths

    @cached_property
    def tiles(self) -> list[Tile]:
        kind = InOrderTile if self.in_order else Tile
        return [kind(self, h, v, live) for h in dict.fromkeys(self._heights) for v, live in self._widths]

    @property
    def keeps_order(self) -> bool:
        """Is the compiler asked to keep the order of the instructions of a tile?"""
        return self.micro.keeps_order

    @property
    def more_parameters(self) -> str:
        """Parameters of a tile function behind those that its text needs."""
        return "".join(f", ec_int {n}" for n in self._part_names) + (", float *sums" if self.passes else "")

    @property
    def more_arguments(self) -> tuple[str, ...]:
        """Arguments of a call of a tile function behind those that the function's text needs."""
        if not self.passes:
            return ()
        p, size = self.params, self.params.rows * self.width
        number = "" if p.tile_chunk == 1 or self.tile_count == 1 else "tile"
        if number and p.chunks != 1:
            number = f"(tile - chunk * {p.tile_chunk})"
        if self.grouped:
            number = f"({number} * {p.group} + {self.place_in_group})" if number else self.place_in_group
        return (*self._part_names, f"waiting + {number} * {size}" if number else "waiting")

    @property
    def _part_names(self) -> list[str]:
        """The variables that tell which part of a sum is passed over."""
        return [*(loop.name for loop in self.around_parts), "part", "stop"] if self.passes else []

    @property
    def first_row(self) -> str:
        """The first row of a tile."""
        return "0" if self.tile_count == 1 else "tile" if self.rows == 1 else f"tile * {self.rows}"

    @property
    def first_column(self) -> str:
        """The first column of the panel at hand."""
        return "0" if self.params.panels == 1 else f"panel_index * {self.width}"

    @property
    def places(self) -> dict[str, str]:
        """The first row and column of a tile, where calls name them without a variable of their own."""
        found = {"m": self.first_row} if isinstance(self.params.m_extent, int) else {}
        return found | ({"n": self.first_column} if isinstance(self.params.n_extent, int) and not self.packs else {})

    @property
    def sweep(self) -> list[str]:
        """C that computes the tiles of one task."""
        p, tiles = self.params, extent_text(self.tile_count)
        start = [] if "m" in self.places else [f"const ec_int m = {self.first_row};"]
        calls = [f"{c.condition}{c.call};" for c in self.calls]
        if self.grouped:
            panel = f"panels + {self.place_in_group} * {p.panel_floats}"
            own = [f"const ec_int n = {self.first_column};", f"const {self.unit} *const panel = {panel};"]
            calls = [self.group_loop, *(f"  {line}" for line in (*own, *calls)), "}"]
        lines = [*start, *calls]
        if self.tile_count == 1 or p.tile_chunk == 1:
            return lines
        begin, end, before = "0", tiles, []
        if p.chunks != 1:
            begin, end = f"chunk * {p.tile_chunk}", "end"
            before = [f"const ec_int end = ec_min_int((chunk + 1) * {p.tile_chunk}, {tiles});"]
        head = f"for (ec_int tile = {begin}; tile < {end}; ++tile) {{"
        return [*before, head, *(f"  {line}" for line in lines), "}"]

    @property
    def calls(self) -> list[Call]:
        """The calls of tile functions for one panel and one tile of rows."""
        p = self.params
        full, panels_full = X.plain(p.m_extent // p.rows), X.plain(p.n_extent // p.width)
        tile = "0" if self.tile_count == 1 else "tile"
        panel = "0" if p.panels == 1 else "panel_index"
        calls = []
        for k, rows in enumerate(self._heights):
            is_rest = k > 0 or full == 0
            for vectors, live in self._widths:
                (t,) = (t for t in self.tiles if (t.height, t.vectors, t.live) == (rows, vectors, live))
                conditions, change = [], dict(self.places)
                if len(self._heights) > 1 and full != 0:
                    conditions.append(f"{tile} {'>=' if is_rest else '<'} {extent_text(full)}")
                if is_rest and not isinstance(p.m_extent, int):
                    rest = extent_text(X.plain(p.m_extent % p.rows))
                    conditions.append(f"({rest} & {rows})")
                    change["m"] = f"m + ({rest} & ~{2 * rows - 1})"
                if len(self._widths) > 1:
                    whole = (vectors, live) == (p.vectors, p.lanes)
                    conditions.append(f"{panel} {'<' if whole else '>='} {extent_text(panels_full)}")
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

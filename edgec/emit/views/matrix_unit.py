"""Contractions by weights of few bits on the matrix unit, as their template sees them."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from edgec.emit.c_expression import extent_text
from edgec.emit.views.few_bits import FewBitsTile, FewBitsView
from edgec.emit.views.tile import Tile
from edgec.ir import expr as X
from edgec.schedule.contract.few_bits import FewBits
from edgec.schedule.contract.matrix_unit import BLOCK, LEAST_ROWS, STEP, MatrixUnit
from edgec.schedule.program import Buffer, Kernel

#: Rows whose sums are finished together: as many as registers take.
ROWS = 8


class ManyRowsView(FewBitsView):
    """The same contraction for many rows: tasks of whole blocks, whose sums lie in memory before they are finished."""

    def __init__(
        self, kernel: Kernel, name: str, aliases: frozenset[Buffer], params: FewBits, unit: MatrixUnit
    ) -> None:
        chunk = unit.rows // ROWS
        kernel = replace(kernel, schedule=replace(params, rows=ROWS, tile_chunk=chunk, panel_first=False, unit=None))
        super().__init__(kernel, name, aliases)
        self.matrix, self.block, self.step = unit, BLOCK, STEP

    @cached_property
    def tiles(self) -> list[Tile]:
        return [ManyRowsTile(self, h, v, live) for h in (ROWS, 1) for v, live in self._widths]

    @property
    def places(self) -> dict[str, str]:
        return {}

    @property
    def more_parameters(self) -> str:
        return ", const float *restrict sums"

    @property
    def more_arguments(self) -> tuple[str, ...]:
        return (f"sums + i * {BLOCK}",)

    @property
    def steps_of_sum(self) -> int:
        """Steps of 32 elements of the whole sum."""
        return self.matrix.length // STEP

    @property
    def slab_groups(self) -> int:
        """Groups of a slab of a panel."""
        return self.matrix.slab // self.group

    def ends(self, height: int) -> list[str]:
        """C that finishes so many rows of a panel: whole panels, and the last one."""
        p, lines = self.params, []
        panel, full = "0" if p.panels == 1 else "panel_index", extent_text(X.plain(p.n_extent // p.width))
        for t in self.tiles:
            if t.height == height:
                is_whole = (t.vectors, t.live) == (p.vectors, p.lanes)
                condition = f"if ({panel} {'<' if is_whole else '>='} {full}) " if len(self._widths) > 1 else ""
                lines.append(f"{condition}{t.name}({', '.join([t.interface[1], *self.more_arguments])});")
        return lines


class ManyRowsTile(FewBitsTile):
    """The end of sums that lie in memory."""

    view: ManyRowsView

    def __init__(self, view: ManyRowsView, height: int, vectors: int, live: int | None) -> None:
        super().__init__(view, height, vectors, live)
        self.name = f"{view.name}_end_{self.name.removeprefix(f'{view.name}_')}"

    @property
    def interface(self) -> tuple[str, str]:
        return self.view.tile_interface(self.view.indices, self.epilogue)

    def accumulators(self, r: int) -> str:
        return ", ".join(f"c{r}_{v} = ec_load(sums + {r * BLOCK + v * self.view.lanes})" for v in range(self.vectors))


class FewOrManyRowsView(FewBitsView):
    """A kernel by weights of few bits: ``many`` is its view for many rows, None without a matrix unit."""

    @cached_property
    def many(self) -> ManyRowsView | None:
        p = self.params
        return None if p.unit is None else ManyRowsView(self.kernel, self.name, self.aliases, p, p.unit)

    @property
    def is_many(self) -> str:
        """C that tells whether there are many rows; empty where there always are."""
        rows = self.params.m_extent
        return "" if isinstance(rows, int) else f"{extent_text(rows)} >= {LEAST_ROWS}"

"""Sparse contractions as their template sees them: the tiles of a contraction, over kept rows of weights."""

from __future__ import annotations

from functools import cached_property

from edgec.emit.views.base import Loop
from edgec.emit.views.contract import ContractView
from edgec.emit.views.sums import Step
from edgec.emit.views.tile import Tile
from edgec.schedule.contract.int8_dot import WORD
from edgec.schedule.contract.sparse import Sparse, ways_of


class SparseView(ContractView):
    """Tile functions that are given a panel's kept rows, and the tasks: groups of panels, then chunks of tiles."""

    @property
    def params(self) -> Sparse:
        schedule = self.kernel.schedule
        assert isinstance(schedule, Sparse)
        return schedule

    @property
    def task_loops(self) -> list[Loop]:
        p = self.params
        around = [self.outer[v] for v in p.panel_outer]
        rest = [self.outer[v] for v in p.outer if v not in p.panel_outer]
        return [*around, Loop("group", p.groups), *rest, Loop("chunk", p.chunks)]

    @property
    def places(self) -> dict[str, str]:
        return {}  # a row is swept over several panels: the template has variables

    @property
    def group(self) -> int:
        return self.params.group

    @property
    def panels(self) -> int:
        return int(self.params.panels)

    @property
    def stride(self) -> int:
        """Rows of a panel that one step of the inner loop takes."""
        return self.params.stride

    @property
    def index_parameter(self) -> str:
        return self.pointers[self.params.index]

    @property
    def starts_parameter(self) -> str:
        return self.pointers[self.params.starts]

    @property
    def keeps_order(self) -> bool:
        return False

    @property
    def more_parameters(self) -> str:
        return ", const int32_t *restrict index, ec_int stored"

    @property
    def more_arguments(self) -> tuple[str, ...]:
        return ("index", "stored")

    @cached_property
    def tiles(self) -> list[Tile]:
        return [SparseTile(self, h, v, live) for h in dict.fromkeys(self._heights) for v, live in self._widths]


class SparseTile(Tile):
    """A tile whose sum goes over kept rows; ``s`` points at what such a row is multiplied with."""

    view: SparseView

    def _hoist(self) -> None:
        super()._hoist()
        self.hoisted = [line.replace(" *s = ", " *const origin = ") for line in self.hoisted]

    @property
    def ways(self) -> int:
        """Sums that are kept apart of every element, and added up at the end."""
        return ways_of(self.rows, self.vectors, self.view.stride)

    def accumulator(self, r: int, v: int, way: int) -> str:
        return f"c{r}_{v}_{way}" if way else f"c{r}_{v}"

    def row(self, v: int, step: int) -> str:
        """A vector of the weights of one step."""
        p = self.view.params
        load, place = "ec_load" if p.dots is None else "ec_load_i32", step * p.width + v * p.lanes
        return f"{load}(panel + {place})" if place else f"{load}(panel)"

    def factor(self, r: int) -> str:
        """S of one row of the tile in all lanes."""
        return self.broadcast(r, Step(None, WORD if self.view.dots is not None else 0))

    def product(self, r: int, v: int, way: int) -> str:
        return self.update(r, v).replace(f"c{r}_{v}", self.accumulator(r, v, way))

    def total(self, r: int, v: int) -> str:
        """All sums of an element that were kept apart."""
        add = "ec_add_i" if self.view.dots is not None else ""
        text = self.accumulator(r, v, 0)
        for way in range(1, self.ways):
            other = self.accumulator(r, v, way)
            text = f"{add}({text}, {other})" if add else f"{text} + {other}"
        return text

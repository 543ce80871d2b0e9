"""Contractions by weights of four bits as their template sees them."""

from __future__ import annotations

from functools import cached_property

from edgec.emit.views.base import Loop
from edgec.emit.views.contract import ContractView
from edgec.emit.views.sums import Step
from edgec.emit.views.tile import Tile
from edgec.schedule.contract.int4 import Int4


class Int4View(ContractView):
    """The loops of a sum are groups, dots of a group, codes of a word."""

    whole = Step(None)  # S is read number by number

    @property
    def params(self) -> Int4:
        schedule = self.kernel.schedule
        assert isinstance(schedule, Int4)
        return schedule

    @cached_property
    def tiles(self) -> list[Tile]:
        return [Tile(self, h, v, live) for h in dict.fromkeys(self._heights) for v, live in self._widths]

    @property
    def keeps_order(self) -> bool:
        return False

    @property
    def groups(self) -> Loop:
        return self.sum_loops[0]

    @property
    def group_words(self) -> Loop:
        return self.sum_loops[1]

    @property
    def codes(self) -> Loop:
        return self.sum_loops[2]

    @property
    def is_symmetric(self) -> bool:
        return self.params.is_symmetric

    def panel_vector(self, row: int, v: int) -> str:
        """A vector of the panel, so many rows ahead."""
        place = row * self.width + v * self.lanes
        return f"ec_load_i32(panel + {place})" if place else "ec_load_i32(panel)"

"""Borders as their template sees them."""

from __future__ import annotations

from dataclasses import dataclass

from edgec.emit.c_expression import extent_text
from edgec.emit.c_literal import literal
from edgec.emit.views.base import Loop, View
from edgec.ir.expr import Extent
from edgec.ir.types import CODED
from edgec.schedule.halo_fill import HaloFill, Slab


class HaloFillView(View):
    """A border: nested loops a slab."""

    @property
    def value(self) -> str:
        """The filling value as it lies in memory."""
        params = self.kernel.schedule
        assert isinstance(params, HaloFill)
        text = literal(params.value.value, params.value.dtype)
        return f"ec_to_{params.store.dtype}({text})" if params.store.dtype in CODED else text

    @property
    def slabs(self) -> list[SlabView]:
        params = self.kernel.schedule
        assert isinstance(params, HaloFill)
        return [
            SlabView([Loop(f"i{d}", extent, d) for d, (extent, _) in enumerate(_loops(s))], _place(s))
            for s in params.slabs
        ]


def _loops(slab: Slab) -> list[tuple[Extent, Extent]]:
    """(extent, stride) of the loops that have more than one iteration."""
    return [(extent, stride) for extent, stride in slab.loops if extent != 1]


def _place(slab: Slab) -> str:
    start = [extent_text(slab.start)] if slab.start != 0 else []
    steps = (f"i{d}" if stride == 1 else f"i{d} * {extent_text(stride)}" for d, (_, stride) in enumerate(_loops(slab)))
    return " + ".join([*start, *steps]) or "0"


@dataclass(frozen=True)
class SlabView:
    """Loops of one slab and the position they write."""

    loops: list[Loop]
    place: str

    @property
    def indent(self) -> str:
        return "  " * len(self.loops)

"""Filling the halo of a padded buffer: the elements around the value, which no other kernel writes."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np

from edgec.fuse import Halo
from edgec.ir import expr as X
from edgec.ir.expr import Expr, Extent
from edgec.ir.extent import extent_at
from edgec.ir.index import upper
from edgec.ir.sizes import Sizes
from edgec.ir.types import DTYPES
from edgec.schedule.program import BlockSchedule, Buffer, View


@dataclass(frozen=True)
class Slab:
    """A box of elements: ``start`` and (extent, stride) loops, outermost first."""

    start: Extent
    loops: tuple[tuple[Extent, Extent], ...]


@dataclass(frozen=True)
class HaloFill(BlockSchedule):
    """Fill ``slabs`` of ``store`` with ``value``."""

    template: ClassVar[str] = "halo_fill"
    slabs: tuple[Slab, ...]
    value: Expr
    store: Buffer

    @property
    def describe(self) -> str:
        return f"halo of {self.value}, {len(self.slabs)} slabs"

    @property
    def halo_bytes(self) -> int:
        elements = sum(prod(upper(extent) for extent, _ in slab.loops) for slab in self.slabs)
        return elements * DTYPES[self.store.dtype].itemsize

    def fill_halo(self, memory: np.ndarray, sizes: Sizes) -> None:
        for slab in self.slabs:
            places = np.array(extent_at(slab.start, sizes))
            for extent, stride in slab.loops:
                places = places[..., None] + np.arange(extent_at(extent, sizes)) * extent_at(stride, sizes)
            memory[places] = self.value.value

    @property
    def bodies(self) -> list[Expr]:
        return []


def halo_fill(halo: Halo, root: View, dtype: str) -> HaloFill:
    """The halo of the value at ``root`` as disjoint slabs: two per dimension, without the corners of earlier ones."""
    low: list[Extent] = [X.plain(-b) for b in halo.before]
    high: list[Extent] = [X.plain(n + a) for n, a in zip(root.shape, halo.after)]
    rank = len(root.shape)
    slabs: list[Slab] = []
    # Slowest dimension first, so that the largest pieces are contiguous.
    for d in sorted(range(rank), key=lambda d: -upper(root.strides[d])):
        before, after = halo.before[d], halo.after[d]
        for start, extent in ((low[d], before), (high[d] - after, after)):
            box = [(start, extent) if e == d else (low[e], high[e] - low[e]) for e in range(rank)]
            if all(upper(X.plain(extent)) > 0 for _, extent in box):
                slabs.append(_slab(box, root))
        low[d] = low[d] + before
        high[d] = high[d] - after
    return HaloFill(tuple(slabs), X.const(halo.value, dtype), root.buffer)


def _slab(box: list[tuple[Extent, Extent]], view: View) -> Slab:
    start = X.plain(view.offset + sum(lo * s for (lo, _), s in zip(box, view.strides)))
    sides = [(X.plain(extent), stride) for (_, extent), stride in zip(box, view.strides)]
    loops = sorted((side for side in sides if side[0] != 1), key=lambda x: -upper(x[1]))
    merged: list[tuple[Extent, Extent]] = []
    for extent, stride in loops:
        if merged and merged[-1][1] == X.plain(extent * stride):
            merged[-1] = (X.plain(merged[-1][0] * extent), stride)
        else:
            merged.append((extent, stride))
    return Slab(start, tuple(merged) or ((1, 1),))

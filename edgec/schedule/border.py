"""Borders: the part of a padded buffer no producer writes."""

from __future__ import annotations

from dataclasses import dataclass

from edgec.ir import expr as X
from edgec.ir.expr import Expr, Extent
from edgec.ir.graph import Node
from edgec.ir.index import upper
from edgec.schedule.program import Buffer, View


@dataclass(frozen=True)
class Slab:
    """A box of elements: ``start`` and (extent, stride) loops, outermost first."""

    start: Extent
    loops: tuple[tuple[Extent, Extent], ...]


@dataclass(frozen=True)
class Border:
    """Fill ``slabs`` of ``store`` with ``value``."""

    slabs: tuple[Slab, ...]
    value: Expr
    store: Buffer


def border(node: Node, view: View) -> Border:
    """The border of a padding node, as disjoint slabs: dimension by dimension, the rest of the box."""
    attrs = node.attributes
    low: list[Extent] = [0] * node.type.rank
    high: list[Extent] = list(node.type.shape)
    slabs: list[Slab] = []
    # Slowest dimension first, so that the largest pieces are contiguous.
    for d in sorted(range(node.type.rank), key=lambda d: -upper(view.strides[d])):
        before, after = attrs["before"][d], attrs["after"][d]
        for start, extent in ((low[d], before), (high[d] - after, after)):
            box = [(start, extent) if e == d else (low[e], high[e] - low[e]) for e in range(node.type.rank)]
            if all(upper(X.plain(extent)) > 0 for _, extent in box):
                slabs.append(_slab(box, view))
        low[d] = low[d] + before
        high[d] = high[d] - after
    return Border(tuple(slabs), X.const(attrs["value"], node.type.dtype), view.buffer)


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

"""Borders: the part of a padded buffer no producer writes."""

from __future__ import annotations

from dataclasses import dataclass

from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.graph import Node
from edgec.schedule.program import Buffer, View


@dataclass(frozen=True)
class Slab:
    """A box of elements: ``start`` and (extent, stride) loops, outermost first."""

    start: int
    loops: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Border:
    """Fill ``slabs`` of ``store`` with ``value``."""

    slabs: tuple[Slab, ...]
    value: Expr
    store: Buffer


def border(node: Node, view: View) -> Border:
    """The border of a padding node, as disjoint slabs: dimension by dimension, the rest of the box."""
    attrs = node.attributes
    low = [0] * node.type.rank
    high = list(node.type.shape)
    slabs: list[Slab] = []
    # Slowest dimension first, so that the largest pieces are contiguous.
    for d in sorted(range(node.type.rank), key=lambda d: -view.strides[d]):
        before, after = attrs["before"][d], attrs["after"][d]
        for start, end in ((low[d], low[d] + before), (high[d] - after, high[d])):
            box = [(start, end) if e == d else (low[e], high[e]) for e in range(node.type.rank)]
            if all(hi > lo for lo, hi in box):
                slabs.append(_slab(box, view))
        low[d] += before
        high[d] -= after
    return Border(tuple(slabs), X.const(attrs["value"], node.type.dtype), view.buffer)


def _slab(box: list[tuple[int, int]], view: View) -> Slab:
    start = view.offset + sum(lo * s for (lo, _), s in zip(box, view.strides))
    loops = sorted(((hi - lo, s) for (lo, hi), s in zip(box, view.strides) if hi - lo > 1), key=lambda x: -x[1])
    merged: list[tuple[int, int]] = []
    for extent, stride in loops:
        if merged and merged[-1][1] == extent * stride:
            merged[-1] = (merged[-1][0] * extent, stride)
        else:
            merged.append((extent, stride))
    return Slab(start, tuple(merged) or ((1, 1),))

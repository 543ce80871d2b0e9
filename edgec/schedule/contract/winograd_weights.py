"""Weights of Winograd's method: transformed at build time, or panel by panel while a network runs.

A run transforms weights that are no constants, as those of a training step, in the task that multiplies by them. A few
terms of a panel are packed from wherever they lie and transformed into scratch memory, where the second-level cache
keeps them while all tiles of the task's block pass over them; then the next terms follow. Nothing of it is shared, so
that no barrier is needed, and scratch memory is a part of a panel, however many weights there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, prod

import numpy as np

from edgec.device.device import Device
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.nest import coefficient, most
from edgec.schedule.contract.cook_toom import Toom
from edgec.schedule.contract.panels import FLOAT_CYCLES, PackedBlocks, packed_blocks, packing_cycles
from edgec.schedule.contract.parts import TERMS
from edgec.schedule.flat import evaluate_over

#: Terms of the sum that are packed before they are transformed: what is packed stays in the first-level cache.
PACKED = 8
#: The share of the second-level cache that the transformed part of a panel may take.
SHARE = 2


@dataclass(frozen=True)
class RunTimeWeights:
    """L as a run reads it, as it lies in memory: along the taps that are ``turned``, the last tap is read first.

    ``blocks`` are packed at once: all taps of neighboring terms where they are ``joined``, else taps of one term.
    """

    blocks: PackedBlocks
    taps: tuple[Expr, ...]
    turned: tuple[bool, ...]
    joined: bool
    part: int = 0  # terms that are transformed at once

    @property
    def count(self) -> int:
        """Taps of a term."""
        return prod(most(v) for v in self.taps)


def run_time_weights(l: Expr, taps: tuple[Expr, ...], k: tuple[Expr, ...], n: Expr) -> RunTimeWeights | None:
    """The weights ``l`` as a run packs them, with the ``taps`` of all sides; None where they are no floats that lie
    evenly apart."""
    if l.op != "load" or not l.args or any(coefficient(l.args[0], v) is None for v in (*taps, *k, n)):
        return None
    turned = tuple((coefficient(l.args[0], v) or 0) < 0 for v in taps)
    l = X.substitute(l, {v: most(v) - 1 - v for v, is_turned in zip(taps, turned) if is_turned})
    whole = packed_blocks(l, (*k, *taps), n, None) if len(k) == 1 else None
    joined = whole is not None and len(whole.inner) == 1 + len(taps)
    blocks = whole if joined else packed_blocks(l, taps, n, None)
    if blocks is None or blocks.stride is None:
        return None
    return RunTimeWeights(blocks, taps, turned, joined)


def part_of(terms: int, points: int, width: int, device: Device) -> int:
    """Terms of a panel that are transformed at once, as even as possible: a share of the second-level cache holds them,
    and no sum is long."""
    limit = max(PACKED, min(device.l2_bytes // SHARE // (4 * points * width), TERMS))
    return min(terms, ceil(ceil(terms / ceil(terms / limit)) / PACKED) * PACKED)


def pack_cycles(weights: RunTimeWeights) -> float:
    """Predicted cycles to pack the taps of one term for a column."""
    return max(FLOAT_CYCLES, packing_cycles(weights.blocks)) * weights.count  # a tap at a time, never whole rows


def vector_cycles(weights: RunTimeWeights, tooms: Sequence[Toom], device: Device) -> float:
    """Predicted cycles to pack and transform the taps of one term for a vector of columns: two operations a cycle, and
    a store a point."""
    operations, lines = 0.0, prod(toom.taps for toom in tooms)
    for toom in tooms:
        lines = lines // toom.taps * toom.inputs
        operations += lines // toom.inputs * (1 + len(toom.pairs) * (toom.taps + 2))
    stores = lines * device.costs.register_tile.transform
    return pack_cycles(weights) * device.vector_lanes + operations / 2 + stores


def transformed(
    l: Expr, tooms: Sequence[Toom], taps: Sequence[Expr], k: tuple[Expr, ...], n: Expr, width: int
) -> np.ndarray:
    """Constant weights as [panel, point, k, width] in fp32, transformed in double precision; zero beyond n."""
    values = evaluate_over(l, (*taps, *k, n)).astype(np.float64)
    for d, toom in enumerate(tooms):
        values = np.moveaxis(np.tensordot(toom.of_taps, values, ([1], [d])), 0, d)
    points, size = prod(toom.inputs for toom in tooms), n.value.extent
    panels = ceil(size / width)
    padded = np.zeros((points, prod(v.value.extent for v in k), panels * width), np.float32)
    padded[:, :, :size] = values.reshape(points, -1, size)
    return padded.reshape(points, -1, panels, width).transpose(2, 0, 1, 3)

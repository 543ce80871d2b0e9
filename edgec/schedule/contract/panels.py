"""Panels that are packed at run time: the terms of a column, or the columns of a term, are neighbors in memory.

Runtime functions then take whole blocks: words of four bytes from four rows at once, or squares of words or floats that
are turned in registers. Everything else is packed element by element.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from edgec.device.device import Device
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.nest import coefficient, is_fixed, mergeable, most
from edgec.ir.types import DTYPES
from edgec.schedule.contract.int8_dot import DotGroup, int8_load
from edgec.schedule.contract.parts import LONG
from edgec.schedule.storage import bytes_along, memory_type

#: Cycles that an element takes where it is packed on its own, in a block of floats, and in a block of bytes.
ELEMENT_CYCLES, FLOAT_CYCLES, BYTE_CYCLES = 2.0, 0.75, 0.25
#: The same in a block of floats whose columns are neighbors, so that rows are copied.
ROW_CYCLES = 0.25
#: The same in a block whose columns lie anywhere.
COLUMN_CYCLES = 1.0
#: Bytes between terms of L from which on they are read past the first-level cache.
FAR_BYTES = 2048
#: The same in a block of floats that are no neighbors, as a tap of the weights of a convolution.
APART_CYCLES = 1.5


@dataclass(frozen=True)
class PackedBlocks:
    """L as a run reads it: ``load``, terms ``step`` and columns ``stride`` elements apart along the loops ``inner``,
    which it walks as one; columns lie anywhere where ``stride`` is None.

    ``flip`` tells whether sign bits of bytes are turned.
    """

    load: Expr
    inner: tuple[Expr, ...]
    step: int
    stride: int | None
    flip: bool = False


def packed_blocks(l: Expr, k: tuple[Expr, ...], n: Expr, dots: DotGroup | None) -> PackedBlocks | None:
    """The blocks of an L that is packed at run time, over loops of the sum, innermost last; None where elements are
    packed one by one."""
    if not k or k[-1].op != "var" or n.op != "var":
        return None
    found = (l, 0) if dots is None else int8_load(l)
    load = found[0] if found is not None else l
    if load.op != "load" or memory_type(load) != load.dtype or not load.args:
        return None
    step, stride = (coefficient(load.args[0], v) for v in (k[-1], n))
    if not step or stride == 0 or any(coefficient(load.args[0], v) is None for v in k):
        return None
    if dots is None:
        first = len(k) - 1
        while first and mergeable(k[first - 1], k[first], [load.args[0]]):
            first -= 1
        return PackedBlocks(load, k[first:], step, stride) if load.dtype == "f32" else None
    if not is_fixed(*k) or 1 not in (step, stride):
        return None
    return PackedBlocks(load, k, step, stride, load.dtype == "u8")


def packing_cycles(blocks: PackedBlocks | None) -> float:
    """Cycles that packing takes for an element."""
    if blocks is None:
        return ELEMENT_CYCLES
    if blocks.load.dtype != "f32":
        return BYTE_CYCLES
    if blocks.stride is None:
        return COLUMN_CYCLES
    if blocks.stride == 1:
        return ROW_CYCLES
    return FLOAT_CYCLES if blocks.step == 1 else APART_CYCLES


def reads_far(l: Expr, k: tuple[Expr, ...], device: Device) -> bool:
    """Is an L that is read where it lies read past the first-level cache?

    Terms of a long sum are more than that holds, and terms far apart fall on few of its sets.
    """
    if not device.l1d_bytes:
        return False
    return prod(map(most, k)) >= LONG or any(bytes_along(load, v) >= FAR_BYTES for load in X.loads(l) for v in k)


def in_panels(values: np.ndarray, width: int, dtype: str) -> np.ndarray:
    """Panels [outer, panel, k, width] of an array [outer, k, n], with zeros where the last panel exceeds n."""
    around, steps, columns = values.shape
    whole, rest = divmod(columns, width)
    panels = np.zeros((around, whole + (rest > 0), steps, width), DTYPES[dtype])
    panels[:, :whole] = values[:, :, : whole * width].reshape(around, steps, whole, width).transpose(0, 2, 1, 3)
    if rest:
        panels[:, whole, :, :rest] = values[:, :, whole * width :]
    return panels

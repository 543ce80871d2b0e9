"""Panels that are packed at run time: the terms of a column, or the columns of a term, are neighbors in memory.

Runtime functions then take whole blocks: words of four bytes from four rows at once, or squares of words or floats that
are turned in registers. Everything else is packed element by element.
"""

from __future__ import annotations

from dataclasses import dataclass

from edgec.ir.expr import Expr
from edgec.ir.nest import coefficient, is_fixed
from edgec.schedule.contract.int8_dot import DotGroup, int8_load
from edgec.schedule.storage import memory_type

#: Cycles that an element takes where it is packed on its own, in a block of floats, and in a block of bytes.
ELEMENT_CYCLES, FLOAT_CYCLES, BYTE_CYCLES = 2.0, 0.75, 0.25
#: The same in a block of floats that are no neighbors, as a tap of the weights of a convolution.
APART_CYCLES = 1.5
#: Terms of such floats that are packed of each tap before the next ones: what lies between them is in cache then.
CHUNK = 16


@dataclass(frozen=True)
class PackedBlocks:
    """L as a run reads it: ``load``, terms ``step`` and columns ``stride`` elements apart along ``inner``.

    ``flip`` tells whether sign bits of bytes are turned.
    """

    load: Expr
    inner: Expr
    step: int
    stride: int
    flip: bool = False


def packed_blocks(l: Expr, inner: Expr, n: Expr, dots: DotGroup | None) -> PackedBlocks | None:
    """The blocks of an L that is packed at run time; None where elements are packed one by one."""
    if inner.op != "var" or n.op != "var":
        return None
    found = (l, 0) if dots is None else int8_load(l)
    load = found[0] if found is not None else l
    if load.op != "load" or memory_type(load) != load.dtype or not load.args:
        return None
    step, stride = (coefficient(load.args[0], v) for v in (inner, n))
    if not step or not stride:
        return None
    if dots is None:
        return PackedBlocks(load, inner, step, stride) if load.dtype == "f32" else None
    if not is_fixed(inner) or 1 not in (step, stride):
        return None
    return PackedBlocks(load, inner, step, stride, load.dtype == "u8")


def packing_cycles(blocks: PackedBlocks | None) -> float:
    """Cycles that packing takes for an element."""
    if blocks is None:
        return ELEMENT_CYCLES
    if blocks.load.dtype != "f32":
        return BYTE_CYCLES
    return FLOAT_CYCLES if 1 in (blocks.step, blocks.stride) else APART_CYCLES

"""Sums of products of bf16: two of them (four, by instructions for matrices) are one step of a contraction.

They are added up in fp32.

A panel of L is ``[k/2][lanes][2]``, 32 bits a lane; of S, which lies in memory as bf16, two neighbors in the sum are
broadcast together. Machines with the instruction add both products at once; elsewhere a half of a word becomes a float
by a shift or a mask. 64-bit Arm multiplies two rows of S by two columns of L, four numbers of each: as for bytes
(`int8_dot`), a panel is ``[k/4][lanes][4]`` there, and accumulators hold two rows of the tile.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from edgec.device.device import Device
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.nest import coefficient, is_fixed
from edgec.schedule.contract.int8_dot import DotGroup
from edgec.schedule.contract.micro_kernel import Sum
from edgec.schedule.flat import evaluate_over
from edgec.schedule.storage import memory_type


def bf16_sum(device: Device, k: tuple[Expr, ...], s: Expr, l: Expr, rows: int) -> Sum | None:
    """The sum over ``k`` by bf16 from memory, and by constants; one column of L is for ``rows`` sums. Else None."""
    if s.op != "load" or memory_type(s) != "bf16" or not is_fixed(*k):
        return None
    if any(coefficient(s.args[0], v) is None for v in X.free_variables(s.args[0])):
        return None
    return Sum(device, "bf16", k, s, l, rows)


def packed_pairs(
    l: Expr, dots: DotGroup, size: int, outer: tuple[Expr, ...], k: tuple[Expr, ...], n: Expr, width: int
) -> np.ndarray:
    """[outer.., panel, dots, width] in i32: two bf16 a lane (or two such rows a word), zeros beyond the ends of L."""
    values = evaluate_over(l, (*outer, *k, n))
    columns = n.value.extent if n.op == "var" else 1
    around = int(np.prod([v.value.extent for v in outer], dtype=int))
    extent = k[-1].value.extent if k else 1
    values = values.reshape(around, -1, extent, columns)
    panels = -(-columns // width)
    shape = (around, values.shape[1], dots.count * size, panels * width)
    padded = np.zeros(shape, ml_dtypes.bfloat16)
    padded[:, :, :extent, :columns] = values
    split = padded.reshape(around, shape[1] * dots.count, size, panels, width).transpose(0, 3, 1, 4, 2)
    return np.ascontiguousarray(split).view(np.int32).reshape(around, panels, -1, width)

"""Rows of S that are computed on lanes ahead of their products, where memory holds no floats that could be broadcast.

One by one, every element is converted for itself (of 16 bits, in half the time that its products take), and again for
every panel. On lanes, a row of a tile is converted a few vectors at a time into memory, from where it is broadcast.
"""

from __future__ import annotations

from edgec.device.device import Device
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.nest import coefficient, is_fixed, most
from edgec.ir.vector import LANES, is_vectorizable
from edgec.schedule.storage import memory_type

#: Vectors of a row that are computed at a time.
VECTORS = 4


def ahead_of(s: Expr, k: tuple[Expr, ...], device: Device) -> int:
    """Elements of a row of S that are computed ahead of their products; 0 where each is taken when it is needed."""
    inner, lanes = (k[-1] if k else X.const(0)), device.lanes(4)
    if lanes < 4 or inner not in X.free_variables(s) or not is_fixed(inner) or most(inner) <= device.unroll:
        return 0
    if (s.op == "load" and memory_type(s) == "f32") or LANES.get(s.dtype) != "float":
        return 0
    steps = {coefficient(load.args[0], inner) for load in X.loads(s)}
    if not steps <= {0, 1} or not is_vectorizable(s, inner):
        return 0
    return min(VECTORS, -(-most(inner) // device.vector_lanes)) * device.vector_lanes

"""Formulas as one thread of a GPU computes them: scalars, or LANES neighbors in one ``ec_vf``."""

from __future__ import annotations

from edgec.emit.c_expression import COMPARE, Printer
from edgec.emit.c_lanes import access
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.nest import coefficient
from edgec.schedule.gpu.kernel import is_aligned
from edgec.schedule.products import BYTES
from edgec.schedule.storage import memory_type


class GpuPrinter(Printer):
    """As in C, but that loads of neighbors are known to be aligned, or made one by one."""

    def _load(self, e: Expr) -> str:
        if not self.is_vector(e) or self.lane is None:
            return super()._load(e)
        lies = memory_type(e)
        pointer, (address,) = self.parameters[e.value], e.args
        place = f"{pointer} + {self.position(address)}"
        if is_aligned(address, self.lane):
            return f"{access('load', lies, None)}({place})"
        return f"{access('gather', lies, None)}({place}, {coefficient(address, self.lane)})"

    def to_store(self, e: Expr) -> str:
        """Lanes are floats; where bytes lie in memory, the store cuts them."""
        return self.vector(e.args[0] if e.op == "cast" and e.dtype in BYTES and e.args[0].dtype == "f32" else e)

    def _scalar_call(self, e: Expr) -> str:
        if e.op in COMPARE and all(a.dtype == "i64" and _is_position(a) for a in e.args):
            a, b = map(self.position, e.args)
            return f"({a} {COMPARE[e.op]} {b})"
        return super()._scalar_call(e)


def _is_position(e: Expr) -> bool:
    """Is it calculated from loops and sizes alone, so that it fits where positions do?"""
    return all(x.op in ("var", "size", "const", "add", "sub", "mul", "neg", "floordiv", "floormod") for x in X.walk(e))

"""Expressions of one GPU thread: scalars, or LANES neighbors in one ``ec_vf``."""

from __future__ import annotations

import numpy as np

from edgec.emit.c_expression import COMPARE, Printer
from edgec.emit.c_lanes import access
from edgec.emit.c_text import advanced
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.nest import coefficient
from edgec.schedule.contract.int8_dot import BYTES
from edgec.schedule.gpu.integer import saturated
from edgec.schedule.gpu.kernel import is_aligned
from edgec.schedule.program import Buffer
from edgec.schedule.storage import memory_type


class GpuPrinter(Printer):
    """Expressions as in C; vector loads are aligned, or gathered element by element."""

    marks_branches = False

    def _load(self, e: Expr) -> str:
        if not self.is_vector(e) or self.lane is None:
            return super()._load(e)
        lies = memory_type(e)
        pointer, (address,) = self.parameters[e.value], e.args
        place = advanced(pointer, self.position(address))
        if is_aligned(address, self.lane):
            return f"{access('load', lies, None)}({place})"
        return f"{access('gather', lies, None)}({place}, {coefficient(address, self.lane)})"

    def position(self, e: Expr) -> str:
        if e.op == "select":
            return f"({self.syntax.choice(self.value(e.args[0]), *map(self.position, e.args[1:]))})"
        return super().position(e)

    def _select(self, e: Expr) -> str:
        """A select without a branch where both sides are cheap, so that no load waits for the condition."""
        condition, then, otherwise = e.args
        if self.is_vector(e) or not _is_cheap(then) or not _is_cheap(otherwise):
            return super()._select(e)
        test = self.value(condition)
        taken = self.value(_only_if(condition, then, True))
        other = self.value(_only_if(condition, otherwise, False))
        return self._bind(e, self.syntax.choice(test, taken, other))

    def to_store(self, e: Expr) -> str:
        """The vector to store: lanes are floats, which stores of int8 truncate."""
        return self.vector(e.args[0] if e.op == "cast" and e.dtype in BYTES and e.args[0].dtype == "f32" else e)

    def stored_type(self, e: Expr) -> str:
        """The type of the vector that `to_store` gives."""
        return "ec_vf"

    def _scalar_call(self, e: Expr) -> str:
        if e.op in COMPARE and all(a.dtype == "i64" and _is_position(a) for a in e.args):
            a, b = map(self.position, e.args)
            return f"({a} {COMPARE[e.op]} {b})"
        return super()._scalar_call(e)


class CudaPrinter(GpuPrinter):
    """As CUDA has it.

    A quotient that is rounded to an integer has no branches, where its divisor allows that. Stores of int8 round and
    saturate by themselves. Where results are ``coarse``, the error function is so, too.
    """

    coarse = False

    def text(self, e: Expr) -> str:
        if e.op == "erf" and self.coarse and e.dtype == "f32":
            return f"ec_coarse_erf({(self.vector if self.is_vector(e) else self.value)(e.args[0])})"
        if e.op == "round" and e.dtype == "f32" and self._is_quotient(e.args[0]):
            print_as, function = (self.vector, "ec_round") if self.is_vector(e) else (self.value, "rintf")
            return f"{function}(ec_quotient({', '.join(map(print_as, e.args[0].args))}))"
        return super().text(e)

    def _is_quotient(self, e: Expr) -> bool:
        return e.op == "div" and self._unused(e) and _is_moderate(e.args[1])

    def to_store(self, e: Expr) -> str:
        found = saturated(e)
        if found is None:
            return super().to_store(e)
        value, zero = found
        is_quotient = self._is_quotient(value)
        text = f"ec_quotient({', '.join(map(self.vector, value.args))})" if is_quotient else self.vector(value)
        return f"ec_rounded{{{text}, {zero}}}"

    def stored_type(self, e: Expr) -> str:
        return "ec_vf" if saturated(e) is None else "ec_rounded"


FIRST = X.const(0)
#: Operations that are cheaper than a branch around them.
_CHEAP = ("load", "const", "var", "cast", "add", "sub", "mul", "neg", "max", "min")
#: Divisors that `ec_quotient` takes, scales of quantization among them.
_LEAST, _MOST = 2.0**-64, 2.0**64


def _is_moderate(divisor: Expr) -> bool:
    """Is it known at build time, and neither tiny nor huge?"""
    if divisor.op == "const":
        return bool(_LEAST <= abs(divisor.value) <= _MOST)
    if divisor.op != "load" or not isinstance(divisor.value, Buffer) or divisor.value.data is None:
        return False
    sizes = np.abs(divisor.value.data)
    return bool(sizes.size and ((sizes >= _LEAST) & (sizes <= _MOST)).all())


def _is_cheap(e: Expr) -> bool:
    """Is it a sum or product of few floats, loaded at positions that depend on loops alone?"""
    loads = X.loads(e)
    inside = {x for load in loads for place in load.args for x in X.walk(place)}
    values = [x for x in X.walk(e) if x not in inside]
    is_small = e.dtype == "f32" and len(values) <= 4 and all(x.op in _CHEAP and x.dtype == "f32" for x in values)
    return is_small and all(_is_position(place) for load in loads for place in load.args)


def _only_if(condition: Expr, e: Expr, then: bool) -> Expr:
    """``e`` with its loads at the beginning of their buffers where ``condition`` is not ``then``."""
    chosen = {}
    for load in X.loads(e):
        for place in load.args:
            either = (place, FIRST) if then else (FIRST, place)
            chosen[load] = X.load(load.value, (X.select(condition, *either),), load.dtype)
    return X.substitute(e, chosen)


def _is_position(e: Expr) -> bool:
    """Is it computed from loops and sizes alone, so that it fits the type of positions?"""
    return all(x.op in ("var", "size", "const", "add", "sub", "mul", "neg", "floordiv", "floormod") for x in X.walk(e))

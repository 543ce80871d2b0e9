"""Which formulas can run on the lanes of a vector."""

from __future__ import annotations

from collections.abc import Iterator

from edgec.device.facts import Device
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.nest import coefficient

INFIX = ("add", "sub", "mul", "div")
COMPARE = ("lt", "le", "gt", "ge", "eq", "ne")
#: Functions with a vector form of the same name in ec_simd.h.
VECTOR = {
    "max", "min", "abs", "sqrt", "floor", "ceil", "trunc", "round", "exp", "log", "log1p", "expm1", "sigmoid",
    "tanh", "erf", "sin", "cos", "pow",
}  # fmt: skip


#: The narrowest vector of ec_simd.h; a machine without vectors computes its lanes one by one.
NARROWEST = 4


def vector_lanes(device: Device) -> int:
    """How many floats a vector of the generated code has."""
    return max(device.lanes(4), NARROWEST)


def vector_registers(device: Device) -> int:
    """How many such vectors a kernel may keep in registers."""
    return max(device.vector_registers * device.lanes(4) // vector_lanes(device), 1)


def has_vector_form(op: str) -> bool:
    """Can this scalar function run on lanes of floats (a comparison giving a mask)?"""
    return op in VECTOR or op in INFIX or op in COMPARE or op in ("select", "neg", "and", "or", "not")


def is_vectorizable(body: Expr, lane: Expr) -> bool:
    """Can ``body`` be computed for consecutive values of ``lane`` at once? Floats, with a vector form each."""
    for e in X.walk(body):
        depends = lane in free(e)
        if e.op == "load" and depends:
            if e.dtype != "f32" or coefficient(e.args[0], lane) is None:
                return False
        elif e.op == "reduce":
            if depends and (e.dtype != "f32" or e.value[0] not in ("add", "mul", "max", "min")):
                return False
        elif e.op in ("cast", "bitcast") and depends:
            return False
        elif depends and e.dtype == "bool":
            if e.op in COMPARE:
                if e.args[0].dtype != "f32":
                    return False
            elif e.op not in ("and", "or", "not"):
                return False
        elif depends and not _has_lanes(e):
            return False
    return body.dtype == "f32"


def _has_lanes(e: Expr) -> bool:
    if e.dtype == "f32":
        return e.op in ("load", "const", "select", "neg", *INFIX, *VECTOR)
    return e.dtype == "i64" and e.op in ("var", "add", "mul", "const", "sub")


def always_computed(body: Expr, lane: Expr) -> Iterator[Expr]:
    """Sub-expressions of ``body`` that are computed whatever is chosen in it.

    A choice that does not depend on ``lane`` is made once for all lanes; what its branches load may lie outside their
    buffers while the other is taken, so nothing of them can be moved out.
    """
    seen: set[Expr] = set()
    stack = [body]
    while stack:
        e = stack.pop()
        if e not in seen:
            seen.add(e)
            yield e
            is_guard = e.op == "select" and lane not in free(e.args[0])
            stack += e.args[:1] if is_guard else e.args


_free_cache: dict[int, tuple[Expr, frozenset[Expr]]] = {}


def free(e: Expr) -> frozenset[Expr]:
    """Free variables, remembered."""
    found = _free_cache.get(id(e))
    if found is not None and found[0] is e:
        return found[1]
    if len(_free_cache) > 200_000:
        _free_cache.clear()
    value = X.free_variables(e)
    _free_cache[id(e)] = (e, value)
    return value

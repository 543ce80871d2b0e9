"""int8 matrix products on a GPU: factors, the addend of an integer sum, and the fp32 epilogue.

Tensor cores and dot products take int8 and uint8 alike, so that no sign is flipped. Constant parts of factors (zero
points) and an integer bias are added to the sum before it becomes a float; the rest of an epilogue is fp32.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from edgec.ir import expr as X
from edgec.ir import positions
from edgec.ir.expr import Expr
from edgec.ir.nest import most
from edgec.ir.vector import bounds
from edgec.schedule.contract.int8_dot import BYTES, int8_of
from edgec.schedule.flat import Weights, evaluate_over, is_constant
from edgec.schedule.program import Buffer

#: Integers up to this one are exact as floats.
EXACT = 2.0**24


@dataclass(frozen=True)
class Factors:
    """The factors S and L as int8 or uint8 (``types``), and the constant ``offset`` of S."""

    s: Expr
    l: Expr
    types: tuple[str, str]
    offset: int


def factors(s: Expr, l: Expr) -> Factors | None:
    """Two factors of an i32 sum as int8; None where one is wider. A constant L is unchanged."""
    found = _byte(s)
    if found is None:
        return None
    if is_constant(l):
        variables = tuple(X.free_variables(l))
        values = evaluate_over(l, variables)
        low, high = int(values.min(initial=0)), int(values.max(initial=0))
        kind = "i8" if low >= -128 and high <= 127 else "u8" if low >= 0 and high <= 255 else ""
        return Factors(found[0], l, (found[0].dtype, kind), found[1]) if kind else None
    other = _byte(l)
    if other is None or found[1] or other[1]:
        return None
    return Factors(found[0], other[0], (found[0].dtype, other[0].dtype), 0)


def _byte(factor: Expr) -> tuple[Expr, int] | None:
    """(int8 load or select, constant added to it) of a factor."""
    found = int8_of(factor)
    return found if found is not None and X.loads(found[0]) else None


def sums_of_columns(l: Expr, n: tuple[Expr, ...], k: tuple[Expr, ...], weights: Weights) -> Expr:
    """Constant L summed along k, as a load over the remaining loops."""
    loops = tuple(v for v in (*X.free_variables(l), *n) if v not in k)
    loops = tuple(dict.fromkeys(v for v in loops if v.op == "var"))
    depth = tuple(v for v in k if v.op == "var")
    values = evaluate_over(l, (*loops, *depth)).astype(np.int64)
    total = values.sum(axis=tuple(range(len(loops), len(loops) + len(depth)))).astype(np.int32)
    return X.load(weights.add(total), (positions.linearize(loops, tuple(map(most, loops))),), "i32")


def started(epilogue: Expr, accumulator: Expr) -> tuple[Expr, Expr, Expr] | None:
    """(addend of the sum, epilogue over a float, that float); None where the sum is used as an integer."""
    readers = [e for e in X.walk(epilogue) if any(a is accumulator for a in e.args)]
    start = X.const(0, "i32")
    if len(readers) == 1 and readers[0].op == "add":
        (joined,) = readers
        start = next((a for a in joined.args if a is not accumulator), accumulator)
        readers = [e for e in X.walk(epilogue) if any(a is joined for a in e.args)]
    if len(readers) != 1 or readers[0].op != "cast" or readers[0].dtype != "f32":
        return None
    as_float = X.load("accumulator", (), "f32")
    changed = X.substitute(epilogue, {readers[0]: as_float})
    return None if accumulator in (start, *X.walk(changed)) else (start, changed, as_float)


def of_floats(body: Expr) -> Expr:
    """The body with int8 that is only converted loaded as floats: lanes hold nothing else."""

    def change(e: Expr) -> Expr | None:
        if e.op != "cast" or e.dtype != "f32":
            return None
        inner = e.args[0]
        if inner.op == "cast" and inner.dtype == "i32":
            inner = inner.args[0]
        if inner.op != "load" or inner.dtype not in BYTES or inner.value.space == "weights":
            return None  # constants may be repacked in their own type
        return X.load(inner.value, inner.args, "f32")

    return X.transform(body, change)


def stored(body: Expr, dtype: str) -> Expr:
    """The float that a store as ``dtype`` truncates; ``body`` itself where it is no such cast."""
    if dtype not in BYTES or body.op != "cast" or body.dtype != dtype or body.args[0].dtype != "f32":
        return body
    low, high = bounds(body.args[0])
    limits = np.iinfo(np.int8 if dtype == "i8" else np.uint8)
    return body.args[0] if low >= limits.min and high <= limits.max else body


def saturated(body: Expr) -> tuple[Expr, int] | None:
    """(float, zero point) of int8 or uint8 that is the rounded float plus the zero point, bounded by its type alone."""
    if body.op != "cast" or body.dtype not in BYTES or body.args[0].dtype != "f32":
        return None
    limits = np.iinfo(np.int8 if body.dtype == "i8" else np.uint8)
    value, left = body.args[0], {"min": limits.max, "max": limits.min}
    while value.op in left:
        bound = left.pop(value.op)
        rest = [a for a in value.args if not (a.op == "const" and a.value == bound)]
        if len(rest) != 1:
            return None
        value = rest[0]
    zero = 0
    if value.op == "add" and any(a.op == "const" for a in value.args):
        (point,) = (a.value for a in value.args if a.op == "const")
        if abs(point) > limits.max - limits.min or point != int(point):
            return None
        zero, value = int(point), next(a for a in value.args if a.op != "const")
    return (value.args[0], zero) if value.op == "round" and not left else None


def exact_in_floats(body: Expr, weights: Weights) -> Expr:
    """Sums of int8, or of products of two, that floats represent exactly, as sums of floats for lanes."""

    def change(e: Expr) -> Expr | None:
        if e.op != "cast" or e.dtype != "f32" or e.args[0].dtype != "i32":
            return None
        parts = e.args[0].args if e.args[0].op == "add" else (e.args[0],)
        found = [_as_float(part, weights) for part in parts]
        if any(f is None for f in found) or sum(limit for f in found if f for limit in f[1:]) > EXACT:
            return None
        values = [f[0] for f in found if f]
        return values[0] if len(values) == 1 else values[0] + values[1]

    return of_floats(X.transform(body, change))


def _as_float(e: Expr, weights: Weights) -> tuple[Expr, float] | None:
    """(the same as a float, its largest magnitude) of an int8 sum or an i32 constant."""
    if e.op == "load" and isinstance(e.value, Buffer) and e.value.data is not None:
        values = e.value.data.astype(np.float32)
        return X.load(weights.add(values), e.args, "f32"), float(np.abs(values).max(initial=0))
    if e.op != "reduce" or e.value[0] != "add":
        return None
    names, inner = X.opened(e)
    terms = inner.args if inner.op == "mul" else (inner,)
    if any(t.op != "cast" or t.args[0].dtype not in BYTES for t in terms):
        return None
    if any(not isinstance(v.value.extent, int) for v in names):
        return None
    each = 256.0 ** len(terms) * prod(most(v) for v in names)
    floats = [_widened(t.args[0], weights) for t in terms]
    return X.reduce("add", names, floats[0] if len(floats) == 1 else floats[0] * floats[1]), each


def _widened(byte: Expr, weights: Weights) -> Expr:
    """int8 as a float, by a converted copy of constants or a converting load."""
    if byte.op == "select":
        condition, *values = byte.args
        return X.select(condition, *(_widened(v, weights) for v in values))
    if byte.op == "load" and byte.value.data is not None:
        return X.load(weights.add(byte.value.data.astype(np.float32)), byte.args, "f32")
    return X.cast(byte, "f32")

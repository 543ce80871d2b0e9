"""Sums of products of bytes on a GPU: what is multiplied, what is added to a sum, and what is a float from there on.

Tensor cores and dot products take signed and unsigned bytes alike, so nothing is flipped. What a factor is more than
its bytes, and an integer bias, are added to the sum before it becomes a float; the rest of an epilogue is of floats.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from edgec.ir import expr as X
from edgec.ir import index
from edgec.ir.expr import Expr
from edgec.ir.nest import most
from edgec.ir.vector import bounds
from edgec.schedule.flat import Weights, evaluate_over, is_constant
from edgec.schedule.products import BYTES, byte_of
from edgec.schedule.program import Buffer

#: Whole numbers up to here are floats.
EXACT = 2.0**24


@dataclass(frozen=True)
class Factors:
    """What is multiplied: S and L as bytes of ``types``; ``offset`` is what S is more than its bytes."""

    s: Expr
    l: Expr
    types: tuple[str, str]
    offset: int


def factors(s: Expr, l: Expr) -> Factors | None:
    """Two factors of a sum in i32 as bytes; None where one is more than a byte. A constant L is what it was."""
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
    """A byte made of what lies in memory, and what is added to it."""
    found = byte_of(factor)
    return found if found is not None and X.loads(found[0]) else None


def sums_of_columns(l: Expr, n: tuple[Expr, ...], k: tuple[Expr, ...], weights: Weights) -> Expr:
    """Constant L summed up along k, as a load over what is left."""
    loops = tuple(v for v in (*X.free_variables(l), *n) if v not in k)
    loops = tuple(dict.fromkeys(v for v in loops if v.op == "var"))
    depth = tuple(v for v in k if v.op == "var")
    values = evaluate_over(l, (*loops, *depth)).astype(np.int64)
    total = values.sum(axis=tuple(range(len(loops), len(loops) + len(depth)))).astype(np.int32)
    return X.load(weights.add(total), (index.linearize(loops, tuple(map(most, loops))),), "i32")


def started(epilogue: Expr, accumulator: Expr) -> tuple[Expr, Expr, Expr] | None:
    """(what is added to the sum, the epilogue over a float, that float); None where the sum is used as an integer."""
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
    """Bytes that are only made floats are loaded as floats: lanes hold nothing else."""

    def change(e: Expr) -> Expr | None:
        if e.op != "cast" or e.dtype != "f32":
            return None
        inner = e.args[0]
        if inner.op == "cast" and inner.dtype == "i32":
            inner = inner.args[0]
        if inner.op != "load" or inner.dtype not in BYTES or inner.value.space == "weights":
            return None  # constants may be laid out anew, as what they are
        return X.load(inner.value, inner.args, "f32")

    return X.transform(body, change)


def stored(body: Expr, dtype: str) -> Expr:
    """The float that a store as ``dtype`` cuts to a byte; ``body`` itself where it may be none."""
    if dtype not in BYTES or body.op != "cast" or body.dtype != dtype or body.args[0].dtype != "f32":
        return body
    low, high = bounds(body.args[0])
    limits = np.iinfo(np.int8 if dtype == "i8" else np.uint8)
    return body.args[0] if low >= limits.min and high <= limits.max else body


def exact_in_floats(body: Expr, weights: Weights) -> Expr:
    """Sums of bytes, or of products of two, that a float holds to the last unit, as sums of floats, for lanes."""

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
    """(the same as a float, how far from zero it is at most) of a sum of bytes or a constant in i32."""
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
    """A byte as a float: of constants a copy, of a choice what is chosen, so that what is loaded is a float."""
    if byte.op == "select":
        condition, *values = byte.args
        return X.select(condition, *(_widened(v, weights) for v in values))
    if byte.op == "load" and byte.value.data is not None:
        return X.load(weights.add(byte.value.data.astype(np.float32)), byte.args, "f32")
    return X.cast(byte, "f32")

"""Constant factors that are codes of few bits, with a scale and an offset for each group of the sum.

The formula is what says so: one load of integers changes inside the groups, and the factor is linear in it. How the
rest is spelled, and what rules have made of it, does not matter. Scales and offsets may be codes themselves, with a
factor for each group of groups.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.nest import most
from edgec.ir.types import FLOATS, bits
from edgec.schedule.flat import evaluate_over

#: Lengths of groups that are looked for, the longest first: elements of the sum, and groups of scales.
GROUPS, SUPERGROUPS = (256, 128, 64, 32, 16), (16, 8, 4, 2)


@dataclass(frozen=True)
class Numbers:
    """[outer, groups, n] scales or offsets: ``factor`` * ``codes`` where they are codes, otherwise ``codes`` alone.

    ``codes`` are stored in their own type: f32, f16, i8 or u8; ``factor`` [outer, groups / span, n] in f32 or f16.
    """

    codes: np.ndarray
    factor: np.ndarray | None = None

    @property
    def span(self) -> int:
        """Groups that share a factor."""
        return 1 if self.factor is None else self.codes.shape[1] // self.factor.shape[1]

    @property
    def values(self) -> np.ndarray:
        """As f32, [outer, groups, n]."""
        found = self.codes.astype(np.float32)
        return found if self.factor is None else found * np.repeat(self.factor.astype(np.float32), self.span, 1)


@dataclass(frozen=True)
class Codes:
    """[outer, groups, group, n] integers, of which a weight is ``scale * (code - zero) + base``.

    Where ``has_points``, ``base`` are zero points of the groups instead: a weight is ``scale * (code - base)``.
    ``low`` is what the formula's codes begin with, and ``place`` where they lie, in terms of the loops ``k`` and n.
    """

    codes: np.ndarray  # from 0 on
    zero: int
    scale: Numbers
    low: int
    place: Expr
    k: tuple[Expr, Expr]
    base: Numbers | None = None
    has_points: bool = False

    @property
    def bits(self) -> int:
        """Bits that a code is stored in: 4, 6 or 8."""
        most_code = int(self.codes.max(initial=0))
        return next(b for b in (4, 6, 8) if most_code < 1 << b)


def codes_of(l: Expr, outer: tuple[Expr, ...], k: Expr, n: Expr) -> Codes | None:
    """The codes of a constant factor over the loops ``outer``, ``k`` (the sum) and ``n``; None where it has none."""
    found = _coded(l, k, GROUPS)
    if found is None:
        return None
    code, (scale, base), first, inner = found
    values = evaluate_over(code, (*outer, first, inner, n)).astype(np.int16)
    values = values.reshape(-1, most(first), most(inner), most(n))
    low = min(int(values.min(initial=0)), 0)
    scales = _numbers(scale, outer, first, n)
    plain = Codes((values - low).astype(np.uint8), -low, scales, low, code.args[0], (first, inner))
    if _is_zero(base):
        return plain
    offsets = _numbers(base, outer, first, n)
    with np.errstate(all="ignore"):
        points = np.rint(-offsets.values / scales.values)
        is_integral = np.array_equal(-points * scales.values, offsets.values)
    if not is_integral:
        return replace(plain, base=offsets)
    points = points - low
    if (points == points.flat[0]).all():
        return replace(plain, zero=int(points.flat[0]))
    if points.min() < 0 or points.max() > 255:
        return replace(plain, base=offsets)
    return replace(plain, zero=0, base=Numbers(points.astype(np.uint8)), has_points=True)


def _coded(e: Expr, k: Expr, lengths: tuple[int, ...]) -> tuple[Expr, tuple[Expr, Expr], Expr, Expr] | None:
    """(code, (a, b), groups, group) with e = a * code + b, for the longest groups of ``k`` in which a and b stay."""
    extent = most(k)
    for length in lengths:
        if extent % length:
            continue
        first, inner = X.fresh(extent // length), X.fresh(length)
        body = X.substitute(e, {k: first * length + inner})
        inside = [x for x in X.loads(body) if inner in X.free_variables(x)]
        if len(inside) != 1 or inside[0].dtype in FLOATS or bits(inside[0].dtype) > 8:
            continue
        parts = _linear(body, inside[0])
        if parts is not None and not any(inner in X.free_variables(p) for p in parts):
            return inside[0], parts, first, inner
    return None


def _numbers(e: Expr, outer: tuple[Expr, ...], groups: Expr, n: Expr) -> Numbers:
    """The numbers of a scale or an offset: as codes with a factor where they are, otherwise as f16 or f32."""
    found = _coded(e, groups, SUPERGROUPS) if groups.op == "var" else None
    if found is not None and _is_zero(found[1][1]):
        code, (factor, _), first, inner = found
        codes = evaluate_over(code, (*outer, first, inner, n)).reshape(-1, most(groups), most(n))
        kind = np.uint8 if int(codes.astype(np.int16).min(initial=0)) >= 0 else np.int8
        return Numbers(codes.astype(kind), _floats(factor, outer, first, n))
    return Numbers(_floats(e, outer, groups, n))


def _floats(e: Expr, outer: tuple[Expr, ...], groups: Expr, n: Expr) -> np.ndarray:
    """[outer, groups, n] in f16 where that is exact, otherwise in f32."""
    values = evaluate_over(e, (*outer, groups, n)).astype(np.float32).reshape(-1, most(groups), most(n))
    with np.errstate(over="ignore"):
        half = values.astype(np.float16)
    return half if np.array_equal(half.astype(np.float32), values) else values


def _is_zero(e: Expr) -> bool:
    return e.op == "const" and e.value == 0


def _linear(e: Expr, code: Expr) -> tuple[Expr, Expr] | None:
    """(a, b) with e = a * code + b, neither of which has ``code`` in it; None where there are none."""
    if e is code:
        return X.const(1.0, "f32"), X.const(0.0, "f32")
    if all(x is not code for x in X.walk(e)):
        return X.const(0.0, "f32"), X.cast(e, "f32")
    if e.op == "cast" and (e.dtype == "f32" or (e.dtype in ("i32", "i64") and e.args[0].dtype not in FLOATS)):
        return _linear(e.args[0], code)
    if e.dtype not in ("f32", "i32", "i64"):  # narrower ones wrap around, or round
        return None
    if e.op not in ("neg", "add", "sub", "mul") and not (e.op == "div" and e.dtype == "f32"):
        return None
    parts = [_linear(a, code) for a in e.args]
    if any(p is None for p in parts):
        return None
    (a, b), *rest = (p for p in parts if p is not None)
    if e.op == "neg":
        return _times(a, X.const(-1.0, "f32")), _times(b, X.const(-1.0, "f32"))
    ((c, d),) = rest
    if e.op in ("add", "sub"):
        sign = X.const(1.0 if e.op == "add" else -1.0, "f32")
        return _plus(a, _times(c, sign)), _plus(b, _times(d, sign))
    if _is_zero(c):
        return (_times(a, d), _times(b, d)) if e.op == "mul" else (a / d, b if _is_zero(b) else b / d)
    return (_times(c, b), _times(d, b)) if e.op == "mul" and _is_zero(a) else None


def _plus(a: Expr, b: Expr) -> Expr:
    return b if _is_zero(a) else a if _is_zero(b) else a + b


def _times(a: Expr, b: Expr) -> Expr:
    if _is_zero(a) or _is_zero(b):
        return X.const(0.0, "f32")
    for one, other in ((a, b), (b, a)):
        if one.op == "const" and one.value == 1:
            return other
        if one.op == "const" and other.op == "const":
            return X.const(one.value * other.value, "f32")
    return a * b

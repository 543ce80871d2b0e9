"""Constant factors that are codes of few bits, with a scale and an offset for each group of the sum.

The formula is what says so: one load of integers changes inside the groups, and the factor is linear in it. How the
rest is spelled, and what rules have made of it, does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.nest import most
from edgec.ir.types import FLOATS, bits
from edgec.schedule.flat import evaluate_over

#: Lengths of groups that are looked for, the longest first.
GROUPS = (256, 128, 64, 32, 16)


@dataclass(frozen=True)
class Codes:
    """[outer, groups, group, n] integers, of which a weight is ``scale * code + base``."""

    codes: np.ndarray
    scale: np.ndarray  # [outer, groups, n], f32
    base: np.ndarray | None  # the same


def codes_of(l: Expr, outer: tuple[Expr, ...], k: Expr, n: Expr) -> Codes | None:
    """The codes of a constant factor over the loops ``outer``, ``k`` (the sum) and ``n``; None where it has none."""
    length = most(k)
    for group in GROUPS:
        if length % group:
            continue
        first, inner = X.fresh(length // group), X.fresh(group)
        body = X.substitute(l, {k: first * group + inner})
        inside = [e for e in X.loads(body) if inner in X.free_variables(e)]
        if len(inside) != 1 or inside[0].dtype in FLOATS or bits(inside[0].dtype) > 8:
            continue
        parts = _linear(body, inside[0])
        if parts is None or any(inner in X.free_variables(p) for p in parts):
            continue
        axes = (*outer, first, n)
        codes = evaluate_over(inside[0], (*outer, first, inner, n))
        scale, base = (evaluate_over(p, axes).astype(np.float32).reshape(-1, most(first), most(n)) for p in parts)
        return Codes(codes.reshape(-1, most(first), group, most(n)), scale, base if base.any() else None)
    return None


def _linear(e: Expr, code: Expr) -> tuple[Expr, Expr] | None:
    """(a, b) with e = a * code + b, neither of which has ``code`` in it; None where there are none."""
    if e is code:
        return X.const(1.0, "f32"), X.const(0.0, "f32")
    if all(x is not code for x in X.walk(e)):
        return X.const(0.0, "f32"), X.cast(e, "f32")
    if e.op == "cast" and e.dtype in ("f32", "i32", "i64"):
        return _linear(e.args[0], code)
    if e.op == "neg":
        found = _linear(e.args[0], code)
        return found and (-found[0], -found[1])
    if e.op not in ("add", "sub", "mul", "div"):
        return None
    left, right = (_linear(a, code) for a in e.args)
    if left is None or right is None:
        return None
    if e.op in ("add", "sub"):
        return X.call(e.op, left[0], right[0]), X.call(e.op, left[1], right[1])
    has = [any(x is code for x in X.walk(a)) for a in e.args]
    if all(has) or (e.op == "div" and has[1]):
        return None
    (a, b), factor = (left, right[1]) if has[0] else (right, left[1])
    return X.call(e.op, a, factor), X.call(e.op, b, factor)

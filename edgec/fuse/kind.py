"""The schedule that a formula asks for."""

from __future__ import annotations

from typing import Literal

from edgec.fuse.attention import attention_of
from edgec.fuse.pooled import pooled_of
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.graph import Formula
from edgec.ir.index import upper
from edgec.ir.memory import remembered
from edgec.ir.nest import split_formula

#: The schedules, the most specialized first.
Kind = Literal["contract", "attention", "window", "row", "map", "procedure"]
#: A window of more elements than this is a reduction over rows, not a window.
WINDOW_LIMIT = 64


def contraction_factors(body: Expr) -> tuple[Expr, Expr] | None:
    """The two factors when ``body`` is one sum of products under element-wise work, else None."""
    sums = [e for e in X.walk(body) if e.op == "reduce"]
    if len(sums) != 1 or sums[0].value[0] != "add" or sums[0].args[0].op != "mul":
        return None
    left, right = sums[0].args[0].args
    return left, right


@remembered(4096)
def kind_of(derived: Formula) -> Kind:
    """The schedule a formula asks for."""
    if attention_of(derived.body) is not None:
        return "attention"
    sums = [e for e in X.walk(derived.body) if e.op == "reduce"]
    if not sums:
        return "map"
    variables = _loop_variables(derived)
    pooled = pooled_of(derived.body)
    product = derived.body if pooled is None else pooled.sum
    if contraction_factors(product) is not None and sums[0].dtype in ("f32", "i32"):
        split = split_formula(derived) if pooled is None and len(variables) == 1 else None
        if _is_product(product, variables) or (split and _is_product(split.body, frozenset(split.variables))):
            return "contract"
    window = 1
    for s in sums:
        for v in s.value[1]:
            window *= upper(v.extent)
    fixed = all(isinstance(v.extent, int) for s in sums for v in s.value[1])
    if len(sums) == 1 and sums[0].height == 1 and variables and window <= WINDOW_LIMIT and fixed:
        return "window"
    return "row"


def _is_product(body: Expr, variables: frozenset[Expr]) -> bool:
    """Does some loop belong to one factor alone, so that what the other holds is used again and again?"""
    factors = contraction_factors(body)
    if factors is None:
        return False
    left, right = (X.free_variables(f) & variables for f in factors)
    return left != right


def _loop_variables(derived: Formula) -> frozenset[Expr]:
    return frozenset(v for v in derived.variables if v.op == "var")

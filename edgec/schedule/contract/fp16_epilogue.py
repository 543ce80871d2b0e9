"""Epilogue of an fp16 sum, in fp16 too: a bias and clipping bounds, if the result is stored in fp16.

``sum * scale + bias`` is rounded once, as storing it does, and no number in between is larger than what is stored: so
there is nothing that floats would keep. The bias is rounded to a half, as another value of the result's size would be.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from edgec.ir import expr as X
from edgec.ir import positions
from edgec.ir.dtypes import ends
from edgec.ir.expr import Expr
from edgec.ir.nest import coefficient, most
from edgec.schedule.flat import Weights, evaluate_over, is_constant
from edgec.schedule.program import Buffer

#: Fp16Accumulation of a vector: so many are read at once, the last ones beyond the end of what there is.
LANES = 8


@dataclass(frozen=True)
class Fp16Epilogue:
    """``sum * scale + bias``, at least ``low`` and at most ``high``; scale and bias are loads along the lanes."""

    scale: Expr
    bias: Expr
    low: float
    high: float

    def of(self, total: Expr) -> Expr:
        """The formula for a sum."""
        value = total * self.scale + self.bias
        value = value if self.low == -inf else X.call("max", value, X.const(self.low, "f32"))
        return value if self.high == inf else X.call("min", value, X.const(self.high, "f32"))


def fp16_epilogue(
    e: Expr, total: Expr, powers: np.ndarray, outer: tuple[Expr, ...], n: Expr, store: Buffer, address: Expr,
    weights: Weights,
) -> Fp16Epilogue | None:  # fmt: skip
    """The fp16 epilogue for ``e`` on ``powers`` times ``total``, [outer, n]; None if it needs fp32."""
    if store.dtype != "f16" or coefficient(address, n) != 1 or not _is_half(powers):
        return None
    low, high = -inf, inf
    while e.op in ("max", "min"):
        inside, bound = e.args if e.args[1].op == "const" else (e.args[1], e.args[0])
        if bound.op != "const" or not _is_half(np.array(bound.value)):
            return None
        low, high = (max(low, bound.value), high) if e.op == "max" else (low, min(high, bound.value))
        e = inside
    bias = X.const(0.0, "f32")
    if e.op == "add" and total in e.args:
        bias = e.args[1] if e.args[0] is total else e.args[0]
        e = total
    if e is not total or low > high or not is_constant(bias) or not X.free_variables(bias) <= {*outer, n}:
        return None
    values = np.broadcast_to(evaluate_over(bias, (*outer, n)), [most(v) for v in (*outer, n)])
    if not (np.abs(values) <= ends("f16")[1]).all():
        return None
    return Fp16Epilogue(_load(powers, outer, n, weights), _load(values, outer, n, weights), low, high)


def _is_half(values: np.ndarray) -> bool:
    """Is every number one that a half holds?"""
    with np.errstate(over="ignore"):
        return bool((values.astype(np.float16) == values).all())


def _load(values: np.ndarray, outer: tuple[Expr, ...], n: Expr, weights: Weights) -> Expr:
    flat = np.concatenate([values.reshape(-1).astype(np.float16), np.zeros(LANES, np.float16)])
    place = positions.linearize((*outer, n), tuple(most(v) for v in (*outer, n)))
    return X.load(weights.add(flat), (place,), "f32")

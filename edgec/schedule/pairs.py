"""Sums of products of bf16: two of them are one step of a contraction, added up in fp32.

A panel of L is ``[k/2][lanes][2]``, 32 bits a lane; of S, which lies in memory as bf16, two neighbors in the sum are
broadcast together. Machines with the instruction add both products at once; elsewhere a half of a word becomes a float
by a shift or a mask.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.nest import coefficient, is_fixed
from edgec.schedule.flat import evaluate_over
from edgec.schedule.products import Words
from edgec.schedule.storage import memory_type

PAIR = 2


def pairs_of(k: tuple[Expr, ...], s: Expr) -> tuple[Words, Expr, tuple[Expr, ...]] | None:
    """(words, S at the first number of a pair, loops of the sum in pairs) of a sum over ``k``; None without pairs."""
    if s.op != "load" or memory_type(s) != "bf16" or not is_fixed(*k):
        return None
    address = s.args[0]
    if any(coefficient(address, v) is None for v in X.free_variables(address)):
        return None
    inner = k[-1] if k else X.const(0)
    extent = inner.value.extent if inner.op == "var" else 1
    step = coefficient(address, inner) or 0 if inner.op == "var" else 0
    whole, rest = divmod(extent, PAIR)
    word = X.fresh(whole) if whole else X.const(0)
    first = X.substitute(s, {inner: word * PAIR}) if inner.op == "var" else s
    return Words(inner, whole, rest, step, size=PAIR), first, (*k[:-1], word)


def packed_pairs(
    l: Expr, words: Words, outer: tuple[Expr, ...], k: tuple[Expr, ...], n: Expr, width: int
) -> np.ndarray:
    """[outer.., panel, words, width] in i32: two bf16 a lane, zeros where a pair or the last panel reaches beyond L."""
    values = evaluate_over(l, (*outer, *k, n))
    columns = n.value.extent if n.op == "var" else 1
    around = int(np.prod([v.value.extent for v in outer], dtype=int))
    extent = k[-1].value.extent if k else 1
    values = values.reshape(around, -1, extent, columns)
    panels = -(-columns // width)
    shape = (around, values.shape[1], words.count * PAIR, panels * width)
    padded = np.zeros(shape, ml_dtypes.bfloat16)
    padded[:, :, :extent, :columns] = values
    split = padded.reshape(around, shape[1] * words.count, PAIR, panels, width).transpose(0, 3, 1, 4, 2)
    return np.ascontiguousarray(split).view(np.int32)[..., 0]

"""A sum of products as a matrix product, with loops numbered m, n and k."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod
from typing import Literal

from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.nest import coefficient, is_fixed, mergeable, most, used_as_values
from edgec.schedule.contract.operands import is_repeated, without_magnitudes
from edgec.schedule.flat import Flat, is_constant
from edgec.schedule.gpu.kernel import LANES
from edgec.schedule.program import Buffer

#: Signs of L in a product: those of its elements; none, as of magnitudes; none in every second row.
Signs = Literal["kept", "none", "halved"]


@dataclass(frozen=True)
class Product:
    """A matrix product ``out[batch, m, n] = epilogue(sum over k of S * L)``; loops outermost first."""

    store: Buffer
    address: Expr
    batch: Loops
    m: Loops
    n: Loops
    k: Loops
    s: Expr
    l: Expr
    epilogue: Expr  # over ``accumulator``
    accumulator: Expr


def product_of(flat: Flat, dtype: str = "f32", open_rows: bool = False) -> Product | None:
    """``flat`` as a matrix product with sums of ``dtype``; None when it is none, or when an extent is open.

    With ``open_rows``, the number of rows may be.
    """
    sums = [e for e in X.walk(flat.body) if e.op == "reduce"]
    if len(sums) != 1 or sums[0].value[0] != "add" or sums[0].args[0].op != "mul" or sums[0].dtype != dtype:
        return None
    k, product = X.opened(sums[0])
    if not is_fixed(*k) or not (open_rows or is_fixed(*flat.loops)):
        return None
    accumulator = X.load("accumulator", (), dtype)
    epilogue = X.substitute(flat.body, {sums[0]: accumulator})
    found = _factors(flat, product.args[0], product.args[1])
    if found is None:
        return None
    s, l, batch, m, n = found
    if not is_fixed(*batch, *n):
        return None
    if is_repeated(flat, X.free_variables(s) | X.free_variables(l)):
        return None
    address = flat.address
    constant = is_constant(l)
    m, (s, l, epilogue), address = _merged(m, (s, l, epilogue), address, constant)
    n, (s, l, epilogue), address = _merged(n, (s, l, epilogue), address, constant)
    k = tuple(sorted(k, key=lambda v: -abs(_step(s, v))))
    k, (s, l, epilogue), _ = _merged(k, (s, l, epilogue), X.const(0), constant)
    return Product(flat.store, address, batch, m, n, k, s, l, epilogue, accumulator)


Loops = tuple[Expr, ...]


def apart_from_signs(p: Product) -> tuple[Product, Signs]:
    """The product with L itself where it multiplies by magnitudes of a constant L, and the signs that it multiplies by.

    Where L and its magnitudes are multiplied by a row each, these two rows are the innermost loop of m.
    """
    l, where = without_magnitudes(p.l)
    if where is None or not is_fixed(*p.m):
        return p, "kept"
    if where.op == "const":
        return replace(p, l=l), "none"
    if where not in p.batch:
        return p, "kept"
    batch = tuple(v for v in p.batch if v is not where)
    return replace(p, batch=batch, m=(*p.m, where), l=l), "halved"


def _factors(flat: Flat, left: Expr, right: Expr) -> tuple[Expr, Expr, Loops, Loops, Loops] | None:
    """(S, L, batch, m, n), where L has the loop that is contiguous in the result, else the longest."""
    best: tuple[tuple[bool, bool, int], tuple[Expr, Expr, Loops, Loops, Loops]] | None = None
    for s, l in ((left, right), (right, left)):
        mine, other = X.free_variables(l), X.free_variables(s)
        loops = sorted(flat.loops, key=lambda v: -(coefficient(flat.address, v) or 0))
        n = tuple(v for v in loops if v in mine and v not in other)
        m = tuple(v for v in loops if v in other and v not in mine)
        batch = tuple(v for v in loops if v not in m and v not in n)
        if any(coefficient(flat.address, v) == 1 and most(v) >= LANES for v in batch):
            return None  # depthwise: neighbors share nothing
        contiguous = any(coefficient(flat.address, v) == 1 for v in n)
        key = (contiguous, is_constant(l), prod(map(most, n)))
        if best is None or key > best[0]:
            best = (key, (s, l, batch, m, n))
    return best[1] if best is not None else None


def _step(e: Expr, variable: Expr) -> int:
    places = [load.args[0] for load in X.loads(e) if load.args]
    return max((coefficient(p, variable) or 0 for p in places), default=0)


def _merged(loops: Loops, parts: tuple[Expr, ...], address: Expr, packs: bool) -> tuple[Loops, tuple[Expr, ...], Expr]:
    """Join neighbors that all of S, L, the epilogue and the result step through as one; a packed L adapts."""
    s, l, epilogue = parts
    again = True
    while again:
        again = False
        read = [s, epilogue] if packs else [s, l, epilogue]
        values = frozenset().union(*map(used_as_values, read))
        where = [address, *(load.args[0] for e in read for load in X.loads(e) if load.args)]
        for outer, inner in pairwise(loops):
            if outer in values or inner in values or not mergeable(outer, inner, where):
                continue
            each = inner.value.extent
            joined = X.fresh(outer.value.extent * each)
            change = {outer: X.const(0), inner: joined}
            taken_apart = {outer: joined // each, inner: joined % each}
            s, epilogue, address = (X.substitute(e, change) for e in (s, epilogue, address))
            l = X.substitute(l, taken_apart if packs else change)
            loops = tuple(joined if v is inner else v for v in loops if v is not outer)
            again = True
            break
    return loops, (s, l, epilogue), address

"""The operands of a contraction: which factor gives the lanes, and the loops around them, merged and in order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.memory import remembered
from edgec.ir.nest import coefficient, is_fixed, mergeable, most, used_as_values
from edgec.ir.vector import is_vectorizable
from edgec.schedule.contract.epilogue import around_sum, over_lanes
from edgec.schedule.flat import Flat, evaluate_over, is_constant


@dataclass(frozen=True)
class Operands:
    """A sum of products with its factors told apart, and its loops merged and in order."""

    flat: Flat
    dtype: str
    epilogue: Expr
    accumulator: Expr
    window: tuple[Expr, ...]
    outer: tuple[Expr, ...]
    panel_outer: tuple[Expr, ...]
    m: Expr
    n: Expr
    k: tuple[Expr, ...]
    s: Expr
    l: Expr
    mode: str
    magnitudes: Expr | None = None  # of L are multiplied where this is 1, elements of L themselves where it is 0


@remembered(32)  # several schedules ask, of one block each
def operands(flat: Flat, can_gather: bool = True, swapped: bool = False, packs: bool = False) -> Operands | None:
    """The operands of ``flat``; None when it is no sum of products that lanes can share.

    Unless it ``can_gather``, lanes run along a factor that is constant, or contiguous in memory; where they are
    ``swapped``, along the factor that is not the usual one.
    """
    taken = around_sum(flat.body)
    if taken is None or taken.sum.dtype not in ("f32", "i32"):
        return None
    k, product = X.opened(taken.sum)
    chosen = _choose_lanes(flat, product.args[0], product.args[1], taken.window, can_gather, swapped)
    if chosen is None:
        return None
    l, s, n = chosen
    if _is_depthwise(flat, product.args, n):
        return None
    l, magnitudes = without_magnitudes(l)
    mine = X.free_variables(l) | X.free_variables(s)
    if is_repeated(flat, mine):
        return None
    rows = [v for v in flat.loops if v in mine and v not in X.free_variables(l)]
    if not is_vectorizable(over_lanes(taken.epilogue, n), n):
        return None
    flat, s, epilogue, m = _merge_rows(flat, s, taken.epilogue, rows, magnitudes)
    flat, l, epilogue, n = _merge_columns(flat, l, epilogue, n, X.free_variables(s))
    mode = _lane_mode(l, n)
    if (mode == "packed" and not is_fixed(*X.free_variables(l))) or (mode == "direct" and packs):
        mode = "gathered"
    if mode == "gathered" and l.op == "load" and l.dtype == "f32" and not is_constant(s):
        flat, l, epilogue, n = _join_columns(flat, l, epilogue, n, X.free_variables(s))
    k, s, l = _merge_sum(k, s, l, mode)
    outer = tuple(v for v in flat.loops if v is not m and v is not n)
    panel_outer = tuple(v for v in outer if v in X.free_variables(l))
    outer = panel_outer + tuple(v for v in outer if v not in panel_outer)
    return Operands(
        flat, taken.sum.dtype, epilogue, taken.accumulator, taken.window, outer, panel_outer, m, n, k, s, l, mode,
        magnitudes,
    )  # fmt: skip


def without_magnitudes(l: Expr) -> tuple[Expr, Expr | None]:
    """A constant factor without the function that takes its signs off, and where that is applied.

    It is 1 for magnitudes throughout, or the loop in whose second iteration they are; None where there are none.
    """
    if not is_constant(l):
        return l, None
    if l.op == "abs":
        return l.args[0], X.const(1)
    if l.op != "select" or l.args[2].op != "abs" or l.args[2].args[0] is not l.args[1]:
        return l, None
    choice, signed, _ = l.args
    (loop,) = X.free_variables(choice) if len(X.free_variables(choice)) == 1 else (None,)
    if loop is None or loop in X.free_variables(signed) or most(loop) != 2:
        return l, None
    return (signed, loop) if [*evaluate_over(choice, (loop,))] == [True, False] else (l, None)


def is_repeated(flat: Flat, mine: frozenset[Expr]) -> bool:
    """Are there loops that neither factor depends on, for each of which every sum would be computed again?"""
    return any(most(v) > 1 for v in flat.loops if v not in mine)


def _choose_lanes(
    flat: Flat, left: Expr, right: Expr, window: tuple[Expr, ...], can_gather: bool, swapped: bool
) -> tuple[Expr, Expr, Expr] | None:
    """(lane factor, scalar factor, lane loop): contiguous in the result if possible, then as long as possible.

    Lanes are a fixed number of elements apart in the result. What a ``window`` is taken of has no lanes: its sums are
    rows of a tile.
    """
    if swapped:
        usual = _choose_lanes(flat, left, right, window, True, False)
        pairs = ((left, right), (right, left)) if usual is None else ((usual[1], usual[0]),)
    else:
        pairs = ((left, right), (right, left))
    best: tuple[tuple[int, int, int, int], tuple[Expr, Expr, Expr]] | None = None
    for lane, scalar in pairs:
        mine, other = X.free_variables(lane), X.free_variables(scalar)
        for v in () if mine & {*window} else flat.loops:
            if v in mine and v not in other:
                step = coefficient(flat.address, v)
                if step is None:
                    continue
                contiguous = int(step == 1)
                ready = 2 if is_constant(lane) else int(_lane_mode(lane, v) == "direct")
                score = (contiguous, ready, int(is_fixed(v)), most(v))
                if (ready or can_gather) and (best is None or score > best[0]):
                    best = (score, (lane, scalar, v))
    return best[1] if best else None


def _is_depthwise(flat: Flat, factors: tuple[Expr, ...], n: Expr) -> bool:
    """Both factors share the loop that is contiguous in the result: lanes belong there, and nothing is broadcast."""
    shared = X.free_variables(factors[0]) & X.free_variables(factors[1])
    contiguous = [v for v in flat.loops if coefficient(flat.address, v) == 1]
    return n not in contiguous and any(v in shared and most(v) >= 4 for v in contiguous)


def _lane_mode(factor: Expr, n: Expr) -> str:
    if is_constant(factor):
        return "packed"
    if factor.op == "load" and factor.dtype == "f32" and coefficient(factor.args[0], n) == 1:
        return "direct"
    return "gathered"


def _merge_rows(
    flat: Flat, scalar: Expr, epilogue: Expr, rows: list[Expr], apart: Expr | None
) -> tuple[Flat, Expr, Expr, Expr]:
    """Join the row loops that step through every buffer as one, but for ``apart``; the longest result is tiled."""

    def addresses() -> list[Expr]:
        return [flat.address, *(e.args[0] for x in (scalar, epilogue) for e in X.loads(x) if e.args)]

    again = True
    while again:
        again = False
        fixed = used_as_values(scalar) | used_as_values(epilogue)
        for outer in rows:
            for inner in rows:
                if outer is inner or apart in (outer, inner) or outer in fixed or inner in fixed:
                    continue
                if not mergeable(outer, inner, addresses()):
                    continue
                joined = X.fresh(outer.value.extent * inner.value.extent)
                change = {outer: X.const(0), inner: joined}
                scalar, epilogue = X.substitute(scalar, change), X.substitute(epilogue, change)
                loops = tuple(joined if v is inner else v for v in flat.loops if v is not outer)
                flat = replace(flat, loops=loops, address=X.substitute(flat.address, change))
                rows = [joined if v is inner else v for v in rows if v is not outer]
                again = True
                break
            if again:
                break
    if not rows:
        return flat, scalar, epilogue, X.const(0)
    # Short steps in the result keep a tile within few cache lines.
    tiled = max(rows, key=lambda v: (min(most(v), 8), -(coefficient(flat.address, v) or 0)))
    return flat, scalar, epilogue, tiled


def _merge_columns(
    flat: Flat, lane: Expr, epilogue: Expr, n: Expr, others: frozenset[Expr]
) -> tuple[Flat, Expr, Expr, Expr]:
    """Join the lane loop with those around it that step through every buffer as one with it."""
    fixed = used_as_values(lane) | used_as_values(epilogue) | others
    for outer in (v for v in flat.loops if v is not n and v in X.free_variables(lane)):
        addresses = [flat.address, *(e.args[0] for x in (lane, epilogue) for e in X.loads(x) if e.args)]
        if outer in fixed or n in fixed or not mergeable(outer, n, addresses):
            continue
        joined = X.fresh(outer.value.extent * n.value.extent)
        change = {outer: X.const(0), n: joined}
        loops = tuple(joined if v is n else v for v in flat.loops if v is not outer)
        joint = replace(flat, loops=loops, address=X.substitute(flat.address, change))
        return _merge_columns(joint, X.substitute(lane, change), X.substitute(epilogue, change), joined, others)
    return flat, lane, epilogue, n


def _join_columns(
    flat: Flat, lane: Expr, epilogue: Expr, n: Expr, others: frozenset[Expr]
) -> tuple[Flat, Expr, Expr, Expr]:
    """Join the lane loop with those around it that step through the result as one with it, as the taps of weights do:
    columns of L are packed from wherever they lie."""
    fixed = used_as_values(lane) | used_as_values(epilogue) | others
    for outer in (v for v in flat.loops if v is not n and v in X.free_variables(lane)):
        addresses = [flat.address, *(e.args[0] for e in X.loads(epilogue) if e.args)]
        if outer in fixed or n in fixed or not is_fixed(outer, n) or coefficient(flat.address, n) != 1:
            continue
        if not mergeable(outer, n, addresses):
            continue
        joined, each = X.fresh(outer.value.extent * n.value.extent), n.value.extent
        change = {outer: X.const(0), n: joined}
        loops = tuple(joined if v is n else v for v in flat.loops if v is not outer)
        joint = replace(flat, loops=loops, address=X.substitute(flat.address, change))
        lane = X.substitute(lane, {outer: joined // each, n: joined % each})
        return _join_columns(joint, lane, X.substitute(epilogue, change), joined, others)
    return flat, lane, epilogue, n


def _merge_sum(k: tuple[Expr, ...], s: Expr, l: Expr, mode: str) -> tuple[tuple[Expr, ...], Expr, Expr]:
    """Order the loops of the sum by their step through S, or through an L that is packed at run time, and merge those
    that S (and an unpacked L) walks as one."""
    packs = mode == "gathered" and l.dtype == "f32" and not is_constant(s)
    read = X.loads(l if packs else s)
    first = read[0].args[0] if read else X.const(0)
    if packs:  # flipped weights are packed as they lie
        back = {v: v.value.extent - 1 - v for v in k if (coefficient(first, v) or 0) < 0}
        s, l, first = (X.substitute(e, back) for e in (s, l, first))
    loops = sorted(k, key=lambda v: -abs(coefficient(first, v) or 0))
    plain = used_as_values(s) if mode == "packed" else used_as_values(s) | used_as_values(l)
    again = True
    while again:
        again = False
        for outer, inner in pairwise(loops):
            where = [e.args[0] for e in X.loads(s)]
            if mode != "packed":
                where += [e.args[0] for e in X.loads(l)]
            if outer in plain or inner in plain or not mergeable(outer, inner, where):
                continue
            each = inner.value.extent
            joined = X.fresh(outer.value.extent * each)
            s = X.substitute(s, {outer: X.const(0), inner: joined})
            change = {outer: joined // each, inner: joined % each} if mode == "packed" else {
                outer: X.const(0), inner: joined}  # fmt: skip
            l = X.substitute(l, change)
            loops = [joined if v is inner else v for v in loops if v is not outer]
            again = True
            break
    return tuple(loops), s, l

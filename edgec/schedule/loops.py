"""Common parts of the schedules map, window and row: reductions split from their loop, weights along lanes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.loads import replace_loads
from edgec.ir.nest import coefficient, is_fixed, mergeable, most, used_as_values
from edgec.ir.vector import HALF, LANES, chosen, is_repeated
from edgec.schedule.flat import Flat, Weights, evaluate_over, is_constant, merge_loops, with_contiguous_weights

#: Lanes that short rows are joined to, at most.
JOINED = 256


def reduced(k: int, dtype: str) -> Expr:
    """The value of a row's k-th reduction."""
    return X.load(("reduction", k), (), dtype)


def repacked(body: Expr, loops: tuple[Expr, ...], n: Expr, weights: Weights) -> Expr:
    """Weights contiguous along the lanes ``n``, those inside reductions too."""

    def change(e: Expr) -> Expr | None:
        if e.op != "reduce":
            return None
        names, inner = X.opened(e)
        return X.reduce(e.value[0], names, with_contiguous_weights(inner, (*loops, *names), n, weights))

    return X.transform(with_contiguous_weights(body, loops, n, weights), change)


def lanes_of_reductions(flat: Flat, lanes: Sequence[Expr]) -> list[Expr]:
    """The loop along which all reductions read what is contiguous, where they read nothing so along ``lanes``.

    What is reduced is read more often than a result is stored, so that results are stored lane by lane rather than
    their terms gathered.
    """
    places = [e.args[0] for r in X.walk(flat.body) if r.op == "reduce" for e in X.loads(r) if e.args]
    if not places or any(_is_near(a, v) for a in places for v in lanes[:1]):
        return []
    steps = {v: {coefficient(a, v) for a in places} for v in flat.loops if coefficient(flat.address, v) is not None}
    return sorted((v for v, found in steps.items() if 1 in found and found <= {0, 1} and most(v) >= 16), key=most)[-1:]


def _is_near(address: Expr, lane: Expr) -> bool:
    """Are elements along ``lane`` neighbors, or not far from each other? Those that data choose are not."""
    step = coefficient(address, lane)
    return step == 1 or (
        step is None and not any(lane in X.free_variables(e) and not is_constant(e) for e in X.loads(address))
    )


def are_few_gathered(body: Expr, n: Expr, lanes: int) -> bool:
    """Would less than half of a vector along ``n`` be used, and all of that be gathered element by element?"""
    steps = {coefficient(e.args[0], n) for e in X.loads(body) if e.args}
    return most(n) * 2 < lanes and bool(steps) and not steps & {0, 1}


def with_joined_lanes(flat: Flat, lane: Expr, lanes: int, weights: Weights) -> tuple[Flat, Expr]:
    """(formula, lane loop) where several rows of few lanes are one, so that vectors are full.

    Everything that is computed lies row behind row, and constants of the lanes are repeated for every row. The same
    formula and loop where that cannot be, or rows fill vectors by themselves.
    """
    n = most(lane)
    if n >= 2 * lanes or n % lanes == 0 or not is_fixed(lane) or any(e.op == "reduce" for e in X.walk(flat.body)):
        return flat, lane
    loads = [e for e in X.loads(flat.body) if e.args]
    repeated = [e for e in loads if e.value.space == "weights" and X.free_variables(e.args[0]) == {lane}]
    whole = [flat.address, *(e.args[0] for e in loads if e not in repeated)]
    rows = [v for v in flat.loops if v is not lane and is_fixed(v) and mergeable(v, lane, whole)]
    rows = [v for v in rows if not {v, lane} & used_as_values(flat.body)]
    if not rows or not repeated:
        return flat, lane
    extent = most(rows[0])
    times = max(
        (t for t in range(1, extent + 1) if extent % t == 0 and t * n <= JOINED),
        key=lambda t: (t * n % lanes == 0, t),
        default=1,
    )
    if times == 1:
        return flat, lane
    long, outer = X.fresh(times * n), X.fresh(extent // times) if times < extent else X.const(0)
    tables: dict[Expr, Expr] = {}
    for e in repeated:
        values = evaluate_over(e, (lane,))
        tables[e] = X.load(weights.add(np.tile(values, times)), (long,), e.dtype)
    change = {rows[0]: outer * times, lane: long}

    def moved(slot: Any, place: tuple[Expr, ...]) -> Expr:
        load = X.load(slot, place, slot.dtype)
        return (
            tables[load] if load in tables else X.load(slot, tuple(X.substitute(i, change) for i in place), slot.dtype)
        )

    ahead = {lane: long, rows[0]: outer}
    loops = tuple(w for w in (ahead.get(v, v) for v in flat.loops) if w.op == "var")
    joined = replace(
        flat, loops=loops, body=replace_loads(flat.body, moved), address=X.substitute(flat.address, change)
    )
    return joined, long


def in_wide_sums(flat: Flat) -> Flat | None:
    """A sum of products of 16 bits as what it is, a sum of floats that is rounded at its end; None where it is none."""
    sums = [e for e in X.walk(flat.body) if e.op == "reduce"]
    if len(sums) != 1 or sums[0].value[0] != "add" or sums[0].dtype not in HALF or sums[0].args[0].op != "mul":
        return None
    names, product = X.opened(sums[0])
    a, b = map(_widened, product.args)
    return replace(flat, body=X.substitute(flat.body, {sums[0]: X.cast(X.reduce("add", names, a * b), sums[0].dtype)}))


def _widened(factor: Expr) -> Expr:
    """A factor of 16 bits as a float: a load widens what is stored in fewer bits, as all loads do."""
    if factor.op == "load" and getattr(factor.value, "dtype", None) in HALF:
        return X.load(factor.value, factor.args, "f32")
    return X.cast(factor, "f32")


def in_order_of_sum(flat: Flat, weights: Weights) -> Flat:
    """Weights inside sums laid out in the order in which the other factor lies in memory."""

    def change(e: Expr) -> Expr | None:
        if e.op != "reduce":
            return None
        names, inner = X.opened(e)
        read = [load.args[0] for load in X.loads(inner) if load.args and load.value.space != "weights"]
        if not read or not names:  # a sum over extents of 1 has no loop
            return None
        order = sorted(names, key=lambda v: -abs(coefficient(read[0], v) or 0))
        return X.reduce(e.value[0], names, with_contiguous_weights(inner, (*flat.loops, *order), order[-1], weights))

    return replace(flat, body=X.transform(flat.body, change))


@dataclass(frozen=True)
class Parts:
    """A formula of reductions over the same loops, taken apart; the fields are those of `edgec.schedule.row.Row`."""

    loops: tuple[Expr, ...]
    walk: tuple[Expr, ...]
    row: Expr
    reductions: tuple[tuple[X.Combine, Expr], ...]
    result: Expr
    keeps_row: bool
    address: Expr

    @property
    def passes(self) -> list[Expr]:
        """The passes along the row, in order."""
        return [*(inner for _, inner in self.reductions), *([self.result] if self.keeps_row else [])]

    @property
    def is_of_numbers(self) -> bool:
        """Are none of the reductions of truth values, which lanes hold as masks?"""
        return all(LANES.get(inner.dtype) != "mask" for _, inner in self.reductions)

    @property
    def reduced_addresses(self) -> list[Expr]:
        """The positions of everything that the reductions load."""
        return [e.args[0] for _, inner in self.reductions for e in X.loads(inner) if e.args]

    @property
    def computed_addresses(self) -> list[Expr]:
        """Those of them that are not of constants."""
        loads = (e for _, inner in self.reductions for e in X.loads(inner) if e.args)
        return [e.args[0] for e in loads if e.value.space != "weights"]


def taken_apart(flat: Flat) -> Parts | None:
    """The reductions of ``flat`` and what follows them; None when they do not go over one and the same loop."""
    return _over_loops(merge_reductions(merge_loops(flat)), ("row",))


def taken_apart_by_nests(flat: Flat) -> Parts | None:
    """The same of reductions over equal nests of loops, of which those are merged that memory holds as one."""
    nest = _over_loops(flat, tuple(f"walk{k}" for k in range(_most_loops(flat.body))))
    return _merged_walk(nest) if nest is not None else None


def is_contiguous(parts: Parts) -> bool:
    """Do the reductions and the store of a row step by one along it, wherever they depend on it?

    Elements that are repeated along it, or lie where a table says, are near enough to each other.
    """
    if parts.keeps_row and coefficient(parts.address, parts.row) != 1:
        return False
    loads = [e for _, inner in parts.reductions for e in X.loads(inner) if e.args]
    apart = [e for e in loads if coefficient(e.args[0], parts.row) not in (0, 1)]
    return all(is_repeated(e, parts.row) or _is_placed(e, parts.row) for e in apart)


def _is_placed(load: Expr, lane: Expr) -> bool:
    """Does a table of constants choose the places of a load along ``lane``?"""
    found = chosen(load.args[0], lane)
    return found is not None and is_constant(found[1])


def _most_loops(body: Expr) -> int:
    return max((len(e.value[1]) for e in X.walk(body) if e.op == "reduce"), default=0)


def _over_loops(flat: Flat, names: Sequence[str]) -> Parts | None:
    """The formula taken apart, all its reductions being over loops of these names; None where that cannot be."""
    sums = [e for e in X.walk(flat.body) if e.op == "reduce"]
    extents = {tuple(v.extent for v in s.value[1]) for s in sums}
    if len(extents) != 1 or any(s.value[0] not in ("add", "mul", "max", "min") for s in sums):
        return None
    (along,) = extents
    if not along or len(along) != len(names):
        return None
    walk = tuple(X.var(name, n) for name, n in zip(names, along))
    outside = frozenset().union(*(X.free_variables(s) for s in sums))
    keep = tuple(v for v in flat.loops if v not in outside)
    change = _paired(keep, walk)
    if change is None:
        return None
    body, address = X.substitute(flat.body, change), X.substitute(flat.address, change)
    done: dict[Expr, Expr] = {}
    reductions = []
    for k, s in enumerate(sorted((e for e in X.walk(body) if e.op == "reduce"), key=lambda e: e.height)):
        inner = X.substitute(X.transform(s.args[0], done.get), dict(zip(X.reduction_variables(s), walk)))
        done[s] = reduced(k, s.dtype)
        reductions.append((s.value[0], inner))
    loops, result = tuple(v for v in flat.loops if v not in keep), X.transform(body, done.get)
    return Parts(loops, walk[:-1], walk[-1], tuple(reductions), result, bool(keep), address)


def _paired(keep: Sequence[Expr], walk: Sequence[Expr]) -> dict[Expr, Expr] | None:
    """For each loop of a result the loop of the reductions that it becomes, by their extents; None if these differ."""
    left, change = list(walk), dict[Expr, Expr]()
    for v in keep:
        same = next((w for w in left if w.value.extent == v.value.extent), None)
        if same is None:
            return None
        left.remove(same)
        change[v] = same
    return change if not keep or not left else None


def _merged_walk(parts: Parts) -> Parts:
    """Loops of a walk merged where all passes step through memory as through one."""
    bodies = (*parts.passes, parts.result)
    places = [e.args[0] for body in bodies for e in X.loads(body) if e.args]
    places += [parts.address] if parts.keeps_row else []
    fixed = frozenset().union(*map(used_as_values, bodies))
    walk = [*parts.walk, parts.row]
    pair = _neighbors(walk, places, fixed)
    if pair is None:
        return parts
    outer, inner = pair
    joined = X.var(outer.value.name, outer.value.extent * inner.value.extent)
    rest = tuple(joined if v is inner else v for v in walk if v is not outer)
    return _merged_walk(_with_walk(parts, rest, {outer: X.const(0), inner: joined}))


def around_row(parts: Parts) -> Parts | None:
    """A walk around the loop along which the reductions read what is contiguous, and preferably the store too.

    What lies across it is gathered, or scattered.
    """
    stored = [parts.address] if parts.keeps_row else []
    walk = (*parts.walk, parts.row)
    read = parts.computed_addresses or parts.reduced_addresses  # constants alone make no row
    steps = {v: [coefficient(a, v) for a in read] for v in walk}
    ends = {v: [coefficient(a, v) for a in stored] for v in walk}
    rows = [v for v in walk if 1 in steps[v] and None not in (*steps[v], *ends[v])]
    if not rows:
        return None
    row = max(rows, key=lambda v: ({*steps[v]} <= {0, 1}, {*ends[v]} <= {1}, most(v)))
    return _with_walk(parts, (*(v for v in walk if v is not row), row), {})


def _with_walk(parts: Parts, walk: tuple[Expr, ...], change: Mapping[Expr, Expr]) -> Parts:
    return replace(
        parts,
        walk=walk[:-1],
        row=walk[-1],
        reductions=tuple((combine, X.substitute(inner, change)) for combine, inner in parts.reductions),
        result=X.substitute(parts.result, change),
        address=X.substitute(parts.address, change),
    )


def as_one_loop(parts: Parts) -> Parts:
    """The same with one loop in place of the walk and the row, whose positions are divided out of it."""
    if not parts.walk:
        return parts
    loops = (*parts.walk, parts.row)
    one = X.var("row", prod(map(most, loops)))
    change, below = dict[Expr, Expr](), 1
    for v in reversed(loops):
        above = one // below if below > 1 else one
        change[v] = above % most(v) if v is not loops[0] else above
        below *= most(v)
    return _with_walk(parts, (one,), change)


def merge_reductions(flat: Flat) -> Flat:
    """Reductions over several loops that memory holds as one become reductions over one."""

    def change(e: Expr) -> Expr | None:
        if e.op != "reduce" or len(e.value[1]) < 2:
            return None
        names, inner = X.opened(e)
        inner = X.transform(inner, change)
        loops = list(names)
        where = [load.args[0] for load in X.loads(inner)]
        while (pair := _neighbors(loops, where, used_as_values(inner))) is not None:
            outer, nested = pair
            joined = X.fresh(outer.value.extent * nested.value.extent)
            inner = X.substitute(inner, {outer: X.const(0), nested: joined})
            loops = [joined if v is nested else v for v in loops if v is not outer]
            where = [load.args[0] for load in X.loads(inner)]
        return X.reduce(e.value[0], loops, inner)

    return replace(flat, body=X.transform(flat.body, change))


def _neighbors(loops: Sequence[Expr], where: Sequence[Expr], fixed: frozenset[Expr]) -> tuple[Expr, Expr] | None:
    """An outer and an inner loop that all positions step through as through one; ``fixed`` are left alone."""
    pairs = ((a, b) for a in loops for b in loops if a is not b and not {a, b} & fixed)
    return next((pair for pair in pairs if mergeable(*pair, where)), None)

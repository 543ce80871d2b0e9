"""Reductions in groups of lanes: each lane wants that of another lane of its group.

Along a loop of channels, ``size`` neighbors each make a group. What is reduced for element k of the group of channel l
is what is reduced for channel ``size * (l // size) + k``: a vector holds the reductions of its channels, and its lanes
are moved within groups. A sum over the channels of a group and their pixels is a sum of ``size`` such reductions.
"""

from __future__ import annotations

from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.loads import outermost
from edgec.ir.nest import group_of, repeats_of


def in_group(e: Expr, lane: Expr | None) -> tuple[Expr, int, int] | None:
    """(reduction, size, element) where ``e`` is that reduction for an element of the group of ``lane``; None elsewhere.

    Loads are of that element alone, or of what all channels of a group share, as are reductions within ``e``.
    """
    if e.op != "reduce" or lane is None or lane not in X.free_variables(e):
        return None
    names, body = X.opened(e)
    nested = [r for r in outermost(body) if lane in X.free_variables(r)]
    hidden = {r: X.load(("nested", k), (), r.dtype) for k, r in enumerate(nested)}
    plain = X.substitute(body, hidden)
    along = [load for load in X.loads(plain) if load.args and lane in X.free_variables(load)]
    groups = {load: found for load in along if (found := group_of(load.args[0], lane)) is not None}
    kinds = {(g.size, g.element) for g in groups.values()}
    if len(kinds) != 1:
        return None
    ((size, element),) = kinds
    shared = [r for load in along if load not in groups for r in [repeats_of(load.args[0], lane)]]
    if any(r is None or (r.times, r.phase) != (size, 0) for r in shared):
        return None
    if any((own := in_group(r, lane)) is None or own[1] != size for r in nested):
        return None
    moved = {load: X.load(load.value, (g.first,), load.dtype) for load, g in groups.items()}
    base = X.substitute(X.substitute(plain, moved), {place: r for r, place in hidden.items()})
    return X.reduce(e.value[0], names, base), size, element


def without_groups(body: Expr, lane: Expr) -> Expr:
    """The formula with the reductions of lanes in place of those of elements of their groups: what is computed once."""

    def change(e: Expr) -> Expr | None:
        found = in_group(e, lane)
        if found is None:
            return None
        names, inner = X.opened(found[0])
        return X.reduce(e.value[0], names, X.transform(inner, change))

    return X.transform(body, change)

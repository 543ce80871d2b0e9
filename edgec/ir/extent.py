"""Extents: numbers, or formulas of run-time sizes, and what they are once the sizes are known."""

from __future__ import annotations

from collections.abc import Mapping

from edgec.ir import expr as X
from edgec.ir.expr import Expr, Extent


def sizes(expr: Extent) -> list[Expr]:
    """The run-time sizes in it, also in the extents of its loops."""
    found: dict[Expr, None] = {}
    seen: set[Expr] = set()
    stack = [expr] if isinstance(expr, Expr) else []
    while stack:
        for e in X.walk(stack.pop()):
            if e in seen:
                continue
            seen.add(e)
            if e.op == "size":
                found[e] = None
            elif e.op == "var":
                stack += [e.value.extent] if isinstance(e.value.extent, Expr) else []
            elif e.op == "reduce":
                stack += [v.extent for v in e.value[1] if isinstance(v.extent, Expr)]
    return list(found)


def at_sizes(expr: Expr, known: Mapping[Expr, int]) -> Expr:
    """The expression for given run-time sizes: nothing in it is symbolic any more, its loops included."""

    def settle(e: Expr) -> Expr | None:
        if e.op == "size":
            return X.const(known[e])
        if e.op == "var":
            return X.var(e.value.name, extent_at(e.value.extent, known))
        if e.op != "reduce":
            return None
        names, body = X.opened(e)
        fixed = [X.fresh(extent_at(n.value.extent, known)) for n in names]
        return X.reduce(e.value[0], fixed, at_sizes(X.substitute(body, dict(zip(names, fixed))), known))

    return X.transform(expr, settle) if known else expr


def extent_at(extent: Extent, known: Mapping[Expr, int]) -> int:
    """The number an extent is for given run-time sizes."""
    return int(at_sizes(extent, known).value) if isinstance(extent, Expr) else extent

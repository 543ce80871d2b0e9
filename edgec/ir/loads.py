"""Loads inside expressions: replacing them, and reductions around them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from edgec.ir.expr import Expr
from edgec.ir.substitution import rebuilt


def reduces(expr: Expr) -> bool:
    """Is there a reduction in it?"""
    return expr.height > 0


def outermost(expr: Expr) -> list[Expr]:
    """The reductions in a formula that are inside no other."""
    found: dict[Expr, None] = {}
    seen: set[Expr] = set()
    stack = [expr]
    while stack:
        e = stack.pop()
        if e in seen:
            continue
        seen.add(e)
        if e.op == "reduce":
            found[e] = None
        else:
            stack += reversed(e.args)
    return list(found)


def replace_loads(
    expr: Expr, change: Callable[[Any, tuple[Expr, ...]], Expr | None], keeps_loops: bool = False
) -> Expr:
    """Replace loads: ``change(slot, index)`` gives the new expression or None to keep it (with a rebuilt index).

    A change that ``keeps_loops`` brings neither sums nor variables.
    """

    def after(old: Expr, new: Expr) -> Expr:
        changed = change(new.value, new.args) if old.op == "load" else None
        return new if changed is None else changed

    return rebuilt(expr, lambda e: None, after, keeps_loops)

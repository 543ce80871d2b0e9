"""Contractions that are pooled in registers: a convolution and the pooling of its result in one kernel.

    out[.., y, x, n] = g(max over dy, dx of f(sum over k of S[.., 2y + dy, 2x + dx, k] * L[k, n]))

This is many-to-many into many-to-many, but where windows do not overlap, every sum belongs to one result: nothing is
repeated, and the sums of a window are neighbors in a register tile.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.nest import Split, is_fixed, mergeable, most

#: Most sums in a pooling window: a register tile must hold several results of several vectors each.
WINDOW_LIMIT = 4


@dataclass(frozen=True)
class Pooled:
    """The parts of a formula: ``whole`` combines ``value`` over ``window``, and ``value`` contains the contraction
    ``sum``."""

    whole: Expr
    window: tuple[Expr, ...]
    value: Expr
    sum: Expr

    @property
    def indices(self) -> list[Expr]:
        """Every index, or position in memory, that is loaded from inside the window."""
        return [i for load in X.loads(self.value) for i in load.args]


def pooled_of(body: Expr) -> Pooled | None:
    """The parts of a formula that pools sums of products, else None."""
    found = [e for e in X.walk(body) if e.op == "reduce"]
    if len(found) != 2 or [e.height for e in found] != [1, 2]:
        return None
    if found[1].value[0] not in ("max", "min", "add") or found[1].dtype != "f32":
        return None
    window, value = X.opened(found[1])
    sums = [e for e in X.walk(value) if e.op == "reduce"]
    count = 1
    for v in window:
        count *= most(v)
    if len(sums) != 1 or not is_fixed(*window) or count > WINDOW_LIMIT:
        return None
    (total,) = sums
    if total.value[0] != "add" or total.args[0].op != "mul" or total.dtype != "f32":
        return None
    if not set(window) <= X.free_variables(total):
        return None
    around = X.substitute(body, {found[1]: X.load("whole", (), "f32")})
    if any(e.op == "reduce" for e in X.walk(around)):  # a sum is read beside its window too
        return None
    return Pooled(found[1], window, value, total)


def partners(window: Sequence[Expr], loops: Iterable[Expr], indices: Iterable[Expr]) -> dict[Expr, Expr] | None:
    """The loop over results that goes on where each loop of a window ends; None where windows overlap or leave gaps."""
    places = list(indices)
    found: dict[Expr, Expr] = {}
    for w in window:
        inside = [i for i in places if w in X.free_variables(i)]
        ours = [v for v in loops if inside and mergeable(v, w, places)]
        if len(ours) != 1:
            return None
        found[w] = ours[0]
    return found


def is_pooled_product(split: Split) -> bool:
    """Is the nest of a block one that the kernels of sums of products can pool: weights, and windows side by side?"""
    found = pooled_of(split.body)
    if found is None or partners(found.window, split.variables, found.indices) is None:
        return False
    _, product = X.opened(found.sum)
    weights = [f for f in product.args if all(load.value.is_const for load in X.loads(f))]
    if len(weights) != 1:
        return False
    (other,) = (f for f in product.args if f is not weights[0])
    lanes, rows = (X.free_variables(f) & set(split.variables) for f in (weights[0], other))
    return bool(lanes) and not lanes & rows and other.op == "load" and is_fixed(*lanes)

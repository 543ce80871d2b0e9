"""Lanes of a result: the loops of a formula whose steps are neighbors in its memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.index import upper
from edgec.ir.lanes import NARROWEST
from edgec.ir.nest import Split, coefficient, mergeable, most
from edgec.ir.types import Type


def stores_in_lanes(split: Split) -> bool:
    """Can lanes run along the innermost dimension of a result, or along its channels? That takes a long enough loop."""

    def is_long(place: Expr, least: int) -> bool:
        return any(coefficient(place, v) == 1 and most(v) >= least for v in split.variables)

    channels = split.position[1] if len(split.position) > 2 else X.const(0)
    last = next((p for p in reversed(split.position) if p.op != "const"), X.const(0))
    return is_long(last, NARROWEST) or is_long(channels, 2 * NARROWEST)


def columns_in_runs(split: Split) -> tuple[int, int]:
    """Columns of a product, and the most of them that are neighbors in its result: within a row, or among channels.

    Columns are the loops of one factor alone: of the constant one, where there is one. (1, 1) where no two are
    neighbors, so that lanes run along something else, unless they are those of groups. Those that what follows the sum
    reads in another way, repeated within a row say, are no neighbors either.
    """
    sums = [e for e in X.walk(split.body) if e.op == "reduce"]
    factors = sums[0].args[0].args if len(sums) == 1 and sums[0].args[0].op == "mul" else ()
    constant = [f for f in factors if all(load.value.is_const for load in X.loads(f))]
    beside = [_place(e.value.type, e.args) for e in _beside_sums(split.body)]
    best = (1, 1)
    for factor in constant[:1] or factors:
        other = frozenset[Expr]().union(*(X.free_variables(f) for f in factors if f is not factor))
        columns = [v for v in split.variables if v in X.free_variables(factor) - other]
        places = (_place(split.type, split.position), *split.position[1:2])
        run = max(_run(place, columns, beside) for place in places)
        if run > best[1]:
            best = (prod(map(most, columns)), run)
        shared = frozenset(split.variables) & X.free_variables(factor) & other
        if constant and columns and best == (1, 1) and any(most(v) > 1 for v in shared):
            return prod(map(most, columns)), 1  # a group's: lanes along groups have no kernel of products
    return best


def _beside_sums(body: Expr) -> Iterator[Expr]:
    """The loads of what follows the sums."""
    seen: set[Expr] = set()
    stack = [body]
    while stack:
        e = stack.pop()
        if e not in seen and e.op != "reduce":
            seen.add(e)
            if e.op == "load":
                yield e
            stack.extend(e.args)


def _place(type: Type, index: Sequence[Expr]) -> Expr:
    """The place of an element in memory, row by row."""
    address = X.const(0)
    for place, extent in zip(index, type.shape):
        address = address * upper(extent) + place
    return address


def _run(address: Expr, columns: Sequence[Expr], beside: Sequence[Expr]) -> int:
    """The most iterations of ``columns`` that step through memory one by one, and as one through all ``beside``."""
    steps = {coefficient(address, v): v for v in columns if most(v) > 1}
    run, inner = 1, None
    while run in steps:
        outer = steps.pop(run)
        if inner is not None and not mergeable(outer, inner, beside):
            break
        run, inner = run * most(outer), outer
    return run

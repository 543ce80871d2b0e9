"""Common parts of the schedules map, window and row: reductions split from their loop, weights along lanes."""

from __future__ import annotations

from dataclasses import dataclass

from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.nest import coefficient, mergeable, used_as_values
from edgec.ir.vector import free
from edgec.schedule.flat import Flat, Weights, with_contiguous_weights


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


@dataclass(frozen=True)
class Parts:
    """A formula of reductions that share one loop, taken apart; the fields are those of `edgec.schedule.row.Row`."""

    loops: tuple[Expr, ...]
    row: Expr
    reductions: tuple[tuple[str, Expr], ...]
    result: Expr
    keeps_row: bool
    address: Expr

    @property
    def passes(self) -> list[Expr]:
        """The passes along the row, in order."""
        return [*(inner for _, inner in self.reductions), *([self.result] if self.keeps_row else [])]


def taken_apart(flat: Flat) -> Parts | None:
    """The reductions of ``flat`` and what follows them; None when they do not share one loop."""
    sums = [e for e in X.walk(flat.body) if e.op == "reduce"]
    extents = {tuple(v.extent for v in s.value[1]) for s in sums}
    if len(extents) != 1 or len(next(iter(extents))) != 1:
        return None
    if any(s.value[0] not in ("add", "mul", "max", "min") for s in sums):
        return None
    ((extent,),) = extents
    line = X.var("row", extent)
    outside = frozenset().union(*(free(s) for s in sums))
    keep = [v for v in flat.loops if v not in outside and coefficient(flat.address, v) == 1]
    if keep and keep[0].value.extent != extent:
        return None
    body, address, loops = flat.body, flat.address, flat.loops
    if keep:
        change = {keep[0]: line}
        body, address = X.substitute(body, change), X.substitute(address, change)
        loops = tuple(v for v in loops if v is not keep[0])
    done: dict[Expr, Expr] = {}
    reductions = []
    for k, s in enumerate(sorted((e for e in X.walk(body) if e.op == "reduce"), key=lambda e: e.height)):
        inner = X.substitute(X.transform(s.args[0], done.get), {X.reduction_variables(s)[0]: line})
        done[s] = reduced(k, s.dtype)
        reductions.append((s.value[0], inner))
    return Parts(loops, line, tuple(reductions), X.transform(body, done.get), bool(keep), address)


def merge_reductions(flat: Flat) -> Flat:
    """Reductions over several loops that memory holds as one become reductions over one."""

    def change(e: Expr) -> Expr | None:
        if e.op != "reduce" or len(e.value[1]) < 2:
            return None
        names, inner = X.opened(e)
        inner = X.transform(inner, change)
        loops = list(names)
        where = [load.args[0] for load in X.loads(inner)]
        for outer, nested in [(a, b) for a in names for b in names if a is not b]:
            if outer not in loops or nested not in loops or {outer, nested} & used_as_values(inner):
                continue
            if mergeable(outer, nested, where):
                joined = X.fresh(outer.value.extent * nested.value.extent)
                inner = X.substitute(inner, {outer: X.const(0), nested: joined})
                loops = [joined if v is nested else v for v in loops if v is not outer]
                where = [load.args[0] for load in X.loads(inner)]
        return X.reduce(e.value[0], loops, inner)

    return Flat(flat.loops, X.transform(flat.body, change), flat.store, flat.address)

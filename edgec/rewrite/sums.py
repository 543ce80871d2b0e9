"""Formulas as sums of terms: a coefficient, variables that are summed over, conditions on indices and factors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.index import is_static


@dataclass(frozen=True)
class Term:
    coefficient: Fraction
    bound: tuple[Expr, ...]
    conditions: tuple[Expr, ...]
    factors: tuple[Expr, ...]


def multiplied_out(t: Term) -> Iterator[Term]:
    """The term with sums of sizes among its factors multiplied out."""
    for at, f in enumerate(t.factors):
        if is_static(f) and f.op in ("add", "mul", "const"):
            others = (*t.factors[:at], *t.factors[at + 1 :])
            parts = [(1, f.args)] if f.op == "mul" else [(1, (a,)) for a in f.args]
            for k, more in [(f.value, ())] if f.op == "const" else parts:
                yield from multiplied_out(Term(t.coefficient * k, t.bound, t.conditions, (*others, *more)))
            return
    yield t


def times(t: Term, k: Fraction) -> Term:
    return Term(t.coefficient * k, t.bound, t.conditions, t.factors)


def product(s: Term, t: Term) -> Term:
    shared = {v: X.fresh(v.value.extent) for v in t.bound if v in s.bound}
    bound = tuple(shared.get(v, v) for v in t.bound)
    conditions, factors = ([X.substitute(e, shared) for e in some] for some in (t.conditions, t.factors))
    return Term(s.coefficient * t.coefficient, (*s.bound, *bound), (*s.conditions, *conditions), (*s.factors, *factors))


def renamed(t: Term, conditions: Sequence[Expr], v: Expr, inside: Expr, by: Expr) -> Term:
    conditions, factors = (tuple(X.substitute(e, {v: by}) for e in some) for some in (conditions, t.factors))
    bound = (*(w for w in t.bound if w is not v), *((inside,) if inside.op == "var" else ()))
    return Term(t.coefficient, bound, conditions, factors)

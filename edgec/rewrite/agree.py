"""Equality of element formulas for all values, sizes and indices: sums of products over index ranges, compared by z3.

A formula is a sum of terms: a coefficient, variables that it is summed over, conditions on indices and factors. Two
are equal where every term of one meets its equal in the other under some order of the variables; indices are compared
as integers by z3. Of exact rules on floats nothing is added up: only what moves, chooses and is looked up is compared.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import permutations

from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.graph import Node
from edgec.ir.index import exact
from edgec.rewrite.element import LISTED, equal
from edgec.rewrite.indices import Indices
from edgec.rewrite.pushed import pushed
from edgec.rewrite.sums import Term, multiplied_out, product, renamed, times

#: Milliseconds for one question about indices.
PATIENCE = 1500
_ORDER = ("lt", "le", "gt", "ge", "eq", "ne")
_SPLITS = 40


class Split(Exception):
    """A condition on indices that has to be taken as true, and as false."""

    def __init__(self, condition: Expr) -> None:
        super().__init__(str(condition))
        self.condition = condition


class Agreement:
    """The comparison of two formulas whose free variables are loops; ``adds``: sums may be taken in any order."""

    def __init__(self, adds: bool) -> None:
        import z3

        self.z3, self.adds = z3, adds
        self.known: list[Expr] = []
        self.outer: frozenset[Expr] = frozenset()

    def holds(self, a: Expr, b: Expr, depth: int = 0) -> bool:
        """Are they equal everywhere?"""
        self.outer = X.free_variables(a) | X.free_variables(b)
        try:
            return self.same(*(pushed(e, self.adds) for e in (a, b)))
        except Split as split:
            if depth == _SPLITS:
                return False
            before = self.known
            for case in (split.condition, X.call("not", split.condition)):
                self.known = [*before, case]
                verdict = self.ask(X.const(False, "bool")) or self.holds(a, b, depth + 1)
                self.known = before
                if not verdict:
                    return False
            return True

    # ---- indices

    def ask(self, condition: Expr) -> bool:
        """Does it hold wherever what is known holds?"""
        translate = Indices(self.z3)
        wanted = translate(condition)
        known = [translate(k) for k in self.known]
        solver = self.z3.Solver()
        solver.set("timeout", PATIENCE)
        solver.add(*known, *translate.ranges(), self.z3.Not(wanted))
        return bool(solver.check() == self.z3.unsat)

    def decided(self, condition: Expr) -> bool | None:
        if self.ask(condition):
            return True
        return False if self.ask(X.call("not", condition)) else None

    # ---- formulas

    def same(self, a: Expr, b: Expr) -> bool:
        a, b = _compared(a), _compared(b)
        if a is b:
            return True
        if _is_position(a) and _is_position(b):
            return self.ask(equal(a, b))
        condition = next((e.args[0] for e in (*X.walk(a), *X.walk(b)) if _is_choice(e)), None)
        if condition is not None:  # by data: on either outcome they have to agree
            return all(self.same(_taken(a, condition, k), _taken(b, condition, k)) for k in (1, 2))
        if self.adds and a.dtype != "bool":
            return self._sums_agree([*self.terms(a), *(times(t, Fraction(-1)) for t in self.terms(b))])
        return self._alike(a, b)

    def _alike(self, a: Expr, b: Expr) -> bool:
        """The same operation on the same operands."""
        a, b = self._chosen(a), self._chosen(b)
        if a is b:
            return True
        if a.op != b.op or a.dtype != b.dtype or len(a.args) != len(b.args):
            return False
        if a.op == "reduce":
            return self._reductions_agree(a, b)
        if a.op in ("load", "const", "var", "size") and a.value != b.value:
            return False
        if a.op in ("const", "var", "size"):
            return a.op != "const" or repr(a.value) == repr(b.value)
        return all(map(self.same, a.args, b.args))

    def _chosen(self, e: Expr) -> Expr:
        """The operand that a choice by indices takes."""
        while e.op == "select" and not X.loads(e.args[0]):
            verdict = self.decided(e.args[0])
            if verdict is None:
                raise Split(self._open_part(e.args[0]))
            e = e.args[1] if verdict else e.args[2]
        return e

    def _open_part(self, c: Expr) -> Expr:
        """The first comparison of a condition that is neither true nor false of what is known."""
        if c.op not in ("and", "or", "not"):
            return c
        return self._open_part(next((a for a in c.args if self.decided(a) is None), c.args[0]))

    def _reductions_agree(self, a: Expr, b: Expr) -> bool:
        if a.value[0] != b.value[0]:
            return False
        (mine, left), (others, right) = self._split_up(*X.opened(a)), self._split_up(*X.opened(b))
        left, mine = _merged(a.value[0], mine, left)
        right, others = _merged(b.value[0], others, right)
        mine, others = self._split_up(mine, left)[0], self._split_up(others, right)[0]
        if len(mine) != len(others):
            return False
        ways = permutations(others) if self.adds or a.value[0] in ("max", "min", "and", "or") else [tuple(others)]
        return any(
            all(self.ask(equal(v.value.extent, w.value.extent)) for v, w in zip(mine, way))
            and self._inside(left, X.substitute(right, dict(zip(way, mine))))
            for way in ways
        )

    def _inside(self, a: Expr, b: Expr) -> bool:
        try:
            return self.same(a, b)
        except Split:  # the condition may depend on what is combined over
            return False

    def _split_up(self, bound: Sequence[Expr], body: Expr) -> tuple[tuple[Expr, ...], Expr]:
        """Loops that are taken apart by division, as loops inside loops."""
        done: list[Expr] = []
        waiting = list(bound)
        while waiting:
            v = waiting.pop(0)
            divided = (e for e in X.walk(body) if e.op in ("floordiv", "floormod"))
            d = next((e.args[1] for e in divided if v in X.free_variables(e.args[0])), None)
            outer = None if d is None else exact(v.value.extent, d)
            if d is None or outer is None or outer == 1 or d.free:
                done.append(v)
                continue
            first, second = X.fresh(outer), X.fresh(d)
            body = X.substitute(body, {v: first * d + second})
            waiting = [w for w in (first, second) if w.op == "var"] + waiting
        return tuple(done), body

    # ---- sums

    def terms(self, e: Expr) -> list[Term]:
        """The formula as a sum."""
        if e.op == "const":
            return [Term(Fraction(e.value), (), (), ())] if e.value else []
        if e.op in ("add", "sub"):
            more = self.terms(e.args[1])
            return self.terms(e.args[0]) + (more if e.op == "add" else [times(t, Fraction(-1)) for t in more])
        if e.op == "neg":
            return [times(t, Fraction(-1)) for t in self.terms(e.args[0])]
        if e.op == "mul":
            return [product(s, t) for s in self.terms(e.args[0]) for t in self.terms(e.args[1])]
        if e.op == "div":
            over = X.raw_call("reciprocal", (e.args[1],), e.dtype)
            return [product(t, Term(Fraction(1), (), (), (over,))) for t in self.terms(e.args[0])]
        if e.op == "cast" and e.dtype != "bool" and e.args[0].dtype != "bool" and not (
            e.args[0].dtype[0] in "fb" and e.dtype[0] in "iu"
        ):  # fmt: skip
            return self.terms(e.args[0])
        if e.op == "reduce" and e.value[0] == "add":
            bound, body = self._split_up(*X.opened(e))
            single = next((v for v in bound if _is_listed(body, v)), None)
            if single is not None:  # term by term
                rest = tuple(v for v in bound if v is not single)
                each = (X.substitute(body, {single: X.const(k)}) for k in range(single.value.extent))
                return [
                    Term(t.coefficient, (*rest, *t.bound), t.conditions, t.factors) for b in each for t in self.terms(b)
                ]
            return [Term(t.coefficient, (*bound, *t.bound), t.conditions, t.factors) for t in self.terms(body)]
        if e.op == "select" and not X.loads(e.args[0]):
            verdict = self.decided(e.args[0])
            if verdict is not None:
                return self.terms(e.args[1] if verdict else e.args[2])
            if X.free_variables(e.args[0]) <= self.outer:
                raise Split(self._open_part(e.args[0]))
            c, yes, no = e.args[0], self.terms(e.args[1]), self.terms(e.args[2])
            inside = [Term(t.coefficient, t.bound, (*_clauses(c), *t.conditions), t.factors) for t in yes]
            outside = [Term(-t.coefficient, t.bound, (*_clauses(c), *t.conditions), t.factors) for t in no]
            return inside + outside + no
        return [Term(Fraction(1), (), (), (e,))]

    def _sums_agree(self, terms: list[Term]) -> bool:
        """Is the sum of the terms zero?"""
        rest = [t for found in terms for t in self._settled(found)]
        while rest:
            first = rest.pop()
            total, others = first.coefficient, []
            for t in rest:
                if self._match(first, t):
                    total += t.coefficient
                else:
                    others.append(t)
            if total:
                return False
            rest = others
        return True

    def _settled(self, t: Term) -> Iterator[Term]:
        """The term without conditions that always hold, and nothing where one never does."""
        for k, c in enumerate(t.conditions):
            others = (*t.conditions[:k], *t.conditions[k + 1 :])
            verdict = self.decided(c)
            if verdict is True:
                yield from self._settled(Term(t.coefficient, t.bound, others, t.factors))
                return
            if verdict is False:
                return
            mine = [v for v in t.bound if v in c.free]
            if not mine:
                raise Split(c)
            if len(mine) == 1 and c.op in _ORDER:
                cut = self._cut(mine[0], c)
                if cut is not None:
                    yield from self._settled(renamed(t, others, mine[0], *cut))
                    return
        used = frozenset().union(*(X.free_variables(e) for e in (*t.conditions, *t.factors)))
        unused = [v for v in t.bound if v not in used]
        factors = list(t.factors)
        coefficient = t.coefficient
        for v in unused:
            if isinstance(v.value.extent, int):
                coefficient *= v.value.extent
            else:
                factors.append(v.value.extent)
        kept = tuple(v for v in t.bound if v in used)
        yield from multiplied_out(Term(coefficient, kept, t.conditions, tuple(factors)))

    def _cut(self, v: Expr, c: Expr) -> tuple[Expr, Expr] | None:
        """A variable that runs over the part of ``v``'s range in which the condition holds, and ``v`` in it."""
        a, b = c.args
        margin = {"lt": lambda: b - a - 1, "le": lambda: b - a, "gt": lambda: a - b - 1, "ge": lambda: a - b}.get(c.op)
        if margin is None:
            return None
        slack = margin()
        n = X.lift(v.value.extent, "i64")
        for sign in (1, -1):
            rest = slack - v * sign
            if v in X.free_variables(rest):
                continue
            low = -rest if sign == 1 else X.const(0)
            count = n - low if sign == 1 else rest + 1
            for fits in (low >= 0, count >= 1, n - low >= count):
                verdict = True if fits.op == "const" and fits.value else self.decided(fits)
                if verdict is None:
                    raise Split(fits)
                if not verdict:
                    return None
            inside = X.fresh(count)
            return inside, inside + low
        return None

    def _match(self, s: Term, t: Term) -> bool:
        counts = (len(s.bound), len(s.factors)) == (len(t.bound), len(t.factors))
        if not counts or sorted(map(_kind, s.factors)) != sorted(map(_kind, t.factors)):
            return False
        for way in permutations(t.bound):
            if not all(self.ask(equal(v.value.extent, w.value.extent)) for v, w in zip(s.bound, way)):
                continue
            renamed = dict(zip(way, s.bound))
            if not self._conditions_agree(s.conditions, [X.substitute(c, renamed) for c in t.conditions]):
                continue
            if self._factors_agree(list(s.factors), [X.substitute(f, renamed) for f in t.factors]):
                return True
        return False

    def _conditions_agree(self, some: Sequence[Expr], others: Sequence[Expr]) -> bool:
        before = self.known
        for given, wanted in ((some, others), (others, some)):
            self.known = [*before, *given]
            verdict = all(map(self.ask, wanted))
            self.known = before
            if not verdict:
                return False
        return True

    def _factors_agree(self, some: list[Expr], others: list[Expr]) -> bool:
        if not some:
            return not others
        first = some[0]
        for k, other in enumerate(others):
            rest = [*others[:k], *others[k + 1 :]]
            if _kind(first) == _kind(other) and self._alike(first, other) and self._factors_agree(some[1:], rest):
                return True
        return False


def _compared(e: Expr) -> Expr:
    """The truth of a comparison of two numbers, and its opposite."""
    if e.op == "not" and e.args[0].op == "const":
        return X.const(not e.args[0].value, "bool")
    if e.op in _ORDER and all(x.op == "const" for x in e.args):
        return X.const(bool(getattr(operator, e.op)(*(x.value for x in e.args))), "bool")
    return e


def _is_position(e: Expr) -> bool:
    """Is it an integer that follows from loops and sizes, some perhaps by way of the elements of a constant?"""
    return e.dtype == "i64" and not X.loads(e)


def _is_listed(body: Expr, v: Expr) -> bool:
    """Does a variable of few values choose among the elements of a constant?"""
    if not isinstance(v.value.extent, int) or v.value.extent > LISTED:
        return False
    return any(e.op == "select" and e.args[0].op == "eq" and v in X.free_variables(e.args[0]) for e in X.walk(body))


def _is_choice(e: Expr) -> bool:
    return e.op == "select" and bool(X.loads(e.args[0])) and not e.args[0].free & _bound_names(e)


def _bound_names(e: Expr) -> frozenset[Expr]:
    return frozenset(v for v in e.args[0].free if v.value.name.startswith("r"))


def _taken(e: Expr, condition: Expr, k: int) -> Expr:
    """``e`` with what is taken where the condition is true (1) or false (2)."""
    if e is condition:
        return X.const(k == 1, "bool")
    return X.transform(
        e,
        lambda x: (
            _taken(x.args[k], condition, k)
            if _is_choice(x) and x.args[0] is condition
            else X.const(k == 1, "bool")
            if x is condition
            else None
        ),
    )


def _merged(combine: str, bound: tuple[Expr, ...], body: Expr) -> tuple[Expr, tuple[Expr, ...]]:
    """The body of reductions by the same function inside one another, and all their variables."""
    while body.op == "reduce" and body.value[0] == combine:
        more, body = X.opened(body)
        bound = (*bound, *more)
    return body, bound


def _clauses(c: Expr) -> tuple[Expr, ...]:
    return tuple(d for a in c.args for d in _clauses(a)) if c.op == "and" else (c,)


def _kind(e: Expr) -> str:
    return f"{e.op} {e.value.key if isinstance(e.value, Node) else e.value if e.op == 'const' else ''} {len(e.args)}"

"""Proofs of changes for all sizes and values: the rule's own code is run on graphs whose extents are open.

Every form that the examples of a rule can draw (permutations, ranks, functions) is one statement about all sizes. The
code of the rule gives the right side, and both sides are compared element by element (``agree``). Where the code does
something else for small or equal sizes, these are cases of their own; that it gives the proved right side is tried at
sizes drawn from every case.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from random import Random
from time import process_time

import numpy as np

from edgec.errors import EdgecError
from edgec.ir import expr as X
from edgec.ir.evaluate import evaluate_node
from edgec.ir.expr import Expr, Extent
from edgec.ir.extent import at_sizes
from edgec.ir.graph import Node, constant, intern, topological
from edgec.ir.registry import node
from edgec.ir.types import FLOATS, Type
from edgec.rewrite.agree import Agreement
from edgec.rewrite.element import element
from edgec.rewrite.forms import MOST, Form, trails
from edgec.rewrite.prove import Instance
from edgec.rewrite.rule import Change

#: Forms of a rule that are gone through, cases of one, and sizes drawn from a case.
FORMS, CASES, DRAWN = 1600, 64, 12
#: Seconds of the processor for all forms of a rule.
PATIENCE = 20


class Unproved(Exception):
    """The reason why a form of a rule has no proof."""


@dataclass(frozen=True)
class General:
    """A proof for all values and for all sizes of every form; ``sums``: of real numbers, else for every bit.

    ``is_open`` is the number of forms with open sizes; of the others the sizes are fixed.
    """

    forms: int
    ranks: tuple[int, ...]
    sums: bool
    is_open: int

    def __str__(self) -> str:
        domain = "reals" if self.sums else "every value"
        ranks = f"{self.ranks[0]} to {self.ranks[-1]}" if self.ranks[0] < self.ranks[-1] else f"{self.ranks[0]}"
        forms = f"{self.forms} form{'s' * (self.forms > 1)} of rank {ranks}"
        if self.is_open == self.forms:
            return f"z3, {domain}, every size, {forms}"
        opened = f", every size in {self.is_open}" if self.is_open else ""
        return f"z3, {domain}, fixed sizes, {forms}{opened}"


def prove_general(rule: Change) -> General | str | None:
    """The proof of a change, the reason why there is none, or None where z3 is not installed."""
    try:
        import z3  # noqa: F401
    except ImportError:
        return None
    ranks: set[int] = set()
    forms = 0
    complete = sums = False
    is_open, start = 0, process_time()
    try:
        for trail, is_last in trails(lambda form: list(rule.examples(form)), FORMS):
            complete = is_last
            count = len(list(rule.examples(Form(trail))))
            for k in range(count):
                found = list(_cases(rule, trail, k, {}, [CASES]))
                for n in found:
                    ranks.add(max(m.type.rank for m in topological([n])))
                    sums |= _adds(rule, n)
                forms += 1
                first = list(rule.examples(Form(trail)))[k]
                is_open += any(m.sizes for m in topological([first]))
                if process_time() - start > PATIENCE:
                    return "it has many forms, of which each takes long"
        if not complete:
            return f"it has more than {FORMS} forms"
    except (Unproved, EdgecError, RecursionError, TypeError, ValueError, AssertionError, AttributeError) as error:
        return str(error).partition("\n")[0]
    return General(forms, tuple(sorted(ranks)), sums, is_open)


def _adds(rule: Change, n: Node) -> bool:
    """May sums be reordered? Integers form a ring; of floats only where the rule says so."""
    return rule.numeric != "exact" or all(m.type.dtype not in FLOATS for m in topological([n]))


def _cases(rule: Change, trail: list[int], k: int, region: Mapping[int, Extent], left: list[int]) -> Iterator[Node]:
    """Prove the ``k``-th graph of a form in a region of sizes; yields the left sides of its cases."""
    form = Form(trail, region)
    left[0] -= 1
    if left[0] < 0:
        raise Unproved("sizes fall into too many cases")
    reason = _wrong(rule, form, k)
    if isinstance(reason, Node):
        yield reason
        return
    split = _halves(form, region)
    if not split:
        raise Unproved(reason)
    for smaller in split:
        yield from _cases(rule, trail, k, smaller, left)


def _halves(form: Form, region: Mapping[int, Extent]) -> list[Mapping[int, Extent]]:
    """The region in two or three: a size at its least or above, then two sizes equal or one the greater."""
    for k, size in enumerate(form.sizes):
        if isinstance(size, Expr) and size.op == "size" and k not in region:
            low = size.value.low
            return [{**region, k: low}, {**region, k: X.size(f"n{k}", low + 1, MOST)}]
    plain = [(k, s) for k, s in enumerate(form.sizes) if isinstance(s, Expr) and s.op == "size"]
    for (j, a), (k, b) in combinations(plain, 2):
        if a is not b and a.value.low == b.value.low and not {"+"} & set(a.value.name + b.value.name):
            more = X.size(f"{a.value.name}+", 1, MOST)
            return [{**region, k: a}, {**region, k: a + more}, {**region, j: b + more}]
    return []


def _wrong(rule: Change, form: Form, k: int) -> Node | str:
    """The left side where it is proved in this region, else what is in the way."""
    try:
        n = list(rule.examples(form))[k]
        found = [p for p in rule.propose(n, Instance(n)) if isinstance(p, Node)]
        if not found:
            return "its code refuses open sizes: " + "; ".join(map(str, rule.propose(n, Instance(n))))
        for right in found:
            if not same(n, right, _adds(rule, n)):
                return "the sides are not found equal"
            different = _differs(rule, n, right)
            if different is not None:
                return different
    except (EdgecError, TypeError, ValueError, AssertionError, AttributeError, KeyError, IndexError) as error:
        return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
    return n


def same(left: Node, right: Node, adds: bool) -> bool:
    """Are two graphs equal for all values and sizes?"""
    if left.type != right.type:
        return False
    index = [X.const(0) if e == 1 else X.fresh(e) for e in left.type.shape]
    return Agreement(adds).holds(element(left, index), element(right, index))


def _differs(rule: Change, n: Node, right: Node) -> str | None:
    """Sizes at which the code gives another right side; None where none of those drawn does."""
    random = Random(rule.name)
    sizes = list(dict.fromkeys(s for m in topological([n]) for s in m.sizes))
    for drawn in range(DRAWN if sizes else 0):
        high = (1, 2, 4, 9)[drawn % 4]
        known = {s: random.randint(s.value.low, s.value.low + high) for s in sizes}
        here, wanted = at(n, known), at(right, known)
        if any(p is not wanted for p in rule.propose(here, Instance(here)) if isinstance(p, Node)):
            return f"its code does something else for {', '.join(f'{s} = {v}' for s, v in known.items())}"
    return None


def at(n: Node, known: Mapping[Expr, int]) -> Node:
    """The graph for given sizes."""

    def settled(value: object) -> object:
        if isinstance(value, tuple):
            return tuple(settled(v) for v in value)
        return X.plain(at_sizes(value, known)) if isinstance(value, Expr) else value

    made: dict[Node, Node] = {}
    for m in topological([n]):
        attrs = {name: settled(value) for name, value in m.attrs}
        if m.op in ("input", "const"):
            made[m] = intern(m.op, (), attrs, Type(m.type.dtype, settled(m.type.shape)))
        elif m.op == "size" and not isinstance(attrs["value"], Expr):  # a number, as rules write it
            made[m] = constant(np.asarray(attrs["value"], np.int64))
        elif m.op == "cast" and m.args[0].op == "size" and made[m.args[0]].is_const:
            made[m] = constant(evaluate_node(m, [made[m.args[0]].value]))
        else:
            made[m] = node(m.op, *(made[a] for a in m.args), **attrs)
    return made[n]

"""Terms: what a rule looks like when its equation is traced with variables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Union

import numpy as np

from edgec import ops
from edgec.ir.functions import FUNCTIONS
from edgec.ir.graph import Node, constant
from edgec.ir.types import DTYPES
from edgec.rewrite.facts import uniform

Number = Union[int, float, bool]
Operand = Union["Term", Number]
Bindings = dict[str, Node]

#: Functions whose operands may change places; rules are matched in either order.
COMMUTATIVE = frozenset({"add", "mul", "max", "min", "eq", "ne", "and", "or", "xor", "bitand", "bitor", "bitxor"})


@dataclass(frozen=True, eq=False)
class Term:
    """A variable (``op`` is "variable"), a number, or a scalar function of terms, lifted over tensors."""

    op: str
    args: tuple[Term, ...] = ()
    name: str = ""
    number: Number = 0

    def __add__(self, other: Operand) -> Term:
        return apply("add", self, other)

    def __radd__(self, other: Operand) -> Term:
        return apply("add", other, self)

    def __sub__(self, other: Operand) -> Term:
        return apply("sub", self, other)

    def __rsub__(self, other: Operand) -> Term:
        return apply("sub", other, self)

    def __mul__(self, other: Operand) -> Term:
        return apply("mul", self, other)

    def __rmul__(self, other: Operand) -> Term:
        return apply("mul", other, self)

    def __truediv__(self, other: Operand) -> Term:
        return apply("div", self, other)

    def __rtruediv__(self, other: Operand) -> Term:
        return apply("div", other, self)

    def __neg__(self) -> Term:
        return apply("neg", self)

    def __and__(self, other: Operand) -> Term:
        return apply("and", self, other)

    def __or__(self, other: Operand) -> Term:
        return apply("or", self, other)

    def __invert__(self) -> Term:
        return apply("not", self)

    def __str__(self) -> str:
        if self.op == "variable":
            return self.name
        if self.op == "number":
            return repr(self.number)
        infix = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
        if self.op in infix:
            return f"({self.args[0]} {infix[self.op]} {self.args[1]})"
        return f"{self.op}({', '.join(map(str, self.args))})"


def variable(name: str) -> Term:
    return Term("variable", name=name)


def apply(name: str, *operands: Operand) -> Term:
    """A scalar function of terms and numbers."""
    assert name in FUNCTIONS, name
    return Term(name, tuple(o if isinstance(o, Term) else Term("number", number=o) for o in operands))


def subterms(term: Term) -> Iterator[Term]:
    yield term
    for a in term.args:
        yield from subterms(a)


def truth_variables(*terms: Term) -> frozenset[str]:
    """Names of the variables that stand where a truth value is expected."""
    found = set()
    for term in terms:
        for t in subterms(term):
            places = t.args if t.op in ("and", "or", "xor", "not") else t.args[:1] if t.op == "select" else ()
            found |= {a.name for a in places if a.op == "variable"}
    return frozenset(found)


def match(term: Term, node: Node, bound: Bindings) -> Iterator[Bindings]:
    """The ways in which ``node`` is an instance of ``term``, given what is bound already."""
    if term.op == "variable":
        if term.name not in bound:
            yield {**bound, term.name: node}
        elif bound[term.name] is node:
            yield bound
    elif term.op == "number":
        if _is_number(node, term.number):
            yield bound
    elif node.op == term.op and len(node.args) == len(term.args):
        yield from _match_all(term.args, node.args, bound)
        if term.op in COMMUTATIVE and node.args[0] is not node.args[1]:
            yield from _match_all(term.args, (node.args[1], node.args[0]), bound)


def _match_all(terms: tuple[Term, ...], nodes: tuple[Node, ...], bound: Bindings) -> Iterator[Bindings]:
    if not terms:
        yield bound
        return
    for found in match(terms[0], nodes[0], bound):
        yield from _match_all(terms[1:], nodes[1:], found)


def _is_number(node: Node, number: Number) -> bool:
    value = uniform(node)
    if value is None or value != number or isinstance(value, bool) != isinstance(number, bool):
        return False
    return not isinstance(value, float) or bool(np.signbit(value) == np.signbit(float(number)))


def instantiate(term: Term, bound: Mapping[str, Node], dtype: str) -> Node:
    """The term with nodes for variables; a number takes the type of its siblings, or else ``dtype``."""
    if term.op == "variable":
        return bound[term.name]
    if term.op == "number":
        return constant(np.array(term.number, DTYPES[dtype]))
    siblings = term.args[1:] if term.op == "select" else term.args
    done = {k: instantiate(a, bound, dtype) for k, a in enumerate(siblings) if a.op != "number"}
    own = next((n.type.dtype for n in done.values()), dtype)
    built = [done[k] if k in done else instantiate(a, bound, own) for k, a in enumerate(siblings)]
    if term.op == "select":
        built.insert(0, instantiate(term.args[0], bound, "bool"))
    return ops.node(term.op, *built)

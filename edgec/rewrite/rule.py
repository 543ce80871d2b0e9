"""Rules in their two forms: an equation traced with variables, and a change for rewrites that are no equation.

    @rule("distributive", numeric="reassociates")
    def factor(x, a, b):
        \"\"\"x*a + x*b = x*(a + b): one multiplication and one read of x less.\"\"\"
        return x * a + x * b, x * (a + b)

    @rule_on("transpose", family="movement", examples=two_transposes)
    def join_transposes(node, view):
        \"\"\"A transpose of a transpose is one transpose.\"\"\"
        ...

A change returns the replacement of its node, or a sentence with the reason why there is none. ``rule`` is the family.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any, Literal, Protocol, Union

from edgec import ops
from edgec.errors import EdgecError
from edgec.ir.graph import Node
from edgec.ir.types import FLOATS
from edgec.rewrite.term import COMMUTATIVE, Term, instantiate, match, truth_variables, variable

#: What a rule does to numbers. ``exact``: every bit stays, NaN and the sign of zero included. ``reassociates``: equal
#: in real arithmetic, so results differ by rounding (and by the sign of zero). ``approximates``: differs visibly
#: somewhere, for instance where an intermediate result would overflow.
Numeric = Literal["exact", "reassociates", "approximates"]
#: "wide" are floats whose range holds the reciprocal of any usual number; 1 / 1e-6 is infinite in f16.
Dtypes = Literal["any", "number", "float", "wide", "integer", "bool"]
Proposal = Union[Node, str]


class RuleError(EdgecError):
    """A rule is wrong or badly written."""


class View(Protocol):
    """The facts about the graph around a node that a rule may use."""

    def uses(self, node: Node) -> int:
        """Number of operators and outputs that read ``node``."""
        ...


@dataclass(frozen=True, eq=False)
class Rule:
    """A rule. ``rule`` is its family, ``ops`` the operators it can apply to, ``summary`` its docstring's first line."""

    name: str
    family: str
    numeric: Numeric
    summary: str
    source: str
    ops: frozenset[str]

    @property
    def needs_smoothness(self) -> bool:
        """Does the rule keep away from values from which a discontinuous function (rounding, floor) is computed?"""
        return False

    @property
    def below(self) -> frozenset[str]:
        """Operators that all have to be among those of a node's arguments for the rule to apply."""
        return frozenset()

    def propose(self, node: Node, view: View) -> Iterator[Proposal]:
        """Nodes equal to ``node``, or sentences with the reason why there is none."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Equation(Rule):
    """left = right for all values of the variables that pass the guard."""

    left: Term
    right: Term
    variables: tuple[str, ...]
    where: Callable[..., bool | str] | None
    dtypes: Dtypes
    truths: frozenset[str]
    smooth: bool

    @cached_property
    def below(self) -> frozenset[str]:
        return frozenset("const" if a.op == "number" else a.op for a in self.left.args if a.op != "variable")

    def propose(self, node: Node, view: View) -> Iterator[Proposal]:
        for bound in match(self.left, node, {}):
            refusal = self.refusal(bound)
            if refusal is not None:
                yield refusal
            else:
                yield fitted(instantiate(self.right, bound, node.type.dtype), node)

    def refusal(self, bound: dict[str, Node]) -> str | None:
        """Reason why the rule does not hold for these nodes; None when it does."""
        for name in self.variables:
            if name not in self.truths and not holds(bound[name].type.dtype, self.dtypes):
                return f"it is a rule of {self.dtypes} types, and {name} is {bound[name].type.dtype}"
        verdict = self.where(*(bound[name] for name in self.variables)) if self.where else True
        return None if verdict is True else str(verdict)

    @property
    def needs_smoothness(self) -> bool:
        return self.smooth

    def __str__(self) -> str:
        return f"{self.left} = {self.right}"


@dataclass(frozen=True, eq=False)
class Change(Rule):
    """A function from a node to an equal one; ``examples`` generates nodes to which it applies, for its proof."""

    change: Callable[[Node, View], Proposal]
    examples: Callable[[Random], Iterable[Node]]

    def propose(self, node: Node, view: View) -> Iterator[Proposal]:
        found = self.change(node, view)
        yield fitted(found, node) if isinstance(found, Node) else found


def holds(dtype: str, dtypes: Dtypes) -> bool:
    return {
        "any": True,
        "number": dtype != "bool",
        "float": dtype in FLOATS,
        "wide": dtype in FLOATS and dtype != "f16",
        "integer": dtype not in FLOATS and dtype != "bool",
        "bool": dtype == "bool",
    }[dtypes]


def fitted(replacement: Node, node: Node) -> Node:
    """The replacement, broadcast to the shape of ``node`` (as for x + 0, where the 0 had the larger shape)."""
    if replacement.type.shape != node.type.shape:
        return ops.node("broadcast", replacement, shape=node.type.shape)
    return replacement


def rule(
    family: str,
    *,
    numeric: Numeric = "exact",
    dtypes: Dtypes = "number",
    where: Callable[..., bool | str] | None = None,
    smooth: bool = False,
) -> Callable[[Callable[..., tuple[Any, Any]]], Rule]:
    """An equation: the function returns its two sides, written with its parameters as variables.

    ``family`` is for display. ``where`` is a guard with the same parameters: it gets nodes, and returns True or a
    sentence with the reason why not. Numbers in an equation represent constants of any shape with that one value. A
    ``smooth`` rule adds a rounding error: it is not applied to values from which a discontinuous function (rounding,
    floor) is computed.
    """

    def decorate(function: Callable[..., tuple[Any, Any]]) -> Rule:
        names = tuple(inspect.signature(function).parameters)
        left, right = function(*map(variable, names))
        right = right if isinstance(right, Term) else Term("number", number=right)
        if left.op in ("variable", "number"):
            raise RuleError("the left side must be an operation", where=_place(function))
        about = _described(function, family, numeric, (left.op,))
        return Equation(*about, left, right, names, where, dtypes, truth_variables(left, right), smooth)

    return decorate


def rule_on(
    *ops: str, family: str, examples: Callable[[Random], Iterable[Node]], numeric: Numeric = "exact"
) -> Callable[[Callable[[Node, View], Proposal]], Rule]:
    """A change of nodes of the operators ``ops``: a function of the node and a view of the graph around it.

    ``rule`` is the name of its family. ``examples`` gets a random generator and yields nodes to which the change must
    apply.
    """

    def decorate(function: Callable[[Node, View], Proposal]) -> Rule:
        return Change(*_described(function, family, numeric, ops), function, examples)

    return decorate


def _described(
    function: Callable[..., Any], family: str, numeric: Numeric, roots: Iterable[str]
) -> tuple[str, str, Numeric, str, str, frozenset[str]]:
    summary = (inspect.getdoc(function) or "").partition("\n")[0]
    if not summary:
        raise RuleError("a rule needs a docstring that says it in words", where=_place(function))
    return function.__name__, family, numeric, summary, _place(function), frozenset(roots)


def _place(function: Callable[..., Any]) -> str:
    code = function.__code__
    return f"{code.co_filename}:{code.co_firstlineno}"


__all__ = ["COMMUTATIVE", "Change", "Equation", "Numeric", "Proposal", "Rule", "RuleError", "View", "rule", "rule_on"]

"""Rewriting graphs by proved rules. Files of rules need nothing but this module, ``edgec.ops`` and numpy."""

from edgec.rewrite.applied import Applied, Considered
from edgec.rewrite.engine import consider
from edgec.rewrite.facts import (
    both,
    constants,
    greatest,
    invertible,
    is_static,
    least,
    nonnegative,
    positive,
    power_of_two,
    static,
    uniform,
)
from edgec.rewrite.load import load_rules, rules_in
from edgec.rewrite.rule import Change, Equation, Rule, RuleError, View, rule, rule_on
from edgec.rewrite.shipped import simplify
from edgec.rewrite.term import Operand, Term, apply

__all__ = [
    "Applied",
    "Change",
    "Considered",
    "Equation",
    "Rule",
    "RuleError",
    "View",
    "absolute",
    "apply",
    "both",
    "consider",
    "constants",
    "exp",
    "greatest",
    "invertible",
    "is_static",
    "least",
    "load_rules",
    "log",
    "maximum",
    "minimum",
    "nonnegative",
    "positive",
    "power",
    "power_of_two",
    "rule",
    "rule_on",
    "rules_in",
    "select",
    "sigmoid",
    "simplify",
    "sqrt",
    "static",
    "tanh",
    "uniform",
]


def exp(x: Operand) -> Term:
    return apply("exp", x)


def log(x: Operand) -> Term:
    return apply("log", x)


def sqrt(x: Operand) -> Term:
    return apply("sqrt", x)


def sigmoid(x: Operand) -> Term:
    return apply("sigmoid", x)


def tanh(x: Operand) -> Term:
    return apply("tanh", x)


def absolute(x: Operand) -> Term:
    return apply("abs", x)


def maximum(x: Operand, y: Operand) -> Term:
    return apply("max", x, y)


def minimum(x: Operand, y: Operand) -> Term:
    return apply("min", x, y)


def power(x: Operand, y: Operand) -> Term:
    return apply("pow", x, y)


def select(condition: Operand, then: Operand, otherwise: Operand) -> Term:
    return apply("select", condition, then, otherwise)

"""Scalar identities by a prover: the two sides of an equation are equal for all values, not only for those tried.

z3 decides arithmetic, order, choices, truth values and bits; sympy what has exponentials, logarithms, roots and powers.
Both reason about real numbers (bits: about integers of 8 bits): rounding, infinities and NaN are what the instances of
``prove`` are for. Divisions are taken where they are defined. Where an identity needs more than that, the least
conditions that suffice are found, and ``meets`` holds them against what the guard lets pass.

The packages are the extra ``prove``; nothing of a build needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import combinations, permutations
from math import inf, isinf
from typing import Any

from edgec.rewrite.rule import Equation
from edgec.rewrite.term import Term, subterms

#: Milliseconds for one question.
PATIENCE = 4000
_TRANSCENDENTAL = frozenset({"exp", "log", "log1p", "expm1", "sqrt", "sigmoid", "tanh", "erf", "sin", "cos"})
_BITS = frozenset({"bitand", "bitor", "bitxor", "bitnot", "shl", "shr"})
#: What a variable may have to be, the weaker first.
CONDITIONS: dict[str, Callable[[Any], Any]] = {
    ">= 0": lambda x: x >= 0,
    "> 0": lambda x: x > 0,
    "in [0, 1]": lambda x: (x >= 0) & (x <= 1),
}
#: A variable and what it has to be: one of the above, or "<= " and another variable.
Condition = tuple[str, str]


@dataclass(frozen=True)
class Identity:
    """A proof: by which program, for which values, and under which conditions on the variables."""

    method: str
    domain: str
    conditions: tuple[Condition, ...] = ()

    def __str__(self) -> str:
        limits = "".join(f", {name} {what}" for name, what in self.conditions)
        return f"{self.method}, {self.domain}{limits}"


def prove_identity(rule: Equation) -> Identity | None:
    """The identity behind an equation, or None where neither program decides it (or is not installed)."""
    functions = {t.op for side in (rule.left, rule.right) for t in subterms(side)}
    powers = any(t.op == "pow" for side in (rule.left, rule.right) for t in subterms(side))
    try:
        if functions & _TRANSCENDENTAL or powers:
            return _by_sympy(rule)
        return _by_z3(rule, is_bits=bool(functions & _BITS))
    except ImportError:
        return None


def _candidates(rule: Equation) -> Iterator[tuple[Condition, ...]]:
    """Conditions to try, few and weak ones first."""
    free = [v for v in rule.variables if v not in rule.truths]
    single = [(v, what) for what in CONDITIONS for v in free]
    for count in range(3):
        for chosen in combinations(single, count):
            if len({v for v, _ in chosen}) == count:
                yield chosen
    for v, w in permutations(free, 2):
        yield ((v, f"<= {w}"),)


# ---- z3


def _by_z3(rule: Equation, is_bits: bool) -> Identity | None:
    import z3

    domain = "truth values" if rule.dtypes == "bool" else "integers of 8 bits" if is_bits else "reals"
    make: dict[str, Callable[[str], Any]] = {
        "truth values": z3.Bool,
        "integers of 8 bits": lambda name: z3.BitVec(name, 8),
        "reals": z3.Real,
    }
    variables = {v: z3.Bool(v) if v in rule.truths else make[domain](v) for v in rule.variables}
    least, most = z3.Real("-inf"), z3.Real("inf")
    defined: list[Any] = []
    if domain == "reals":
        numbers = [v for name, v in variables.items() if name not in rule.truths]
        defined += [z3.And(least < v, v < most) for v in numbers]
    translate = _Z3(z3, variables, defined, {-inf: least, inf: most}, domain)
    left, right = translate(rule.left), translate(rule.right)
    for conditions in _candidates(rule):
        solver = z3.Solver()
        solver.set("timeout", PATIENCE)
        solver.add(*defined)
        for name, what in conditions:
            x = variables[name]
            if what == "in [0, 1]":
                solver.add(z3.And(x >= 0, x <= 1))
            else:
                solver.add(x <= variables[what[3:]] if what.startswith("<= ") else CONDITIONS[what](x))
        solver.add(left != right)
        if solver.check() == z3.unsat:
            return Identity("z3", domain, conditions)
        if domain == "truth values":
            break
    return None


class _Z3:
    """Terms as formulas of z3."""

    def __init__(
        self, z3: Any, variables: Mapping[str, Any], defined: list[Any], bounds: Mapping[float, Any], domain: str
    ) -> None:
        self.z3, self.variables, self.defined, self.bounds, self.domain = z3, variables, defined, bounds, domain

    def __call__(self, term: Term) -> Any:
        if term.op == "variable":
            return self.variables[term.name]
        if term.op == "number":
            return self.number(term.number)
        return self.function(term.op, [self(a) for a in term.args])

    def number(self, value: float | bool) -> Any:
        if isinstance(value, bool):
            return self.z3.BoolVal(value)
        if isinf(value):
            return self.bounds[value]
        if self.domain == "integers of 8 bits":
            return self.z3.BitVecVal(int(value), 8)
        return self.z3.RealVal(str(value))

    def function(self, op: str, args: list[Any]) -> Any:
        z3 = self.z3
        a, b = args[0], args[-1]
        if op == "div":
            self.defined.append(b != 0)
        table: dict[str, Callable[[], Any]] = {
            "add": lambda: a + b, "sub": lambda: a - b, "mul": lambda: a * b, "div": lambda: a / b, "neg": lambda: -a,
            "abs": lambda: z3.If(a >= 0, a, -a), "sign": lambda: z3.If(a > 0, 1, z3.If(a < 0, -1, z3.RealVal(0))),
            "max": lambda: z3.If(a >= b, a, b), "min": lambda: z3.If(a <= b, a, b),
            "lt": lambda: a < b, "le": lambda: a <= b, "gt": lambda: a > b, "ge": lambda: a >= b,
            "eq": lambda: a == b, "ne": lambda: a != b, "select": lambda: z3.If(a, args[1], b),
            "and": lambda: z3.And(a, b), "or": lambda: z3.Or(a, b), "xor": lambda: z3.Xor(a, b),
            "not": lambda: z3.Not(a),
            "bitand": lambda: a & b, "bitor": lambda: a | b, "bitxor": lambda: a ^ b, "bitnot": lambda: ~a,
            "shl": lambda: a << b, "shr": lambda: a >> b,
        }  # fmt: skip
        return table[op]()


# ---- sympy

_ASSUMED = {">= 0": "nonnegative", "> 0": "positive"}


def _by_sympy(rule: Equation) -> Identity | None:
    import sympy

    for conditions in _candidates(rule):
        limits = dict(conditions)
        if not set(limits.values()) <= set(_ASSUMED):
            continue
        variables = {
            v: sympy.Symbol(v, real=True, **({_ASSUMED[limits[v]]: True} if v in limits else {}))
            for v in rule.variables
        }
        left, right = (_to_sympy(sympy, side, variables) for side in (rule.left, rule.right))
        if _vanishes(sympy, left, right):
            return Identity("sympy", "reals", conditions)
    return None


def _vanishes(sympy: Any, left: Any, right: Any) -> bool:
    difference = left - right
    ways: tuple[Callable[[Any], Any], ...] = (
        sympy.simplify,
        lambda d: sympy.simplify(sympy.expand_log(sympy.expand_power_base(sympy.powdenest(d)))),
        lambda d: sympy.simplify(sympy.expand(d.rewrite(sympy.exp))),
        lambda d: sympy.simplify(sympy.powsimp(sympy.expand(d))),
    )
    return any(way(difference) == 0 for way in ways)


def _to_sympy(sympy: Any, term: Term, variables: Mapping[str, Any]) -> Any:
    if term.op == "variable":
        return variables[term.name]
    if term.op == "number":
        return sympy.nsimplify(term.number)
    args = [_to_sympy(sympy, a, variables) for a in term.args]
    table: dict[str, Callable[..., Any]] = {
        "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": lambda a, b: a / b,
        "neg": lambda a: -a, "abs": sympy.Abs, "sign": sympy.sign, "pow": lambda a, b: a**b, "sqrt": sympy.sqrt,
        "exp": sympy.exp, "log": sympy.log, "log1p": lambda a: sympy.log(1 + a), "expm1": lambda a: sympy.exp(a) - 1,
        "sigmoid": lambda a: 1 / (1 + sympy.exp(-a)), "tanh": sympy.tanh, "erf": sympy.erf,
        "sin": sympy.sin, "cos": sympy.cos,
        "max": lambda *a: reduce(sympy.Max, a), "min": lambda *a: reduce(sympy.Min, a),
    }  # fmt: skip
    return table[term.op](*args)

"""Identities by a prover: which rules have one, and that guards keep the conditions it needs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from random import Random

import numpy as np
import pytest

from edgec.ir.evaluate import run
from edgec.ir.graph import Graph, Node, topological
from edgec.rewrite import Equation, absolute, load_rules, rule, select, sqrt
from edgec.rewrite.families import ORIGINS
from edgec.rewrite.identity import CONDITIONS, Condition, Identity, prove_identity
from edgec.rewrite.prove import earns, instances_of
from edgec.rewrite.sample import values
from edgec.rewrite.term import apply, match

RULES = load_rules()
EQUATIONS = [r for r in RULES if isinstance(r, Equation)]
KNOWN = json.loads(
    (Path(__file__).resolve().parents[2] / "benchmarks" / "rules" / "rules.json").read_text(encoding="utf-8")
)


def test_there_are_more_laws_than_dnnfusion_counts() -> None:
    assert len(RULES) >= 149
    assert {r.family for r in RULES} == set(ORIGINS)


@pytest.mark.parametrize("rule", EQUATIONS, ids=lambda r: r.name)
def test_the_identity_holds_and_the_guard_keeps_its_conditions(rule: Equation) -> None:
    pytest.importorskip("z3")
    pytest.importorskip("sympy")
    identity = prove_identity(rule)
    assert identity is not None
    assert str(identity) == KNOWN["rules"][rule.name]["identity"]
    random = Random(0)
    for instance in instances_of(rule, random):
        bound = next(b for b in match(rule.left, instance, {}) if rule.refusal(b) is None)
        assert meets(identity.conditions, {name: evaluated(n, random) for name, n in bound.items()})


def meets(conditions: Iterable[Condition], operands: Mapping[str, np.ndarray]) -> bool:
    """Do the operands of an instance that passed the guard keep the conditions? NaN keeps all."""
    with np.errstate(invalid="ignore"):
        for name, what in conditions:
            x = operands[name]
            holds = x <= operands[what[3:]] if what.startswith("<= ") else CONDITIONS[what](x)
            if not np.all(holds | np.isnan(x)):
                return False
    return True


def evaluated(node: Node, random: Random) -> np.ndarray:
    inputs = tuple(n for n in topological([node]) if n.op == "input")
    given = {n.attributes["name"]: values(random, n.type, False) for n in inputs}
    return run(Graph(inputs, (("y", node),)), given)["y"]


def test_a_wrong_identity_has_no_proof() -> None:
    pytest.importorskip("z3")
    pytest.importorskip("sympy")

    @rule("mine", dtypes="float")
    def difference(a, b):  # type: ignore[no-untyped-def]
        """a - b = b - a."""
        return a - b, b - a

    @rule("mine", dtypes="float")
    def root(a, b):  # type: ignore[no-untyped-def]
        """sqrt(a + b) = sqrt(a) + sqrt(b)."""
        return sqrt(a + b), sqrt(a) + sqrt(b)

    for wrong in (difference, root):
        assert isinstance(wrong, Equation)
        assert prove_identity(wrong) is None


def test_conditions_are_found() -> None:
    pytest.importorskip("sympy")

    @rule("mine", dtypes="float")
    def root(a):  # type: ignore[no-untyped-def]
        """sqrt(a) * sqrt(a) = |a|, for a >= 0 only."""
        return sqrt(a) * sqrt(a), absolute(a)

    assert isinstance(root, Equation)
    assert prove_identity(root) == Identity("sympy", "reals", (("a", ">= 0"),))
    assert not meets((("a", ">= 0"),), {"a": np.array([-1.0])})
    assert meets((("a", ">= 0"),), {"a": np.array([1.0, np.nan])})


def test_the_ends_of_a_condition_belong_to_it_or_not() -> None:
    """Equations that hold between two ends, without one of them, or up to another variable."""
    pytest.importorskip("z3")

    @rule("mine", dtypes="float")
    def above(a, b):  # type: ignore[no-untyped-def]
        """b where a is above 0, for a > 0."""
        return select(apply("gt", a, 0), b, 0), b

    @rule("mine", dtypes="float")
    def not_below(a, b):  # type: ignore[no-untyped-def]
        """b where a is not below 0, for a >= 0."""
        return select(apply("ge", a, 0), b, 0), b

    @rule("mine", dtypes="float")
    def between(a, b):  # type: ignore[no-untyped-def]
        """b where a is from 0 to 1, for a in [0, 1]."""
        return select(apply("ge", a, 0), select(apply("le", a, 1), b, 0), 0), b

    @rule("mine", dtypes="float")
    def without_the_first(a, b):  # type: ignore[no-untyped-def]
        """b where a is above 0 and up to 1: no condition is that."""
        return select(apply("gt", a, 0), select(apply("le", a, 1), b, 0), 0), b

    @rule("mine", dtypes="float")
    def without_the_last(a, b):  # type: ignore[no-untyped-def]
        """b where a is from 0 and below 1: no condition is that."""
        return select(apply("ge", a, 0), select(apply("lt", a, 1), b, 0), 0), b

    @rule("mine", dtypes="float")
    def up_to_another(a, b, c):  # type: ignore[no-untyped-def]
        """c where a is not above b, for a <= b."""
        return select(apply("le", a, b), c, 0), c

    found = {
        above: ("a", "> 0"), not_below: ("a", ">= 0"), between: ("a", "in [0, 1]"), up_to_another: ("a", "<= b"),
        without_the_first: None, without_the_last: None,
    }  # fmt: skip
    for equation, condition in found.items():
        assert isinstance(equation, Equation)
        wanted = None if condition is None else Identity("z3", "reals", (condition,))
        assert prove_identity(equation) == wanted, equation.name


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.name)
def test_no_law_is_contained_in_the_others(rule) -> None:  # type: ignore[no-untyped-def]
    assert earns(rule, RULES)

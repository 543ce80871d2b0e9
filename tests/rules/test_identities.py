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
from edgec.rewrite import Equation, absolute, load_rules, rule, sqrt
from edgec.rewrite.families import ORIGINS
from edgec.rewrite.identity import CONDITIONS, Condition, Identity, prove_identity
from edgec.rewrite.prove import earns, instances_of
from edgec.rewrite.sample import values
from edgec.rewrite.term import match

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


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.name)
def test_no_law_is_contained_in_the_others(rule) -> None:  # type: ignore[no-untyped-def]
    assert earns(rule, RULES)

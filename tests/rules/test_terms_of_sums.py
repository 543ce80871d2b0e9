"""Terms of sums, with which rules are proved: their values stay what they are, by numbers in the place of sizes."""

from __future__ import annotations

from fractions import Fraction
from math import prod

from hypothesis import given
from hypothesis import strategies as st

from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.rewrite.sums import Term, multiplied_out, product, times

SIZES = [X.size(name, 1, 9) for name in "nmk"]
VALUES = dict(zip(SIZES, (3, 5, 7)))


def value(e: Expr) -> int:
    """The value of a formula of sizes, by Python's own arithmetic."""
    if e in VALUES:
        return VALUES[e]
    if e.op == "const":
        return int(e.value)
    args = [value(a) for a in e.args]
    return {"add": sum(args), "sub": args[0] - sum(args[1:]), "mul": prod(args), "neg": -args[0]}[e.op]


def of(*terms: Term) -> Fraction:
    return sum((t.coefficient * prod(map(value, t.factors)) for t in terms), Fraction(0))


ATOMS = st.sampled_from(SIZES) | st.integers(-4, 4).map(X.const)
FORMULAS = st.recursive(
    ATOMS,
    lambda inner: st.tuples(st.sampled_from(["add", "sub", "mul"]), inner, inner).map(
        lambda t: {"add": t[1] + t[2], "sub": t[1] - t[2], "mul": t[1] * t[2]}[t[0]]
    ),
    max_leaves=6,
)
TERMS = st.builds(
    Term, st.fractions(-3, 3, max_denominator=4), st.just(()), st.just(()), st.lists(FORMULAS, max_size=3).map(tuple)
)


@given(TERMS)
def test_multiplied_out(term: Term) -> None:
    found = [*multiplied_out(term)]
    assert of(*found) == of(term)
    assert all(f in VALUES for t in found for f in t.factors)


@given(TERMS, TERMS, st.fractions(-3, 3, max_denominator=4))
def test_times_and_products(one: Term, other: Term, k: Fraction) -> None:
    assert of(times(one, k)) == k * of(one)
    assert of(product(one, other)) == of(one) * of(other)


def test_products_bind_variables_of_their_own() -> None:
    """Each sum runs by itself."""
    v = X.fresh(4)
    term = Term(Fraction(2), (v,), (v < 3,), (v + 1,))
    found = product(term, term)
    assert len(set(found.bound)) == 2 and len(found.conditions) == 2 and found.coefficient == 4
    assert {e for f in found.factors for e in X.free_variables(f)} == set(found.bound)

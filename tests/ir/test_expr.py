"""The formula language: interning, canonical reductions, substitution without capture."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from edgec.ir import expr as X
from edgec.ir.evaluate import evaluate_formula
from edgec.ir.expr import Expr
from edgec.ir.graph import Formula
from edgec.ir.loads import replace_loads
from edgec.ir.types import Type

I, J, K = X.var("i", 4), X.var("j", 4), X.var("k", 4)


def at(*index: Expr | int) -> Expr:
    return X.load("a", index, "f32")


def summed(v: Expr, body: Expr) -> Expr:
    return X.reduce("add", (v,), body)


def test_equal_expressions_are_one_object() -> None:
    assert at(I) + at(J) is at(I) + at(J)
    assert at(I) + at(J) is not at(J) + at(I)
    assert X.const(0.0, "f32") is not X.const(-0.0, "f32")
    assert X.const(1, "i64") is not X.const(True, "bool")
    assert X.const(1, "i64") is not X.const(1, "i32")


def test_the_names_of_reduction_variables_do_not_matter() -> None:
    assert summed(J, at(I, J)) is summed(K, at(I, K))
    first, second = X.fresh(4), X.fresh(4)
    nested = summed(first, at(I, first) * summed(second, at(first, second)))
    again = summed(second, at(I, second) * summed(first, at(second, first)))
    assert nested is again
    assert summed(J, at(I, J)) is not summed(I, at(I, J))


def test_reductions_of_other_extents_differ() -> None:
    assert summed(X.var("p", 3), at(I, X.var("p", 3))) is not summed(J, at(I, J))


def test_substitution_does_not_capture() -> None:
    inner = summed(J, at(I, J))
    (v,), body = X.opened(inner)
    # v stands free in the body of another sum, and goes where that sum has a variable of its own.
    outer = summed(v, X.substitute(inner, {I: v}) * body)
    assert not X.free_variables(X.substitute(outer, {I: K})) - {K}
    expected = [sum(float(ARRAY[j].sum() * ARRAY[i, j]) for j in range(4)) for i in range(4)]
    assert evaluated(outer, (I,)) == expected


ARRAY = np.arange(16, dtype=np.float32).reshape(4, 4)


def evaluated(e: Expr, axes: tuple[Expr, ...]) -> list[float]:
    derived = Formula(Type(e.dtype, tuple(v.value.extent for v in axes)), axes, e)
    return [float(v) for v in evaluate_formula(derived, lambda slot: ARRAY).reshape(-1)]


def test_bound_variables_are_not_replaced() -> None:
    row = summed(J, at(I, J))
    assert X.substitute(row, {J: K}) is row
    (bound,) = X.reduction_variables(row)
    assert X.substitute(row, {bound: K}) is row


def test_substitution_is_simultaneous() -> None:
    assert X.substitute(at(I, J), {I: J, J: I}) is at(J, I)


@st.composite
def bodies(draw: st.DrawFn, depth: int = 3, scope: tuple[Expr, ...] = (I,)) -> Expr:
    """Nested sums of products over the variables in scope, all of them of extent 4."""
    kind = draw(st.sampled_from(["load", "add", "mul", "sum"])) if depth else "load"
    if kind == "load":
        return at(draw(st.sampled_from(scope)), draw(st.sampled_from(scope)))
    if kind == "sum":
        v = X.fresh(4)
        return summed(v, draw(bodies(depth=depth - 1, scope=(*scope, v))))
    left, right = draw(bodies(depth=depth - 1, scope=scope)), draw(bodies(depth=depth - 1, scope=scope))
    return left + right if kind == "add" else left * right


def loops(e: Expr, values: Mapping[Expr, int]) -> float:
    """The plain meaning: a reduction is a loop that binds its variable."""
    if e.op == "load":
        i, j = (values[v] for v in e.args)
        return float(ARRAY[i, j]) / 16
    if e.op == "reduce":
        (v,) = X.reduction_variables(e)
        return sum(loops(e.args[0], {**values, v: k}) for k in range(4))
    a, b = (loops(x, values) for x in e.args)
    return a + b if e.op == "add" else a * b


@settings(deadline=None, max_examples=200)
@given(bodies(), bodies(scope=(I, J)))
def test_substituting_into_reductions_means_what_it_says(inner: Expr, outer: Expr) -> None:
    """Inside the outermost sums, put their variable into ``inner`` in the place of i, and close them again."""
    assert loops(X.substitute(inner, {I: J}), {J: 2}) == loops(inner, {I: 2})
    for e in X.walk(outer):
        if e.op == "reduce" and X.free_variables(e) <= {I, J}:
            (v,), body = X.opened(e)
            closed = summed(v, body * X.substitute(inner, {I: v}))
            place = dict.fromkeys(X.free_variables(e), 1)
            expected = sum(loops(body, {**place, v: k}) * loops(inner, {I: k}) for k in range(4))
            assert abs(loops(closed, place) - expected) <= 1e-9 * abs(expected)


@settings(deadline=None, max_examples=100)
@given(bodies())
def test_rebuilding_gives_the_same_object(e: Expr) -> None:
    assert X.transform(e, lambda _: None) is e
    assert replace_loads(e, lambda slot, index: X.load(slot, index, "f32")) is e


@settings(deadline=None, max_examples=100)
@given(bodies())
def test_opening_and_closing_a_reduction_is_the_identity(e: Expr) -> None:
    for part in X.walk(e):
        if part.op == "reduce":
            names, body = X.opened(part)
            assert X.reduce("add", names, body) is part

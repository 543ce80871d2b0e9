"""Arithmetic of run-time sizes: whatever the simplifier does to a formula, its value stays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgec.errors import ModelError, Undecided
from edgec.ir import expr as X
from edgec.ir import index, positions
from edgec.ir.expr import Expr
from edgec.ir.extent import extent_at
from edgec.ir.sizes import Dimension, dimensions, read_sizes
from edgec.ir.types import Type

A, B = X.size("a", 1, 7), X.size("b", 2, 5)
RANGES = {A: range(1, 8), B: range(2, 6)}


@st.composite
def polynomials(draw: st.DrawFn, depth: int = 3) -> tuple[Expr, object]:
    """A formula of sizes and loops, and the same as a Python function of their values."""
    if depth == 0 or draw(st.booleans()):
        kind = draw(st.integers(0, 3))
        if kind == 0:
            n = draw(st.integers(0, 9))
            return X.const(n), lambda known, n=n: n
        atom = (A, B, X.var("i", A * B + 1))[kind - 1]
        return atom, lambda known, atom=atom: known[atom]
    left, f = draw(polynomials(depth - 1))
    right, g = draw(polynomials(depth - 1))
    op = draw(st.sampled_from(["+", "-", "*", "//", "%", "//s", "%s"]))
    if op in ("//", "%"):
        d = draw(st.integers(1, 8))
        if op == "//":
            return left // d, lambda known: f(known) // d
        return left % d, lambda known: f(known) % d
    if op in ("//s", "%s"):
        d = draw(st.sampled_from([A, B, A * B, A + 1, B * 2, A * 4 + B]))
        if op == "//s":
            return left // d, lambda known: f(known) // extent_at(d, {A: known[A], B: known[B]})
        return left % d, lambda known: f(known) % extent_at(d, {A: known[A], B: known[B]})
    return {
        "+": (left + right, lambda known: f(known) + g(known)),
        "-": (left - right, lambda known: f(known) - g(known)),
        "*": (left * right, lambda known: f(known) * g(known)),
    }[op]


def _value(e: Expr, known: dict[Expr, int]) -> int:
    loops = {v: X.const(known[v]) for v in X.free_variables(e)}
    return extent_at(X.substitute(e, loops), {A: known[A], B: known[B]})


@given(polynomials(), st.integers(1, 7), st.integers(2, 5), st.integers(0, 35))
def test_simplified_formulas_keep_their_value(made, a, b, i) -> None:  # type: ignore[no-untyped-def]
    formula, meaning = made
    known = {A: a, B: b, X.var("i", A * B + 1): min(i, a * b)}
    value = _value(formula, known)
    assert value == meaning(known)
    low, high = index.bounds(formula)
    assert low <= value <= high


@given(polynomials(), polynomials(), st.integers(1, 7), st.integers(2, 5), st.integers(0, 35))
def test_comparisons_that_are_decided_are_right(one, two, a, b, i) -> None:  # type: ignore[no-untyped-def]
    known = {A: a, B: b, X.var("i", A * B + 1): min(i, a * b)}
    left, right = one[0], two[0]
    for name, truth in (("lt", _value(left, known) < _value(right, known)), ("eq", left is right)):
        decided = X.call(name, left, right)
        if name == "lt" and decided.op == "const":
            assert decided.value == truth
    quotient = index.exact(left, right) if index.bounds(right)[0] > 0 else None
    if quotient is not None:
        assert _value(X.lift(quotient, "i64"), known) * _value(right, known) == _value(left, known)


def test_bounds_of_products_are_exact() -> None:
    """Each of two sides is a positive number less one: their product, multiplied out, is no less than that of ends."""
    for formula in ((A * 4 - 1) * (B * 4 - 1), (A * 3 - 7) * (B - 4) * 2, A * B - A - B, (A - 8) * (B - 1) + A):
        values = [extent_at(formula, {A: a, B: b}) for a in range(1, 8) for b in range(2, 6)]
        assert index.bounds(formula) == (min(values), max(values))


def test_products_are_multiplied_out_in_one_way() -> None:
    assert (A + 1) * (B + 2) is A * B + A * 2 + B + 2
    assert B * A is A * B
    assert index.exact(A * B * 6 + A * 3, A * 3) is B * 2 + 1


def test_a_loop_over_a_size_ends_before_it() -> None:
    i = X.var("i", A)
    assert bool(i < A)
    assert (i * B + X.var("j", B)) // B is i
    with pytest.raises(Undecided, match="a"):
        bool(A < 4)


def test_reshapes_multiply_sizes_only_where_they_must() -> None:
    place = (X.var("i", A), X.var("j", B), X.var("k", 12))
    assert positions.regrouped(place, (A, B, 12), (A, B, 3, 4)) == (place[0], place[1], place[2] // 4, place[2] % 4)
    merged = positions.regrouped((X.var("i", A * B), X.var("k", 12)), (A * B, 12), (A, B, 12))
    assert [str(e) for e in merged] == ["((i // b) % a)", "(i % b)", "k"]


def test_sizes_are_read_off_inputs() -> None:
    width = Dimension("width", 32, 96, 32)
    type = Type("f32", (2, width.extent))
    assert dimensions([type]) == {width.size: width}
    known: dict[Expr, int] = {}
    read_sizes("x", type, (2, 64), known)
    assert known == {width.size: 2}
    for shape, message in (
        ((2, 65), "outside width = 32..96 in steps of 32"),
        ((3, 64), "expected"),
        ((2, 32), "is 64"),
    ):
        with pytest.raises(ModelError, match=message):
            read_sizes("x", type, shape, known)


def test_the_greatest_number_is_greater_than_any_size() -> None:
    """Ends of slices are often 2 ** 63 - 1; a difference with them must not wrap around."""
    frames = (A * 9 + 1) // 2 - 1
    for end in (2**63 - 1, 2**63 - 100):
        assert index.lesser(end, frames) is frames and index.greater(frames, end) == end
        assert bool(frames < end) and not bool(frames >= end)
    assert index.lesser(-(2**63), frames) == -(2**63)

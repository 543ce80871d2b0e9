"""Index arithmetic: what is simplified on the way in has the value of what was written."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgec.ir import expr as X
from edgec.ir import index, positions
from edgec.ir.expr import Expr
from edgec.ir.extent import at_sizes

#: An index as a nested tuple: the plain meaning that no simplifier has touched.
Tree = tuple[Any, ...]
EXTENTS = {"i": 6, "j": 4, "k": 3}
VARIABLES = {name: X.var(name, extent) for name, extent in EXTENTS.items()}


@st.composite
def trees(draw: st.DrawFn, depth: int = 4) -> Tree:
    kind = draw(st.sampled_from(["var", "const", "add", "sub", "mul", "div", "mod", "neg", "min", "max"]))
    if depth == 0 or kind in ("var", "const"):
        if draw(st.booleans()):
            return ("var", draw(st.sampled_from(sorted(EXTENTS))))
        return ("const", draw(st.integers(-9, 9)))
    left = draw(trees(depth=depth - 1))
    if kind == "neg":
        return ("neg", left)
    if kind == "mul":
        return ("mul", left, ("const", draw(st.integers(-5, 12))))
    if kind in ("div", "mod"):
        return (kind, left, ("const", draw(st.integers(1, 12))))
    return (kind, left, draw(trees(depth=depth - 1)))


def built(tree: Tree) -> Expr:
    kind, *args = tree
    if kind == "var":
        return VARIABLES[args[0]]
    if kind == "const":
        return X.const(args[0])
    names = {"div": "floordiv", "mod": "floormod"}
    return X.call(str(names.get(kind, kind)), *(built(a) for a in args))


def meaning(tree: Tree, values: dict[str, int]) -> int:
    kind, *args = tree
    if kind == "var":
        return values[args[0]]
    if kind == "const":
        return int(args[0])
    a, *rest = (meaning(t, values) for t in args)
    b = rest[0] if rest else 0
    return {
        "add": lambda: a + b, "sub": lambda: a - b, "mul": lambda: a * b, "div": lambda: a // b,
        "mod": lambda: a % b, "neg": lambda: -a, "min": lambda: min(a, b), "max": lambda: max(a, b),
    }[kind]()  # fmt: skip


def value(e: Expr, values: dict[str, int]) -> int:
    if e.op == "const":
        return int(e.value)
    if e.op == "var":
        return values[e.value.name]
    a, *rest = (value(x, values) for x in e.args)
    b = rest[0] if rest else 0
    return {
        "add": lambda: a + b, "sub": lambda: a - b, "mul": lambda: a * b, "floordiv": lambda: a // b,
        "floormod": lambda: a % b, "neg": lambda: -a, "min": lambda: min(a, b), "max": lambda: max(a, b),
    }[e.op]()  # fmt: skip


def places() -> list[dict[str, int]]:
    return [dict(zip(EXTENTS, p)) for p in product(*(range(n) for n in EXTENTS.values()))]


@settings(deadline=None, max_examples=300)
@given(trees())
def test_simplifying_keeps_the_value(tree: Tree) -> None:
    e = built(tree)
    for place in places():
        assert value(e, place) == meaning(tree, place)


@settings(deadline=None, max_examples=300)
@given(trees())
def test_bounds_hold(tree: Tree) -> None:
    e = built(tree)
    low, high = index.bounds(e)
    found = [value(e, place) for place in places()]
    assert low <= min(found)
    assert max(found) <= high


@settings(deadline=None, max_examples=200)
@given(trees(), trees(), st.sampled_from(["lt", "le", "gt", "ge", "eq", "ne"]))
def test_a_comparison_is_decided_only_when_it_always_holds(left: Tree, right: Tree, name: str) -> None:
    e = X.call(name, built(left), built(right))
    if e.op == "const":
        compare = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}[name]
        for place in places():
            a, b = meaning(left, place), meaning(right, place)
            assert e.value == eval(f"{a} {compare} {b}")


@settings(deadline=None, max_examples=200)
@given(trees())
def test_simplifying_again_changes_nothing(tree: Tree) -> None:
    e = built(tree)
    terms, constant = index.linear(e)
    assert index.build(terms, constant) is e


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_linearize_and_delinearize_are_inverse(shape: list[int]) -> None:
    names = tuple(X.var(f"d{k}", n) for k, n in enumerate(shape))
    assert positions.delinearize(positions.linearize(names, shape), tuple(shape)) == names


@given(
    st.permutations([2, 3, 4]),
    st.sampled_from([(24,), (6, 4), (4, 6), (2, 12), (3, 8), (2, 3, 4), (4, 3, 2)]),
)
def test_reshaping_visits_every_element_once_in_order(source: list[int], target: tuple[int, ...]) -> None:
    names = tuple(X.var(f"d{k}", n) for k, n in enumerate(target))
    place = positions.delinearize(positions.linearize(names, target), tuple(source))
    seen = []
    for p in product(*(range(n) for n in target)):
        at = [value(e, {f"d{k}": v for k, v in enumerate(p)}) for e in place]
        position = 0
        for i, n in zip(at, source):
            assert 0 <= i < n
            position = position * n + i
        seen.append(position)
    assert seen == list(range(prod(target)))


I, J = VARIABLES["i"], VARIABLES["j"]


@pytest.mark.parametrize(
    ("written", "simplified"),
    [
        ((I * 4 + J) // 4, I),
        ((I * 4 + J) % 4, J),
        ((I % 4) % 2, I % 2),
        ((I // 2) // 3, X.const(0)),
        ((I * 8 + J * 2) // 2, I * 4 + J),
        (((I * 4 + J) // 2) * 2 + (I * 4 + J) % 2, I * 4 + J),
        (((I * 7 + J) // 4 + 1) // 2 * 8 + ((I * 7 + J) // 4 + 1) % 2 * 4 + (I * 7 + J) % 4, I * 7 + J + 4),
        ((I * 11 + J + 6) // 12, I),
        ((I * 11 + J + 6) % 12, J - I + 6),
        ((I * 7 + J) // 4 % 2 * 4 + (I * 7 + J) % 4, (I * 7 + J) % 8),
        (((I * 7 + J) // 4 + 1) % 2 * 4 + (I * 7 + J) % 4, (I * 7 + J + 4) % 8),
        ((I * 7 // 4 + 5) // 3, (I * 7 + 20) // 12),
        ((I + 12) % 6, I),
        ((I * 6) // 4, (I * 3) // 2),
        (I < 6, X.const(True, "bool")),
        (I >= 6, X.const(False, "bool")),
    ],
)
def test_known_forms(written: Expr, simplified: Expr) -> None:
    assert written is simplified


@st.composite
def digits(draw: st.DrawFn) -> tuple[int, Tree, int]:
    """A divisor, and a sum of multiples of its divisors and a constant, as reshapes leave them."""
    step, times, more = (draw(st.integers(1, 6)) for _ in range(3))
    terms: Tree = ("const", draw(st.integers(-40, 40)))
    for name in draw(st.permutations(sorted(EXTENTS))):
        factor = draw(st.sampled_from([1, step, step * times, step * times * more, step * times - 1]))
        terms = ("add", terms, ("mul", ("var", name), ("const", factor * draw(st.sampled_from([1, 1, 1, -1, 2])))))
    return step * times, terms, step


@settings(deadline=None, max_examples=400)
@given(digits())
def test_quotients_and_remainders_of_sums_of_multiples(drawn: tuple[int, Tree, int]) -> None:
    divisor, terms, step = drawn
    moved: Tree = ("add", ("div", terms, ("const", step)), ("const", 2))
    whole: Tree = ("mul", ("mod", moved, ("const", divisor)), ("const", step))
    for tree in (("mod", terms, ("const", divisor)), ("div", terms, ("const", divisor)),
                 ("mod", ("div", terms, ("const", step)), ("const", divisor)), ("div", moved, ("const", divisor)),
                 ("add", whole, ("mod", terms, ("const", step)))):  # fmt: skip
        e = built(tree)
        for place in places():
            assert value(e, place) == meaning(tree, place)


N = X.size("n", 1, 9)


def at_size(e: Expr, values: dict[str, int], n: int) -> int:
    """The value of an index in which a size may stand."""
    if e is N:
        return n
    if e.op in ("const", "var"):
        return value(e, values)
    a, b = (at_size(x, values, n) for x in (e.args * 2)[:2])
    return {
        "add": lambda: a + b, "sub": lambda: a - b, "mul": lambda: a * b, "floordiv": lambda: a // b,
        "floormod": lambda: a % b, "neg": lambda: -a, "min": lambda: min(a, b), "max": lambda: max(a, b),
    }[e.op]()  # fmt: skip


@settings(deadline=None, max_examples=400)
@given(st.data())
def test_quotients_and_remainders_by_a_size(data: st.DataObject) -> None:
    """(step * big + small) by step * (n + c), for terms that are multiples of the size or not."""
    step, times = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 3))
    plus = data.draw(st.sampled_from([0, 0, 1, 3]))
    numbers = [data.draw(st.integers(0, 5)) for _ in range(4)]
    kept = X.var("m", N)  # a loop of n iterations
    of_variables = (J * (step * numbers[0]) + I * numbers[1], kept * (step * numbers[2]), N * (step * numbers[3]))
    dividend = sum(of_variables, X.const(data.draw(st.integers(0, 12))))
    divisor = (N + plus) * (step * times)
    quotient, remainder = X.call("floordiv", dividend, divisor), X.call("floormod", dividend, divisor)
    for n in (1, 2, 5, 9):
        for place in places()[:: data.draw(st.integers(1, 5))]:
            for m in range(n):
                at = {**place, "m": m}
                a, b = at_size(dividend, at, n), at_size(divisor, at, n)
                assert (at_size(quotient, at, n), at_size(remainder, at, n)) == divmod(a, b)


def test_divisions_by_the_extent_of_nothing() -> None:
    """An empty dimension is divided by where nothing is ever computed; it must not end the compiler."""
    n, i = X.size("n", 0, 4), X.var("i", 12)
    for formula in ((i // n) * n + i % n, (i // n + 1) // 3, (i % n) // 2 + (i // n) * 3, i % n + i // n):
        assert at_sizes(formula, {n: 0}) is not None
        assert at_sizes(formula, {n: 3}) is not None


def test_loops_over_sizes_that_may_be_nothing_need_no_division() -> None:
    """Inside a loop over n elements there is one, so that i // n is 0 there; outside of it nothing is known."""
    n, m, k = X.size("n", 0, 32), X.size("m", 0, 9), X.var("k", 7)
    i, j = X.var("i", n), X.var("j", m)
    assert (i % n, i // n) == (i, X.const(0))
    assert ((i * m + j) // m, (i * m + j) % m, (((k * n + i) * m + j) // m) % n) == (i, j, i)
    assert (k % n).op == "floormod" and (k * n // n).op == "floordiv"

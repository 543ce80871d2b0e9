"""Loop nests beside counting: splits give the same elements, and steps of addresses are those of their values."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from chance import RANDOM

from edgec.ir import expr as X
from edgec.ir.evaluate import Grid
from edgec.ir.expr import Expr
from edgec.ir.graph import Formula
from edgec.ir.nest import (
    Repeats,
    coefficient,
    extent,
    group_of,
    is_fixed,
    mergeable,
    most,
    repeats_of,
    split_formula,
    used_as_values,
)
from edgec.ir.types import Type

I, J, K = X.fresh(12), X.fresh(5), X.fresh(6)


def values(e: Expr, *loops: Expr) -> np.ndarray:
    """An expression at every iteration of loops."""
    real = tuple(v for v in loops if v.op == "var")
    found = np.broadcast_to(Grid(real, lambda slot: slot).value(e), [v.value.extent for v in real])
    return np.asarray(found)


@pytest.mark.parametrize(
    "address",
    [
        I * 4 + J, I * 5 + J + 3, J - I * 2, I // 4, I % 4 + J, (I * 6 + K) // 6, I * 3 + I // 4, K * 0 + J,
        X.call("min", I, J), (I + J) % 7, I * I, I // 3 * 3 + I % 3,
    ],
)  # fmt: skip
@pytest.mark.parametrize("loop", [I, J, K])
def test_steps_of_an_address(address: Expr, loop: Expr) -> None:
    """A step that is one number is told; where values step by several numbers, there is none."""
    found = values(address, *(v for v in (I, J, K) if v is not loop), loop)
    steps = set(np.diff(found, axis=-1).ravel().tolist())
    step = coefficient(address, loop)
    assert (step is None and len(steps) > 1) or steps == {step}


@pytest.mark.parametrize(
    ("address", "size", "element"),
    [
        (I // 4 * 4 + 2, 4, 2), (I // 4 * 4, 4, 0), (J * 8 + I // 4 * 4 + 7, 4, 3), (K * 6 + I // 2 * 2 + 1, 2, 1),
        (J * 7 + I // 4 * 4, 0, 0), (I // 4 * 8, 0, 0), (I // 4 + I // 4 * 3 + I, 0, 0), (I, 0, 0), (I // 4, 0, 0),
        (J // 4 * 4, 0, 0),
    ],
)  # fmt: skip
def test_groups_of_neighbors(address: Expr, size: int, element: int) -> None:
    found = group_of(address, I)
    assert (found is not None) == bool(size)
    if found is not None:
        assert (found.size, found.element) == (size, element)
        own, first = values(address, J, K, I), values(found.first, J, K, I)
        assert (np.diff(first, axis=-1) == 1).all()  # each value has its own neighbor
        assert np.array_equal(own, first - first % size + element)


@pytest.mark.parametrize(
    ("address", "times", "phase"),
    [
        (I // 3, 3, 0), (J * 9 + I // 3 + 1, 3, 0), ((I + 2) // 3, 3, 2), ((I + 1) // 4 + K, 4, 1), (I // 3 * 2, 0, 0),
        (I // 3 + I, 0, 0), (I // 3 + I // 2, 0, 0), (I, 0, 0), (J // 3, 0, 0), (I % 3, 0, 0), (I * 2 // 3, 0, 0),
        ((I + J) // 3, 0, 0),
    ],
)  # fmt: skip
def test_repeated_addresses(address: Expr, times: int, phase: int) -> None:
    found = repeats_of(address, I)
    if not times:
        assert found is None
        return
    assert found == Repeats(times, phase, address - (I + phase) // times + I // times)
    own, first = values(address, J, K, I), values(found.first, J, K, I)
    numbers = np.arange(12)
    assert np.array_equal(own - own[..., :1], np.broadcast_to((numbers + phase) // times, own.shape))
    assert np.array_equal(
        first[..., ::times], values(address - (I + phase) // times, J, K, I)[..., ::times] + numbers[::times] // times
    )


@pytest.mark.parametrize(
    ("addresses", "is_one"),
    [
        ((I * 5 + J,), True), ((I * 10 + J * 2, I * 5 + J), True), ((I * 5 + J, K), True), ((J + I * 4,), False),
        ((I * 5 + J, I * 5), False), ((I * 5 + J % 2,), False), ((J * 12 + I,), False), ((I // 2,), False), ((), True),
    ],
)  # fmt: skip
def test_loops_that_are_walked_as_one(addresses: tuple[Expr, ...], is_one: bool) -> None:
    assert mergeable(I, J, addresses) == is_one
    one = [np.diff(values(a, K, I, J).reshape(6, -1), axis=-1) for a in addresses]
    assert all((steps == steps[0, 0]).all() for steps in one) == is_one


def test_loops_of_sizes() -> None:
    open_ = X.fresh(X.size("n", 2, 9))
    assert (most(I), most(open_), most(X.const(0))) == (12, 9, 1)
    assert (extent(I), extent(X.const(0))) == (12, 1) and extent(open_) is open_.value.extent
    assert is_fixed(I, J, X.const(0)) and is_fixed() and not is_fixed(I, open_)


def test_loops_that_are_values() -> None:
    """Positions of loads are none, conditions are; what a sum is over is its own."""
    x = X.load("x", (I * 5 + J,), "f32")
    number = X.cast(K, "f32")
    summed = X.reduce("add", (v := X.fresh(4),), X.load("x", (v,), "f32") * X.cast(v + I, "f32"))
    for e, used in (
        (x, set()), (x + number, {K}), (X.select(X.call("lt", I, X.const(3)), x, x * 2.0), {I}), (summed, {I}),
        (X.load("y", (X.cast(X.load("p", (J,), "i32"), "i64"),), "f32"), set()), (number * X.cast(J, "f32"), {J, K}),
    ):  # fmt: skip
        assert used_as_values(e) == used


def formula(body: Expr, *loops: Expr) -> Formula:
    return Formula(Type("f32", tuple(extent(v) for v in loops)), loops, body)


def read(*index: Expr) -> Expr:
    return X.load(0, index, "f32")


LONG = X.fresh(24)
BODIES: dict[str, tuple[Expr, tuple[Expr, ...]]] = {
    "digits": (read(LONG // 6, LONG % 6), (LONG,)),
    "three digits": (read(LONG // 12, LONG // 4 % 3, LONG % 4), (LONG,)),
    "beside another": (read(J, LONG // 8, LONG % 8), (J, LONG)),
    "both": (read(LONG % 4, I // 3), (LONG, I)),
    "no even part": (read(LONG // 7, LONG % 7), (LONG,)),
    "of a sum": (X.reduce("add", (v := X.fresh(12),), read(I, v // 4, v % 4)), (I,)),
    "of both": (X.reduce("add", (v := X.fresh(8),), read(LONG // 6, v // 2) * read(LONG % 6, v % 2)), (LONG,)),
    "inside another": (
        X.reduce("max", (v := X.fresh(6),), read(v, v) * X.reduce("add", (w := X.fresh(9),), read(v // 2, w // 3))),
        (X.fresh(1),),
    ),
}


@pytest.mark.parametrize("name", BODIES)
def test_splits(name: str) -> None:
    """The elements of the formula, at their positions; loops that a division divides evenly are gone."""
    body, loops = BODIES[name]
    found = split_formula(formula(body, *loops))
    data = RANDOM.integers(0, 9, (24, 24, 24)).astype(np.float32)

    def at(e: Expr, own: tuple[Expr, ...]) -> np.ndarray:
        grid = Grid(own, lambda _: data[(slice(None),) * rank + (0,) * (3 - rank)])
        return np.broadcast_to(grid.value(e), [v.value.extent for v in own])

    rank = max(len(e.args) for e in X.loads(body))
    same = tuple(v for v in loops if v.op == "var")
    want = at(body, same)
    got = np.full([v.value.extent if v.op == "var" else 1 for v in loops], -1.0, np.float32)
    new = at(found.body, found.variables)
    places = [np.broadcast_to(values(p, *found.variables), new.shape) if p.op != "const" else 0 for p in found.position]
    got[tuple(places)] = new
    assert np.array_equal(got.reshape(want.shape), want)
    kinds = {e.op for e in X.walk(found.body)}
    assert ("floormod" in kinds) == (name == "no even part")
    extents = sorted(v.value.extent for v in found.variables)
    assert extents == {
        "digits": [4, 6], "three digits": [2, 3, 4], "beside another": [3, 5, 8], "both": [3, 4, 4, 6],
        "no even part": [24], "of a sum": [12], "of both": [4, 6], "inside another": [],
    }[name]  # fmt: skip


def test_every_cut_of_a_loop() -> None:
    """All ways to cut a loop of 24 by two divisors: digits where one divides the other."""
    for a, b in product((2, 3, 4, 6, 8, 12), repeat=2):
        found = split_formula(formula(read(LONG // a, LONG % b), LONG))
        extents = [v.value.extent for v in found.variables]
        assert int(np.prod(extents)) == 24
        low, high = min(a, b), max(a, b)
        assert sorted(extents) == sorted([24 // high, *([high // low] if high > low else []), low]) or high % low

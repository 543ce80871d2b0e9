"""Elements that sizes decide, beside the numbers that they are for every value of the sizes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

from edgec.frontend.symbolic import constant_difference, decided, known_elements
from edgec.frontend.values import Value, computed, concat, constant, emit, maximum, minimum, select, size
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.graph import placeholder
from edgec.ir.types import Type

N, M = X.size("n", 2, 9), X.size("m", 1, 4)
Made = Callable[[Value, Value], Value]


def f32(x: Value) -> Value:
    return x.cast("f32")


def both(n: Value, m: Value) -> Value:
    return concat([n.reshape(1), m.reshape(1), constant(np.array([7, -3]))], 0)


#: Formulas that are followed, of two sizes.
FOLLOWED: dict[str, Made] = {
    "a size": lambda n, m: n,
    "sums": lambda n, m: n * 3 + m - 5,
    "a difference": lambda n, m: m - n,
    "a product": lambda n, m: n * m,
    "a negative": lambda n, m: -n * 2,
    "whole parts": lambda n, m: emit("floordiv", n + 1, 2),
    "rest": lambda n, m: emit("floormod", n, 3),
    "parts of a product": lambda n, m: emit("floordiv", n * 6, 3),
    "the less": lambda n, m: minimum(n, m),
    "the greater": lambda n, m: maximum(n * 2, 5),
    "halves of floats": lambda n, m: (f32(n) * 0.5).cast("i64"),
    "halves, up": lambda n, m: emit("ceil", f32(n) * 0.5).cast("i64"),
    "halves, down": lambda n, m: emit("floor", f32(n) / 2.0).cast("i64"),
    "doubled and halved": lambda n, m: (f32(n) * 2.0 / 2.0 + 1.0).cast("i64"),
    "of eighths": lambda n, m: emit("floor", f32(n) * 1.5 - f32(m) * 0.25).cast("i64"),
    "all elements": lambda n, m: both(n, m).reduce("mul", [0]),
    "sum of elements": lambda n, m: both(n, m).sum([0], keep=False),
    "elements": both,
    "some of them": lambda n, m: both(n, m).part(0, 1, 3),
    "backwards": lambda n, m: both(n, m).flip(0),
    "one of them": lambda n, m: both(n, m).gather(constant(np.array([1, 0, 1])), 0),
    "in rows": lambda n, m: both(n, m).reshape(2, 2).transpose(1, 0),
    "chosen": lambda n, m: select(n > 1, n, m),
    "never": lambda n, m: select(n + m < 3, n, m * 2),
    "counted": lambda n, m: emit("abs", n + 3),
    "types between": lambda n, m: n.cast("i32").cast("i64") + 1,
}
#: Formulas of sizes that are no formulas of whole numbers, or whose choice depends on the run.
OTHERS: dict[str, Made] = {
    "a quotient of floats": lambda n, m: emit("floor", f32(n) / f32(m)).cast("i64"),
    "a quotient, up": lambda n, m: emit("ceil", f32(n) / f32(m)).cast("i64"),
    "a negative quotient": lambda n, m: emit("ceil", f32(n) / -2.0).cast("i64"),
    "by a quotient": lambda n, m: emit("floor", f32(n) * (f32(m) / f32(n))).cast("i64"),
    "a difference, cut off": lambda n, m: (f32(m - n) * 0.5).cast("i64"),
    "a root": lambda n, m: emit("sqrt", f32(n)).cast("i64"),
    "a choice of the run": lambda n, m: select(n > 5, n, m),
    "a magnitude": lambda n, m: emit("abs", n - 5),
    "rounded": lambda n, m: emit("round", f32(n) * 0.5).cast("i64"),
}
EVERY = {**FOLLOWED, **OTHERS}


def numbers_of(made: Made, n: int, m: int) -> list[int]:
    found = computed(made(constant(np.array(n)), constant(np.array(m))))
    assert found is not None
    return [int(x) for x in found.reshape(-1)]


@pytest.mark.parametrize("name", EVERY)
def test_elements_are_those_of_every_run(name: str) -> None:
    found = known_elements(EVERY[name](size(N), size(M)))
    assert found is not None or name in OTHERS
    for n, m in product(range(2, 10), range(1, 5)):
        run = {N: X.const(n), M: X.const(m)}
        got = [X.plain(X.substitute(e, run)) if isinstance(e, Expr) else e for e in found or ()]
        assert not found or got == numbers_of(EVERY[name], n, m), (n, m)


@pytest.mark.parametrize("shape", [(256,), (257,), (16, 17)])
def test_long_tensors_hold_no_shapes(shape: tuple[int, ...]) -> None:
    found = known_elements(constant(np.ones(shape, np.int64)))
    assert (found is not None) == (shape == (256,))


def test_what_inputs_decide() -> None:
    i = Value(placeholder("i", Type("i64", ())))
    for value in (i, i + size(N), concat([size(N).reshape(1), i.reshape(1)], 0), f32(size(N)), f32(size(N)) * 0.5):
        assert known_elements(value) is None
    assert known_elements(size(N) + 0 * i) is None or known_elements(size(N) + 0 * i) == (N,)


def test_differences_that_are_the_same_in_every_run() -> None:
    i, j = (Value(placeholder(name, Type("i64", ()))) for name in "ij")
    assert constant_difference(i + 3, i) == 3 and constant_difference(i, i + 3) == -3
    assert constant_difference(i * 2 + size(N), size(N) + i * 2 - 1) == 1
    assert constant_difference(size(N) * 2, size(N)) is None and constant_difference(i, j) is None
    assert constant_difference(i, i.cast("i32")) is None
    assert constant_difference(f32(i) + 3.0, f32(i)) is None


def test_truth_values_of_every_run() -> None:
    for value, truth in (
        (size(N) > 1, True), (size(N) < 2, False), (size(N) > 2, None), (constant(np.array(True)), True),
        (constant(np.array([0])), False), (size(N).equals(size(N)), True), (size(N) + 1 > size(N), True),
        (Value(placeholder("b", Type("bool", ()))), None),
    ):  # fmt: skip
        assert decided(value) is truth

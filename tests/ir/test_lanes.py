"""Facts about lanes of vectors: the range of a value, and addresses and stores that need no lane of 64 bits."""

from __future__ import annotations

from itertools import product
from math import inf, nan

import pytest

from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.vector import bounds, chosen, is_repeated, places, widened

N = X.fresh(64)


def read(dtype: str, *index: Expr) -> Expr:
    return X.load("data", index or (N,), dtype)


def between(low: float, high: float, x: Expr) -> Expr:
    return X.call("min", X.call("max", x, X.const(low, x.dtype)), X.const(high, x.dtype))


def test_the_range_of_a_value() -> None:
    x, y = between(-2.5, 3.25, read("f32")), between(-1.0, 7.5, read("f32", N + 1))
    found = {
        x: (-2.5, 3.25),
        read("f32"): (-inf, inf),
        X.const(1.5, "f32"): (1.5, 1.5),
        X.const(nan, "f32"): (-inf, inf),
        X.call("min", x, y): (-2.5, 3.25),
        X.call("max", x, y): (-1.0, 7.5),
        X.call("max", read("f32"), X.const(0.0, "f32")): (0.0, inf),
        X.call("floor", read("f32")): (-inf, inf),
        X.call("max", X.call("floor", read("f32")), X.const(2.0, "f32")): (2.0, inf),
        read("i8"): (-128, 127),
        read("u16"): (0, 65535),
        read("i32"): (-inf, inf),
        X.cast(read("u8"), "f32"): (0, 255),
        X.cast(read("i32"), "f32"): (-inf, inf),
        X.cast(x, "i32"): (-inf, inf),
        X.cast(x, "i8"): (-128, 127),
        X.call("neg", x): (-inf, inf),
    }
    assert {e: bounds(e) for e in found} == found
    for name in ("round", "floor", "ceil", "trunc"):
        assert bounds(X.call(name, x)) == (-3, 4)


def test_stores_that_widen() -> None:
    for dtype in ("i8", "u8", "i16", "u16", "i32"):
        assert widened(X.cast(read(dtype), "i64")) is read(dtype)
    for e in (X.cast(read("f32"), "i64"), X.cast(read("bool"), "i64"), X.cast(read("i8"), "i32"), read("i64")):
        assert widened(e) is None


@pytest.mark.parametrize("dtype", ["f32", "f16", "i8", "i64"])
def test_loads_that_repeat(dtype: str) -> None:
    found = {times: is_repeated(read(dtype, N // times), N) for times in (1, 2, 3, 4, 8)}
    assert found == {times: dtype in ("f32", "f16") and times in (2, 4) for times in found}
    assert not is_repeated(X.load("data", (), dtype), N)


def test_places_that_integers_choose() -> None:
    m, i32 = X.fresh(4), X.cast(read("i32"), "i64")
    assert chosen(m * 8 + i32 + 3, N) == (m * 8 + 3, read("i32"))
    for e in (
        i32 * 2, i32 + N, i32 + X.cast(read("i32", N + 1), "i64"), X.cast(read("i8"), "i64"), m * 8,
        X.cast(read("i32", N * 2), "i64"), N, X.cast(read("i32", m), "i64"),
    ):  # fmt: skip
        assert chosen(e, N) is None
    for step, dtype in product((0, 1, 3), ("i32", "f32", "i16")):
        assert places(X.cast(N * step + m, dtype), N) == (step if dtype == "i32" else None)
        assert places(X.cast(N * step + m, dtype), None) is None
    assert places(X.cast(read("i8"), "i32"), N) is None

"""Sums of bytes on a GPU: what factors, addends and stores are recognized as, and sums that floats hold exactly."""

from __future__ import annotations

import numpy as np
import pytest

from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.schedule.flat import Weights, evaluate_over
from edgec.schedule.gpu.integer import (
    EXACT,
    exact_in_floats,
    factors,
    of_floats,
    saturated,
    started,
    stored,
    sums_of_columns,
)
from edgec.schedule.program import Buffer

N, K = X.fresh(5), X.fresh(7)
SUM = X.load("sum", (), "i32")


def byte(dtype: str = "i8", *place: Expr) -> Expr:
    return X.load(Buffer("x", "arena", dtype, 100), place or (K,), dtype)


def i32(n: int) -> Expr:
    return X.const(n, "i32")


def f32(x: float) -> Expr:
    return X.const(x, "f32")


def held(values: np.ndarray, *loops: Expr) -> Expr:
    """A constant over loops, row by row."""
    place = X.const(0)
    for v in loops:
        place = place * v.value.extent + v
    return X.load(Weights().add(values), (place,), values.dtype.name.replace("int", "i").replace("float", "f"))


@pytest.mark.parametrize(
    ("low", "high", "kind"),
    [(-128, 127, "i8"), (0, 127, "i8"), (0, 128, "u8"), (0, 255, "u8"), (-1, 128, ""), (-129, 0, ""), (0, 256, "")],
)
def test_types_of_constant_factors(low: int, high: int, kind: str) -> None:
    values = np.full((7, 5), low, np.int16)
    values[3, 2] = high
    l = X.cast(held(values, K, N), "i32")
    s = byte("u8")
    found = factors(X.cast(s, "i32") - i32(4), l)
    assert (found is not None) == bool(kind)
    assert found is None or (found.types, found.offset, found.l, found.s) == (("u8", kind), -4, l, s)


def test_factors_from_memory() -> None:
    """Neither has a zero point, and both are bytes, as they are or chosen."""
    chosen = X.select(X.call("lt", K, X.const(3)), byte("i8"), X.const(0, "i8"))
    for s, l, types in (
        (byte("i8"), byte("u8", N), ("i8", "u8")), (chosen, byte("i8", N), ("i8", "i8")),
    ):  # fmt: skip
        found = factors(X.cast(s, "i32"), X.cast(l, "i32"))
        assert found is not None and (found.s, found.l, found.types, found.offset) == (s, l, types, 0)
    plain, wide = X.cast(byte("i8"), "i32"), X.cast(byte("i16"), "i32")
    for s, l in ((plain + i32(1), plain), (plain, plain + i32(1)), (wide, plain), (plain, wide), (i32(3), plain)):
        assert factors(s, l) is None


def test_sums_of_columns() -> None:
    group = X.fresh(2)
    values = np.arange(2 * 7 * 5, dtype=np.int16).reshape(2, 7, 5) - 20
    l = X.cast(held(values, group, K, N), "i32")
    found = sums_of_columns(l, (N,), (K, X.const(0)), Weights())
    assert found.dtype == "i32" and K not in X.free_variables(found)
    assert np.array_equal(evaluate_over(found, (group, N)), values.sum(1))


def as_float(e: Expr) -> Expr:
    return X.cast(e, "f32")


def test_addends_of_sums() -> None:
    """A sum becomes a float at one place, alone or with an addend."""
    bias = held(np.arange(5, dtype=np.int32), N)
    for epilogue, start in (
        (as_float(SUM) * f32(0.5), i32(0)), (as_float(SUM + bias) * f32(0.5), bias),
        (as_float(X.call("add", bias, SUM)) + f32(1.0), bias), (as_float(SUM + i32(3)), i32(3)),
    ):  # fmt: skip
        found = started(epilogue, SUM)
        assert found is not None and found[0] is start
        sums = [SUM, SUM + start, X.call("add", start, SUM)]
        assert epilogue in [X.substitute(found[1], {found[2]: as_float(a)}) for a in sums]
    for epilogue in (
        SUM, SUM + i32(1), SUM * i32(2), as_float(SUM) + as_float(SUM * i32(2)), X.cast(SUM, "i64"),
        as_float(SUM * i32(2)), as_float(SUM + SUM), X.cast(SUM + bias, "f64"), as_float(SUM + bias) + as_float(SUM),
        as_float(SUM - bias),
    ):  # fmt: skip
        assert started(epilogue, SUM) is None, X.show(epilogue)


def test_bytes_that_are_loaded_as_floats() -> None:
    x = byte("i8")
    own = X.load(x.value, x.args, "f32")
    assert of_floats(as_float(x) * f32(2.0)) is own * f32(2.0)
    assert of_floats(as_float(X.cast(x, "i32"))) is own
    table = held(np.arange(7, dtype=np.int8), K)
    for body in (as_float(table), X.cast(x, "i32"), as_float(byte("i16")), as_float(X.cast(x, "i32") + i32(1)),
                 as_float(X.cast(x, "i64"))):  # fmt: skip
        assert of_floats(body) is body


def between(low: float, high: float, x: Expr) -> Expr:
    return X.call("min", X.call("max", x, f32(low)), f32(high))


ROUNDED = X.call("round", X.load("y", (N,), "f32"))


@pytest.mark.parametrize(
    ("dtype", "low", "high", "is_plain"),
    [("i8", -128, 127, True), ("i8", -129, 127, False), ("i8", -128, 128, False), ("i8", 0, 100, True),
     ("u8", 0, 255, True), ("u8", -1, 255, False), ("u8", 0, 256, False)],
)  # fmt: skip
def test_floats_that_a_store_truncates(dtype: str, low: int, high: int, is_plain: bool) -> None:
    body = X.cast(between(low, high, ROUNDED), dtype)
    assert stored(body, dtype) is (body.args[0] if is_plain else body)
    for other in (body.args[0], X.cast(between(low, high, ROUNDED), "i16")):
        assert stored(other, dtype) is other
    assert stored(X.cast(byte("u8"), "i8"), "i8").op == "cast"
    assert stored(X.cast(body.args[0], "i32"), "i32").op == "cast"


def test_rounded_floats_that_the_type_alone_bounds() -> None:
    y = ROUNDED.args[0]
    for dtype, low, high in (("i8", -128, 127), ("u8", 0, 255)):
        for zero in (0, 3, -17, high - low, low - high):
            value = ROUNDED + f32(zero) if zero else ROUNDED
            turned = X.call("max", X.call("min", value, f32(high)), f32(low))
            for bounded in (between(low, high, value), turned):
                assert saturated(X.cast(bounded, dtype)) == (y, zero)
        assert saturated(X.cast(between(low, high, X.call("add", f32(5.0), ROUNDED)), dtype)) == (y, 5)
        far = high - low + 1
        for bounded in (
            ROUNDED, between(low, high - 1, ROUNDED), between(low + 1, high, ROUNDED), between(low, high, y),
            X.call("max", ROUNDED, f32(low)), X.call("min", ROUNDED, f32(high)), between(low, high, ROUNDED + f32(0.5)),
            between(low, high, ROUNDED + f32(far)), between(low, high, ROUNDED - y), between(low, high, ROUNDED + y),
            X.call("max", X.call("max", ROUNDED, f32(low)), f32(low)),
        ):  # fmt: skip
            assert saturated(X.cast(bounded, dtype)) is None, X.show(bounded)
    assert saturated(between(-128, 127, ROUNDED)) is None
    assert saturated(X.cast(between(-128, 127, ROUNDED), "i16")) is None


def total(terms: int, *factors: Expr) -> Expr:
    k = X.fresh(terms)
    product = X.cast(X.substitute(factors[0], {K: k}), "i32")
    for f in factors[1:]:
        product = product * X.cast(X.substitute(f, {K: k}), "i32")
    return X.reduce("add", (k,), product)


def is_float(e: Expr) -> bool:
    return all(x.dtype != "i32" for x in X.walk(e))


def test_sums_that_floats_hold() -> None:
    """Terms times 256 for each factor, and what is added, are no more than the largest exact float."""
    x, w = byte("i8", K * 5 + N), byte("u8", K)
    most = int(EXACT) // 256**2
    table, large = held(np.full(5, 300, np.int32), N), held(np.full(5, 1 << 24, np.int32), N)
    pad = X.select(X.call("lt", K, X.const(2)), byte("i8"), X.const(0, "i8"))
    for body, holds in (
        (total(most, x, w), True), (total(most + 1, x, w), False), (total(most * 256, x), True),
        (total(most * 256 + 1, x), False), (total(9, x, w) + table, True), (total(9, x, w) + large, False),
        (total(most, x, w) + table, False), (total(9, x, pad), True), (total(9, x, byte("i16")), False),
        (X.reduce("max", (K,), X.cast(x, "i32")), False), (total(9, x, w) * i32(2), False), (SUM, False),
        (X.reduce("add", (o := X.fresh(X.size("m", 1, 5)),), X.cast(byte("i8", o), "i32")), False),
    ):  # fmt: skip
        found = exact_in_floats(as_float(body) * f32(0.5), Weights())
        assert is_float(found) == holds, X.show(body)


def test_exact_sums_are_the_same_numbers() -> None:
    """Of constants, which become floats too."""
    values = np.arange(-60, 10, dtype=np.int8).reshape(7, 10)[:, :5]
    other = np.arange(7, dtype=np.int8)
    bias = held(np.arange(5, dtype=np.int32) * 100, N)
    weights = Weights()
    made = X.reduce("add", (K,), X.cast(held(values, K, N), "i32") * X.cast(held(other, K), "i32"))
    for body in (made, made + bias, X.reduce("add", (K,), X.cast(held(values, K, N), "i32"))):
        found = exact_in_floats(as_float(body), weights)
        assert is_float(found) and np.array_equal(evaluate_over(found, (N,)), evaluate_over(body, (N,)))

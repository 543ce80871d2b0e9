"""Weights as codes of few bits: what a formula is taken apart into gives the same weights, or it is not taken apart."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from chance import RANDOM

from edgec.ir import expr as X
from edgec.ir.dtypes import dtype_name
from edgec.ir.expr import Expr
from edgec.schedule.contract.codes import Codes, codes_of
from edgec.schedule.flat import Weights, evaluate_over

K, N, G = X.fresh(64), X.fresh(5), X.fresh(2)


def f32(number: float) -> Expr:
    return X.const(number, "f32")


class Tables:
    """Constants over rows of groups, with the loops that they are read by."""

    def __init__(self, low: int = -8, high: int = 7, dtype: type = np.int8, group: int = 16) -> None:
        self.weights = Weights()
        codes = RANDOM.integers(low, high + 1, (64, 5)).astype(dtype)
        codes.flat[:2] = low, high
        self.code = self.load(codes, K, N)
        self.group = group
        self.scale = self.load(RANDOM.uniform(0.1, 1, (64 // group, 5)).astype(np.float32), K // group, N)
        self.points = RANDOM.integers(0, 8, (64 // group, 5))

    def load(self, value: np.ndarray, *index: Expr) -> Expr:
        place = X.const(0)
        for i, extent in zip(index, value.shape):
            place = place * extent + i
        return X.load(self.weights.add(value), (place,), dtype_name(value.dtype))

    def point(self, dtype: type = np.uint8) -> Expr:
        return self.load(self.points.astype(dtype), K // self.group, N)


def as_float(e: Expr) -> Expr:
    return X.cast(e, "f32")


def weights_of(found: Codes) -> np.ndarray:
    """[groups, group, n] of what was taken apart."""
    scale = found.scale.values[:, :, None]
    codes = found.codes.astype(np.float32)
    base = np.zeros_like(scale) if found.base is None else found.base.values[:, :, None]
    if found.has_points:
        return np.asarray(scale * (codes - base))
    return np.asarray(scale * (codes - found.zero) + base)


FORMULAS: dict[str, Callable[[Tables], Expr]] = {
    "scaled": lambda t: as_float(t.code) * t.scale,
    "scale first": lambda t: X.call("mul", t.scale, as_float(t.code)),
    "with a point": lambda t: (as_float(t.code) - f32(3.0)) * t.scale,
    "with points": lambda t: (as_float(t.code) - as_float(t.point())) * t.scale,
    "points of integers": lambda t: as_float(X.cast(t.code, "i32") - X.cast(t.point(), "i32")) * t.scale,
    "of wide integers": lambda t: as_float(X.cast(t.code, "i64") - X.cast(t.point(), "i64")) * t.scale,
    "with a base": lambda t: as_float(t.code) * t.scale + t.load(RANDOM.random((4, 5)).astype(np.float32), K // 16, N),
    "turned around": lambda t: (f32(7.0) - as_float(t.code)) * t.scale,
    "negative": lambda t: X.call("neg", as_float(t.code) * t.scale),
    "divided": lambda t: as_float(t.code) / t.scale,
    "divided by a number": lambda t: (as_float(t.code) + f32(1.0)) / f32(4.0),
    "doubled": lambda t: as_float(t.code) + as_float(t.code),
    "one scale": lambda t: as_float(t.code) * f32(0.25),
}
#: Not linear in the codes, or not in steps of whole groups.
OTHERS: dict[str, Callable[[Tables], Expr]] = {
    "squared": lambda t: as_float(t.code) * as_float(t.code) * t.scale,
    "below": lambda t: t.scale / as_float(t.code),
    "magnitudes": lambda t: X.call("abs", as_float(t.code)) * t.scale,
    "halves of integers": lambda t: (
        as_float(X.raw_call("div", (X.cast(t.code, "i32"), X.const(2, "i32")), "i32")) * t.scale
    ),
    "rounded to integers": lambda t: as_float(X.cast(as_float(t.code) * f32(0.5), "i32")) * t.scale,
    "in a byte": lambda t: as_float(X.raw_call("mul", (t.code, X.const(40, t.code.dtype)), t.code.dtype)) * t.scale,
    "a scale of each": lambda t: as_float(t.code) * t.load(RANDOM.random((64, 5)).astype(np.float32), K, N),
    "floats": lambda t: t.load(RANDOM.random((64, 5)).astype(np.float32), K, N) * t.scale,
    "16 bits": lambda t: as_float(t.load(RANDOM.integers(-300, 300, (64, 5)).astype(np.int16), K, N)) * t.scale,
    "two tables": lambda t: (as_float(t.code) + as_float(t.load(np.ones((64, 5), np.int8), K, N))) * t.scale,
}


@pytest.mark.parametrize("name", {**FORMULAS, **OTHERS})
@pytest.mark.parametrize(("low", "high", "dtype"), [(-8, 7, np.int8), (0, 15, np.uint8), (0, 255, np.uint8)])
def test_formulas_of_codes(name: str, low: int, high: int, dtype: type) -> None:
    tables = Tables(low, high, dtype)
    l = {**FORMULAS, **OTHERS}[name](tables)
    found = codes_of(l, (), K, N)
    assert (found is not None) == (name in FORMULAS)
    if found is not None:
        want = evaluate_over(l, (K, N)).astype(np.float32).reshape(found.codes.shape[1:])
        np.testing.assert_allclose(weights_of(found)[0], want, rtol=1e-6, atol=1e-6)
        assert int(found.codes.min()) == 0 and found.low == low and found.bits == (8 if high > 15 else 4)


@pytest.mark.parametrize("group", [8, 16, 32, 64])
def test_the_longest_groups_with_one_scale(group: int) -> None:
    tables = Tables(group=group)
    found = codes_of(as_float(tables.code) * tables.scale, (), K, N)
    assert (found is None) == (group < 16)
    assert found is None or found.codes.shape == (1, 64 // group, group, 5)


@pytest.mark.parametrize(("most", "bits"), [(15, 4), (16, 6), (63, 6), (64, 8), (255, 8)])
def test_bits_of_codes(most: int, bits: int) -> None:
    found = codes_of(as_float(Tables(0, most, np.uint8).code) * f32(0.5), (), K, N)
    assert found is not None and found.bits == bits


@pytest.mark.parametrize(
    ("points", "low", "kind"),
    [
        (np.full((4, 5), 3), 0, "one"),
        (np.arange(20).reshape(4, 5), 0, "each"),
        (np.arange(20).reshape(4, 5) - 8, -8, "each"),
        (np.arange(20).reshape(4, 5) * 13, 0, "each"),
        (np.arange(20).reshape(4, 5) * 14, 0, "base"),
        (np.arange(20).reshape(4, 5) - 9, -8, "base"),
        (np.arange(20).reshape(4, 5) + 0.5, 0, "base"),
        (np.zeros((4, 5)), 0, "one"),
    ],
)
def test_points_of_groups(points: np.ndarray, low: int, kind: str) -> None:
    """One for all, one a group where a byte holds each, or what is added."""
    tables = Tables(low, low + 15, np.int8)
    scale = tables.load(np.full((4, 5), 0.5, np.float32), K // 16, N)
    l = (as_float(tables.code) - tables.load(points.astype(np.float32), K // 16, N)) * scale
    found = codes_of(l, (), K, N)
    assert found is not None
    assert kind == ("each" if found.has_points else "one" if found.base is None else "base")
    np.testing.assert_allclose(weights_of(found)[0].reshape(64, 5), evaluate_over(l, (K, N)), rtol=1e-6)


def test_scales_that_are_codes_themselves() -> None:
    """With a factor for each group of groups, in 16 bits where these hold it."""
    tables = Tables()
    for low, factor, kind in ((0, 0.5, np.float16), (-8, 1 / 3, np.float32)):
        own = tables.load(RANDOM.integers(low, 8, (4, 5)).astype(np.int8), K // 16, N)
        factors = tables.load(np.full((2, 5), factor, np.float32), K // 32, N)
        l = as_float(tables.code) * (as_float(own) * factors)
        found = codes_of(l, (), K, N)
        assert found is not None and found.scale.factor is not None and found.scale.factor.dtype == kind
        assert found.scale.span == 2 and found.scale.codes.dtype == (np.int8 if low else np.uint8)
        np.testing.assert_allclose(weights_of(found)[0].reshape(64, 5), evaluate_over(l, (K, N)), rtol=1e-6)
    plain = codes_of(as_float(tables.code) * tables.scale, (), K, N)
    assert plain is not None and plain.scale.factor is None and plain.scale.span == 1


def test_codes_of_several_products() -> None:
    weights, values = Tables().weights, RANDOM.integers(-8, 8, (2, 64, 5)).astype(np.int8)
    l = as_float(X.load(weights.add(values), ((G * 64 + K) * 5 + N,), "i8")) * f32(2.0)
    found = codes_of(l, (G,), K, N)
    assert found is not None and found.codes.shape[0] == 2
    got = np.concatenate([weights_of(found)[g] for g in range(2)]).reshape(2, 64, 5)
    assert np.array_equal(got, values * 2.0)
    lanes = sorted({int(v.value.extent) for v in X.free_variables(found.place)})
    assert lanes == [2, 5, *([64] if found.k[0].op != "var" else [])]

"""Integers times real factors, to the bit beside the reference kernels' arithmetic in Python's own integers."""

from __future__ import annotations

from math import floor, frexp

import numpy as np
import pytest
from chance import RANDOM

from edgec.errors import ModelError
from edgec.frontend.tflite.integer import fixed_point, round_away, rounded_away, scaled
from edgec.frontend.values import computed, constant

FACTORS = (
    0.5,
    0.25,
    2.0**-31,
    2.0**-32,
    2.0**-33,
    0.75,
    0.1,
    1e-3,
    0.9999999999,
    1.0,
    1.5,
    2.0,
    37.25,
    1000.0,
    2.0**28,
)
ENDS = (0, 1, -1, 2, -2, 3, -3, 127, -128, 255, 32767, -32768, 2**24 + 1, -(2**30), 2**31 - 1, -(2**31))


def mantissa(real: float) -> tuple[int, int]:
    m, shift = frexp(real)
    q = floor(m * 2**31 + 0.5)
    if q == 2**31:
        q, shift = q // 2, shift + 1
    return (q, shift) if shift >= -31 else (0, 0)


def twice(x: int, real: float) -> int:
    """Rounded half up after the product, and half away from zero after the rest of the shift."""
    q, shift = mantissa(real)
    high = ((x << max(shift, 0)) * q + (1 << 30)) >> 31
    right = max(-shift, 0)
    size = (abs(high) + ((1 << right) >> 1)) >> right
    return size if high >= 0 else -size


def once(x: int, real: float) -> int:
    """Rounded half up at the end."""
    q, shift = mantissa(real)
    return (x * q + (1 << (30 - shift))) >> (31 - shift)


def drawn(most: int) -> list[int]:
    return [*(e for e in ENDS if abs(e) <= most), *map(int, RANDOM.integers(-most, most + 1, 200))]


@pytest.mark.parametrize("is_once", [False, True])
@pytest.mark.parametrize("dtype", ["i32", "i64", "i16"])
@pytest.mark.parametrize("real", FACTORS)
def test_a_factor(real: float, dtype: str, is_once: bool) -> None:
    most = min(2**15 - 1 if dtype == "i16" else 2**31 - 1, int((2**31 - 1) / max(real, 1)))
    numbers = drawn(most)
    found = computed(scaled(constant(np.array(numbers), dtype), real, is_once))
    assert found is not None and found.dtype == ("int64" if mantissa(real)[1] > 0 or dtype == "i64" else "int32")
    assert found.tolist() == [(once if is_once else twice)(x, real) for x in numbers]


def test_factors_of_channels() -> None:
    """With and without a shift, side by side."""
    reals, numbers = np.array([0.3, 0.6, 0.004, 0.5, 0.25]), np.array([drawn(2**31 - 1)[:40] for _ in range(5)]).T
    for factors in (reals, np.array([0.3, 0.6, 3.5, 0.25, 1.0]), np.array([0.7, 0.8, 0.9, 0.6, 0.55])):
        x = constant(numbers // 8, "i32")
        for rule, is_once in ((twice, False), (once, True)):
            found = computed(scaled(x, factors, is_once))
            assert found is not None
            want = [[rule(int(n), float(f)) for n, f in zip(row, factors)] for row in numbers // 8]
            assert found.tolist() == want


def test_a_product_by_a_multiple_of_the_divisor() -> None:
    """The larger addend of a sum: nothing is rounded."""
    x = constant(np.array(ENDS[:10]), "i32")
    for factor, real in ((1 << 20, 2.0**-20), (3 << 20, 2.0**-20), (1 << 20, 2.0**-21), (5, 0.5)):
        found = computed(scaled(x * factor, real))
        assert found is not None and found.tolist() == [twice(n * factor, real) for n in ENDS[:10]]


def test_mantissas() -> None:
    for real in (*FACTORS, 2.0**-50, 1 - 2.0**-40, 3.0):
        q, shift = fixed_point(real)
        assert (int(q), int(shift)) == mantissa(real)
    scaled(constant(np.array([1]), "i32"), 2.0**28)
    with pytest.raises(ModelError, match="too large"):
        scaled(constant(np.array([1]), "i32"), 2.0**29)


def test_halves_go_away_from_zero() -> None:
    x = np.array([0.5, -0.5, 1.5, -1.5, 0.49999997, -0.49999997, 2.0, -3.0, 8388607.5, 0.0], np.float32)
    want = [1, -1, 2, -2, 0, 0, 2, -3, 8388608, 0]
    assert round_away(x).tolist() == want
    found = computed(rounded_away(constant(x)))
    assert found is not None and found.tolist() == want

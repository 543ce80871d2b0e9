"""The logistic function and tanh of 16-bit fixed-point numbers, as gemmlowp defines them: integers all the way.

A number with ``b`` integer bits stands for raw / 2^(15 - b). The functions are evaluated for all 65536 of them at
once: the exponential by a polynomial on (-1/4, 0] and factors for the bits above, quotients by three steps of
Newton's method.
"""

from __future__ import annotations

from functools import cache

import numpy as np

_LEAST, _MOST = -(2**15), 2**15 - 1
#: e^(-2^k) for k = -2 .. 4, e^(-1/8), 1/3: in units of 2^-15; 48/17 and -32/17 in units of 2^-13.
_FACTORS = (25520, 19875, 12055, 4435, 600, 11, 0)
_EXP_EIGHTH, _THIRD, _START, _SLOPE = 28918, 10923, 23130, -15420

Raw = np.ndarray


@cache
def logistic_table() -> np.ndarray:
    """[65536] i16 with no integer bits: 1 / (1 + e^-x) for x of 3 integer bits from the least to the greatest."""
    x = np.arange(_LEAST, _MOST + 1)
    positive = _halved_quotient(_exponential(-np.abs(x), 3))
    positive = _shifted(positive, 1)  # the quotient is half of what is wanted, in 2 integer bits
    found = np.where(x > 0, positive, _MOST - positive)
    return np.asarray(np.where(x == 0, 1 << 14, found), np.int16)


@cache
def tanh_table(bits: int) -> np.ndarray:
    """[65536] i16 with no integer bits: tanh(x) for x of ``bits`` integer bits."""
    x = np.arange(_LEAST, _MOST + 1)
    size = _shifted(_halved_quotient(_exponential(-np.abs(x), bits + 1)) - (1 << 13), 2)
    return np.asarray(np.sign(x) * size, np.int16)


def _product(a: Raw, b: Raw | int) -> Raw:
    """a * b / 2^15, halves upwards."""
    return _divided(a * b, 15)


def _shifted(a: Raw, by: int) -> Raw:
    """a * 2^by, saturated."""
    return np.asarray(np.clip(a << by, _LEAST, _MOST))


def _divided(a: Raw, by: int) -> Raw:
    """a / 2^by, halves upwards."""
    return np.asarray((a + (1 << (by - 1))) >> by)


def _exponential(x: Raw, bits: int) -> Raw:
    """e^x for x <= 0 of ``bits`` integer bits, with none."""
    fraction = 15 - bits
    quarter = 1 << (fraction - 2)
    inside = (x & (quarter - 1)) - quarter
    y = _near_zero(_shifted(inside, bits))
    rest = inside - x
    for k, factor in zip(range(-2, bits), _FACTORS):
        y = np.where(rest & (1 << (fraction + k)), _product(y, factor), y)
    y = np.where(x < -(32 << fraction), 0, y)  # their highest bits have no factor
    return np.asarray(np.where(x == 0, _MOST, y))


def _near_zero(x: Raw) -> Raw:
    """e^x between -1/4 and 0: a polynomial around -1/8."""
    x = x + (1 << 12)
    x2 = _product(x, x)
    x3, x4 = _product(x2, x), _product(x2, x2)
    tail = _divided(_product(_divided(x4, 2) + x3, _THIRD) + x2, 1)
    return np.asarray(np.clip(_EXP_EIGHTH + _product(x + tail, _EXP_EIGHTH), _LEAST, _MOST))


def _halved_quotient(x: Raw) -> Raw:
    """2 / (1 + x) for x in [0, 1] of no integer bits, with 2 of them."""
    half = (x + _MOST + 1) // 2
    y = _START + _product(half, _SLOPE)
    for _ in range(3):
        y = y + _shifted(_product(y, (1 << 13) - _product(half, y)), 2)
    return y

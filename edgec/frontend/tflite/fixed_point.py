"""The logistic function and tanh of 16-bit fixed-point numbers, as gemmlowp defines them: integers all the way.

A number with ``b`` integer bits stands for raw / 2^(15 - b). The functions are evaluated for all 65536 of them at
once: the exponential by a polynomial on (-1/4, 0] and factors for the bits above, quotients by three steps of
Newton's method.
"""

from __future__ import annotations

from functools import cache

import numpy as np

_LEAST, _MOST = -(2**15), 2**15 - 1
#: e^(-2^k) for k = -2 .. 4, e^(-1/8), 1/3: in units of 2^-31; 48/17 and -32/17 in units of 2^-29.
_FACTORS = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
_EXP_EIGHTH, _THIRD, _START, _SLOPE = 1895147668, 715827883, 1515870810, -1010580540

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
    below = np.where(x < 0, x, -x)
    size = _shifted(_halved_quotient(_exponential(below, bits + 1)) - (1 << 13), 2)
    return np.asarray(np.where(x == 0, 0, np.where(x < 0, -size, size)), np.int16)


def _product(a: Raw, b: Raw | int) -> Raw:
    """a * b / 2^15, halves away from zero."""
    whole = a * b
    return np.asarray(np.trunc((whole + np.where(whole >= 0, 1 << 14, 1 - (1 << 14))) / (1 << 15))).astype(np.int64)


def _shifted(a: Raw, by: int) -> Raw:
    """a * 2^by, saturated."""
    return np.asarray(np.clip(a << by, _LEAST, _MOST))


def _divided(a: Raw | int, by: int) -> Raw:
    """a / 2^by, halves away from zero."""
    half = (1 << by) >> 1
    return np.asarray((np.asarray(a) + half - (np.asarray(a) < 0)) >> by)


def _constant(raw: int) -> int:
    """From 32 bits to 16."""
    return int(_divided(raw, 16))


def _exponential(x: Raw, bits: int) -> Raw:
    """e^x for x <= 0 of ``bits`` integer bits, with none."""
    fraction = 15 - bits
    quarter = 1 << (fraction - 2)
    inside = (x & (quarter - 1)) - quarter
    y = _near_zero(_shifted(inside, bits))
    rest = inside - x
    for k, factor in zip(range(-2, bits), _FACTORS):
        y = np.where(rest & (1 << (fraction + k)), _product(y, _constant(factor)), y)
    return np.asarray(np.where(x == 0, _MOST, y))


def _near_zero(x: Raw) -> Raw:
    """e^x between -1/4 and 0: a polynomial around -1/8."""
    x = x + (1 << 12)
    x2 = _product(x, x)
    x3, x4 = _product(x2, x), _product(x2, x2)
    tail = _divided(_product(_divided(x4, 2) + x3, _constant(_THIRD)) + x2, 1)
    middle = _constant(_EXP_EIGHTH)
    return np.asarray(np.clip(middle + _product(x + tail, middle), _LEAST, _MOST))


def _halved_quotient(x: Raw) -> Raw:
    """2 / (1 + x) for x in [0, 1] of no integer bits, with 2 of them."""
    total = x + _MOST
    half = np.trunc((total + np.where(total >= 0, 1, -1)) / 2).astype(np.int64)
    y = _constant(_START) + _product(half, _constant(_SLOPE))
    for _ in range(3):
        y = y + _shifted(_product(y, (1 << 13) - _product(half, y)), 2)
    return y

"""Ranges of values, and the arithmetic of rounding that bounds are made with.

Every array has the boxes of the analysis as its first dimension. NaN means that nothing is known: it stays NaN
through everything that is computed from it, and becomes an infinite bound in an answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Union

import numpy as np

Array = np.ndarray
Number = Union[float, np.ndarray]

#: Unit roundoffs by element type: the code computes doubles no worse than floats.
UNITS = {"f32": 2.0**-24, "f64": 2.0**-24}
#: The greatest float: a bound beyond it may be an infinity of the code.
GREATEST = float(np.finfo(np.float32).max)
#: What a result near zero may lose, as the code keeps no subnormal numbers in some functions (ec_simd.h).
TINY = 4e-37
#: Unit roundoff of the analysis, which is in doubles, and the relative error that its scalar functions have at most.
U64, FUNCTION64 = 2.0**-53, 4e-15
#: The distance of doubles beside their size, at most, and more than it is near zero; products of what is less would be
#: subnormal numbers, which take a hundred times as long.
ULP, LEAST = 2.0**-52, 1e-250


def gamma(terms: int, unit: float) -> float:
    """The relative error of a sum of products of ``terms`` terms in any order (Higham, 2002, lemma 3.1)."""
    lost = terms * unit
    return lost / (1 - lost) if lost < 0.5 else float("nan")


@dataclass(frozen=True)
class Sum:
    """The error of a sum, taken apart: terms may still be added to it, and the code may add them in any order.

    ``carried`` is the error of its terms, ``mass`` the sum of their magnitudes, ``terms`` their number. ``is_closed``:
    the order of the code is known, and what is added behind it is an addition of its own.
    """

    carried: Array
    mass: Array
    terms: int
    is_closed: bool = False


@dataclass(frozen=True)
class Range:
    """A set of values: the exact ones are in ``low`` to ``high``, and what is computed is within ``error`` of them.

    All three are arrays [boxes, elements...]; ``error`` may have extents of 1. ``sum`` is given where the value is a
    sum that the same kernel goes on with. Whatever the error, nothing computed is below ``floor`` or above ``ceiling``.
    """

    low: Array
    high: Array
    error: Array
    sum: Sum | None = None
    floor: float = -inf
    ceiling: float = inf

    @property
    def least(self) -> float:
        """The least number that is computed in any box."""
        found = float((self.low - self.error).min(initial=inf))
        return max(found, self.floor) if found == found else self.floor

    @property
    def greatest(self) -> float:
        """The greatest number that is computed in any box."""
        found = float((self.high + self.error).max(initial=-inf))
        return min(found, self.ceiling) if found == found else self.ceiling

    @cached_property
    def magnitude(self) -> Array:
        """The greatest absolute value, without the error."""
        return np.asarray(np.maximum(np.abs(self.low), np.abs(self.high)))

    @property
    def computed(self) -> Range:
        """The values that are computed, as exact ones: what kernels read from memory."""
        if not self.error.any():
            return Range(self.low, self.high, self.error)
        return checked(self.low - self.error, self.high + self.error, np.zeros_like(self.error))

    @property
    def is_open(self) -> bool:
        """Is it a sum to which the code may add more terms in any order?"""
        return self.sum is not None and not self.sum.is_closed

    @property
    def terms(self) -> Sum:
        """The value as a sum; of one term where it is none."""
        if self.sum is not None and not self.sum.is_closed:
            return self.sum
        return Sum(self.error, self.magnitude + self.error, 1)


def exact(value: Array) -> Range:
    """One known value for all boxes."""
    wide = np.asarray(value, np.float64)[None]
    return Range(wide, wide, np.zeros((1,) * wide.ndim))


def checked(low: Array, high: Array, error: Array, sum: Sum | None = None) -> Range:
    """Bounds of floats that were rounded to the nearest double, made outward; NaN where the code may leave its numbers.

    Beyond the greatest float the code has infinities, of which nothing is said.
    """
    with np.errstate(all="ignore"):
        low, high = low - (np.abs(low) * ULP + LEAST), high + (np.abs(high) * ULP + LEAST)
        error = np.where(error == 0, 0.0, error * (1 + 2 * ULP) + LEAST)
        return _within(low, high, error, sum, -GREATEST, GREATEST)


def whole(
    low: Array,
    high: Array,
    error: Array,
    ends: tuple[float, float],
    sum: Sum | None = None,
    limits: tuple[float, float] = (-inf, inf),
) -> Range:
    """Bounds of integers, which doubles hold exactly; NaN where they leave their type and wrap around.

    ``limits`` are numbers that nothing computed is below or above, whatever its error.
    """
    least, greatest = max(ends[0], -(2.0**52)), min(ends[1], 2.0**52)
    with np.errstate(all="ignore"):
        return _within(low, high, error, sum, least, greatest, limits)


def _within(
    low: Array, high: Array, error: Array, sum: Sum | None, least: float, greatest: float,
    limits: tuple[float, float] = (-inf, inf),
) -> Range:  # fmt: skip
    if limits == (-inf, inf) and (low - error >= least).all() and (high + error <= greatest).all():
        return Range(low, high, error, sum)  # errors are not below zero
    inside = (np.maximum(low - error, limits[0]) >= least) & (np.minimum(high + error, limits[1]) <= greatest)
    inside &= (low >= least) & (high <= greatest)
    nothing = np.where(inside, 0.0, np.nan)
    return Range(low + nothing, high + nothing, error + nothing, sum)


def met(a: Range, low: Array, high: Array) -> Range:
    """The range with bounds found another way; where one of the two says nothing, the other one stays."""
    with np.errstate(all="ignore"):
        lower, upper = np.fmax(a.low, low), np.fmin(a.high, high)
        crossed = lower > upper  # by the rounding of the analysis alone: both bounds hold
        lower, upper = np.where(crossed, upper, lower), np.where(crossed, lower, upper)
    return Range(lower, upper, a.error, a.sum)


def within(a: Range, low: Array, high: Array) -> tuple[Range, Array]:
    """The part of a range from ``low`` to ``high``, and boxes of which it has none, [boxes]; their ranges stay."""
    lower, upper = np.fmax(a.low, low), np.fmin(a.high, high)
    is_empty = (lower > upper).reshape(len(lower), -1).any(axis=1)
    mine = is_empty.reshape(-1, *(1,) * (lower.ndim - 1))
    return Range(np.where(mine, a.low, lower), np.where(mine, a.high, upper), a.error, a.sum), is_empty

"""Pairs of bounds as values of a graph, and the rounding that keeps them apart.

A pair encloses two things at once: the exact value, and what the code computes with its sums in any order. Arithmetic
on pairs is that of the network itself, in floats, so every rule adds the rounding of the network and its own. A bound
that leaves `MOST`, or is no number, becomes NaN, and stays NaN through everything that is computed from it; a pair of
which one is NaN says nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgec.certify.ranges import UNITS, gamma
from edgec.errors import ModelError
from edgec.frontend.values import Value, constant, emit, select

#: The unit roundoff of floats, and the greatest magnitude that a bound may have: sums of two of them are no infinity.
UNIT, MOST = UNITS["f32"], 2.0**125
#: What a bound moves by at least, for results near zero (`TINY`): so large that its multiples are no subnormal numbers,
#: which processors are slow with.
LEAST = 1e-28
#: Part by which constants of rounding are larger than they have to be, for the rounding of these constants.
_SPARE = 1.01
#: The relative rounding of a sum, at most: beyond it a bound would say nothing.
_MOST_ROUNDING = 0.25


@dataclass(frozen=True)
class Pair:
    """``low`` <= value <= ``high``, of one shape; one value twice for a constant."""

    low: Value
    high: Value

    @property
    def is_known(self) -> bool:
        """Is the value a constant?"""
        return self.low.node is self.high.node

    @property
    def magnitude(self) -> Value:
        """The greatest absolute value, without rounding."""
        return absolute(self.low) if self.is_known else greater(-self.low, self.high)


def absolute(x: Value) -> Value:
    return emit("abs", x)


def greater(a: Value, b: Value) -> Value:
    """The greater of two values; NaN where one is."""
    return emit("max", a, b)


def lesser(a: Value, b: Value) -> Value:
    """The lesser of two values; NaN where one is."""
    return emit("min", a, b)


def number(x: float) -> Value:
    """A constant of rounding, as a float that is no less."""
    return constant(np.nextafter(np.float32(x), np.float32(np.inf)), "f32")


def rounding_of(terms: int) -> float:
    """The part of the magnitudes of ``terms`` terms that two sums of them lose together, and a few steps after one.

    One is that of the network, in any order, and one that of a bound. Raises ModelError for sums that are too long.
    """
    lost = gamma(terms + 8, UNIT)
    if not lost < _MOST_ROUNDING:
        raise ModelError(f"a sum of {terms} terms loses too much in floats for a bound")
    return 2.1 * lost / (1 - lost)


def at_most(x: Value, most: float) -> Value:
    """The value where it is at most that, and NaN elsewhere."""
    return select(x <= constant(most, "f32"), x, constant(np.nan, "f32"))


def held(low: Value, high: Value) -> Pair:
    """The pair with NaN for what has left the range of floats that are calculated with."""
    return Pair(select(low >= constant(-MOST, "f32"), low, constant(np.nan, "f32")), at_most(high, MOST))


def widened(low: Value, high: Value, units: float) -> Pair:
    """Bounds that were rounded to nearest, made outward by ``units`` roundoffs of themselves.

    ``units`` counts the rounding of the network, that of the bounds, and one for this step.
    """
    relative, least = number(units * UNIT * _SPARE), number(LEAST)
    return held(low - (absolute(low) * relative + least), high + (absolute(high) * relative + least))


def outward(x: Pair, terms: int) -> Pair:
    """A term of a sum of ``terms``, moved by its part of the rounding of the whole, in whatever order terms are added.

    Of v - c |v| the least is at the least v: each end is moved by its own magnitude.
    """
    relative, least = number(rounding_of(terms)), number(2 * LEAST)
    low = x.low - (absolute(x.low) * relative + least)
    return Pair(low, x.high + (absolute(x.high) * relative + least))


def around(x: Value, distance: Value) -> Pair:
    """The values at most ``distance`` away from x; x itself where that is zero."""
    relative, least = (select(distance > 0.0, number(v), constant(0.0, "f32")) for v in (3 * UNIT * _SPARE, LEAST))
    low, high = x - distance, x + distance
    return held(low - (absolute(low) * relative + least), high + (absolute(high) * relative + least))

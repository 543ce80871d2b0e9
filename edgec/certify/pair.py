"""Pairs of bounds as values of a graph, and the rounding that keeps them apart.

A pair encloses two things at once: the exact value, and what the code computes with its sums in any order. Arithmetic on
pairs is that of the network itself, in floats, so every rule adds the rounding of the network and its own. Where a bound
leaves `MOST`, or is no number, both become NaN, and stay NaN through everything that is computed from them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgec.certify.ranges import TINY, UNITS, gamma
from edgec.errors import ModelError
from edgec.frontend.values import Value, constant, emit, select

#: The unit roundoff of floats, and the greatest magnitude that a bound may have: sums of two of them are no infinity.
UNIT, MOST = UNITS["f32"], 2.0**125
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
        return absolute(self.low) if self.is_known else greater(absolute(self.low), absolute(self.high))


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
    """The part of the magnitudes of ``terms`` terms that two sums of them lose together, and what is done with one after.

    One is that of the network, in any order, and one that of a bound. Raises ModelError for sums that are too long.
    """
    lost = gamma(terms + 8, UNIT)
    if not lost < _MOST_ROUNDING:
        raise ModelError(f"a sum of {terms} terms loses too much in floats for a bound")
    return 2.1 * lost / (1 - lost)


def known_only(low: Value, high: Value, reach: Value, most: float) -> Pair:
    """The pair where ``reach`` is at most ``most``, and NaN elsewhere."""
    nothing = constant(np.nan, "f32")
    inside = reach <= constant(most, "f32")
    return Pair(select(inside, low, nothing), select(inside, high, nothing))


def widened(low: Value, high: Value, units: float, more: Value | None = None) -> Pair:
    """Bounds that were rounded to nearest, made outward by ``units`` roundoffs of themselves, and by ``more``.

    ``units`` counts the rounding of the network, that of the bounds, and one for this step.
    """
    relative, least = number(units * UNIT * _SPARE), number(TINY)

    def lost(x: Value) -> Value:
        found = absolute(x) * relative + least
        return found if more is None else found + more

    low, high = low - lost(low), high + lost(high)
    return known_only(low, high, greater(-low, high), MOST)

"""Bounds of scalar functions of one argument: their range, their steepest slope, and lines above and below.

Everything follows from the row of a function in the table (`edgec.ir.functions`): value, derivative, and its convex and
concave pieces. A line above a convex piece is the secant, below it a tangent; where a function turns once, the line
from one end that touches the other piece. Lines: Zhang et al., "Efficient Neural Network Robustness Certification with
General Activation Functions", 2018. Slopes are what they are; offsets are made outward.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from edgec.certify.ranges import FUNCTION64, Array
from edgec.ir.functions import FUNCTIONS, Curve

#: A slope and an offset.
Line = tuple[Array, Array]
#: Steps of the search for a point where a line touches; each halves what is left.
_HALVINGS = 60
#: Part of the values that offsets are moved outward by, and of the length for what derivatives lose.
_SLACK = 1e-13


@dataclass(frozen=True)
class Lines:
    """slope_low * x + offset_low <= f(x) <= slope_high * x + offset_high."""

    slope_low: Array
    offset_low: Array
    slope_high: Array
    offset_high: Array


def _where(here: Array, new: Line, old: Line) -> Line:
    return np.where(here, new[0], old[0]), np.where(here, new[1], old[1])


@dataclass(frozen=True)
class Scalar:
    """A function of one argument with its derivative and its curve."""

    value: Callable[[Array], Array]
    slope: Callable[[Array], Array]
    curve: Curve

    def range(self, low: Array, high: Array) -> tuple[Array, Array]:
        """Least and greatest value between ``low`` and ``high``; NaN where the function is not defined."""
        low, high = self._defined(low), self._defined(high)
        ends = self.value(low), self.value(high)
        least, most = np.minimum(*ends), np.maximum(*ends)
        for x in self.curve.extremes:
            there = float(self.value(np.array(x)))
            inside = (low < x) & (x < high)
            least = np.where(inside, np.minimum(least, there), least)
            most = np.where(inside, np.maximum(most, there), most)
        return least - FUNCTION64 * np.abs(least), most + FUNCTION64 * np.abs(most)

    def steepest(self, low: Array, high: Array) -> Array:
        """The greatest slope, as a magnitude, between ``low`` and ``high``."""
        low, high = self._defined(low), self._defined(high)
        found = np.maximum(np.abs(self.slope(low)), np.abs(self.slope(high)))
        for x in self.curve.turns:
            inside = (low < x) & (x < high)
            found = np.where(inside, np.maximum(found, abs(float(self.slope(np.array(x))))), found)
        return np.asarray(found * (1 + _SLACK) + 4e-16)

    def lines(self, low: Array, high: Array) -> Lines:
        """Lines below and above the function between ``low`` and ``high``."""
        low, high = self._defined(low), self._defined(high)
        least, most = self.range(low, high)
        with np.errstate(all="ignore"):
            apart = high - low > 1e-9 * np.maximum(1.0, np.maximum(np.abs(low), np.abs(high)))
            slope = self.slope((low + high) / 2)
        # Of what is nearly a point the slope is that of the point, and of several pieces there is none.
        slope = np.where(apart | ~np.isfinite(slope), 0.0, slope)
        reached = slope * low, slope * high
        lower: Line
        upper: Line
        lower, upper = (slope, least - np.maximum(*reached)), (slope, most - np.minimum(*reached))
        turns = np.array(self.curve.turns)
        piece_low, piece_high = np.searchsorted(turns, low, "right"), np.searchsorted(turns, high, "left")
        for k, letter in enumerate(self.curve.pieces):
            here = apart & (piece_low == k) & (piece_high == k)
            secant, tangent = self._secant(low, high), self._tangent((low + high) / 2)
            above, below = (secant, tangent) if letter == "v" else (tangent, secant)
            upper, lower = _where(here, above, upper), _where(here, below, lower)
        for k, turn in enumerate(self.curve.turns):
            here = apart & (piece_low == k) & (piece_high == k + 1)
            if not here.any():
                continue
            first = self.curve.pieces[k]
            above = self._touching(low, high, turn, upward=first == "v", concave=True)
            below = self._touching(low, high, turn, upward=first == "n", concave=False)
            upper, lower = _where(here, above, upper), _where(here, below, lower)
        size = np.maximum(np.abs(least), np.abs(most))
        reach = np.maximum(np.abs(low), np.abs(high))

        def slack(slope: Array) -> Array:
            return np.asarray(_SLACK * (np.abs(slope) * reach + size) + 4e-15 * (high - low) * (slope != 0))

        (slope_low, offset_low), (slope_high, offset_high) = lower, upper
        return Lines(slope_low, offset_low - slack(slope_low), slope_high, offset_high + slack(slope_high))

    def _defined(self, x: Array) -> Array:
        return np.where(x >= self.curve.start, x, np.nan) if self.curve.start > -np.inf else x

    def _secant(self, low: Array, high: Array) -> Line:
        with np.errstate(all="ignore"):
            slope = (self.value(high) - self.value(low)) / (high - low)
        return slope, self.value(low) - slope * low

    def _tangent(self, x: Array) -> Line:
        slope = self.slope(x)
        return slope, self.value(x) - slope * x

    def _touching(self, low: Array, high: Array, turn: float, upward: bool, concave: bool) -> Line:
        """A line above a function that turns once and touches its concave piece; or below it, and the convex one.

        ``upward``: the touched piece is the one behind the turn. The line goes through the far end; where even the
        tangent at the near end passes on the wrong side of it, the secant is the line.
        """
        far, near = (low, high) if upward else (high, low)
        sign = 1.0 if concave else -1.0
        inner, outer = np.full_like(near, turn), near

        def fits(x: Array) -> Array:
            slope, offset = self._tangent(x)
            return np.asarray(sign * (slope * far + offset - self.value(far)) >= 0)

        for _ in range(_HALVINGS):
            middle = (inner + outer) / 2
            good = fits(middle)
            outer, inner = np.where(good, middle, outer), np.where(good, inner, middle)
        tangent, secant = self._tangent(outer), self._secant(low, high)
        usable = fits(near)
        return np.where(usable, tangent[0], secant[0]), np.where(usable, tangent[1], secant[1])


@cache
def scalar(name: str) -> Scalar | None:
    """A function of the table; None for one without convex and concave pieces."""
    function = FUNCTIONS[name]
    if function.curve is None or not function.curve.pieces:
        return None
    code = compile(function.derivatives[0] or "", name, "eval")
    vocabulary = {key: f.numpy for key, f in FUNCTIONS.items()}

    def slope(x: Array) -> Array:
        scope = {**vocabulary, "g": 1.0, "a": x, "y": function.numpy(x)}
        return np.asarray(eval(code, {"__builtins__": {}}, scope), np.float64)

    return Scalar(function.numpy, slope, function.curve)


#: The reciprocal on either side of zero, and the square.
RECIPROCAL = Scalar(lambda x: 1 / x, lambda x: -1 / (x * x), Curve("v", start=0.0, ulp=1.5))
SQUARE = Scalar(lambda x: x * x, lambda x: 2 * x, Curve("v", extremes=(0.0,), ulp=0.5))

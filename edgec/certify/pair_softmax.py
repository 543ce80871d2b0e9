"""Softmax on pairs of bounds: each element is least where it is least itself and all others are greatest.

Bounds of the quotient alone would take the sum at its least and the element at its greatest, of which it is a part.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from edgec.certify.pair import LEAST, UNIT, Pair, greater, lesser, number
from edgec.certify.ranges import gamma
from edgec.frontend.values import Value, constant, emit, select

#: The greatest exponent that is taken, beyond which an element is all of a sum to within a roundoff.
_GREATEST = 80.0
#: The distance of two operands up to which the rounding of their difference is counted; beyond it little is known.
_FARTHEST = 1e5


def softmax(x: Pair, axes: Sequence[int], ulp: float) -> Pair:
    """The pair of exp(x) / sum(exp(x)) over ``axes``, however x is shifted; exp has an error of ``ulp``."""
    added = gamma(prod(x.low.shape[a] for a in axes) + 8, UNIT)
    zero, one = constant(0.0, "f32"), constant(1.0, "f32")
    top, peak = x.high.reduce("max", axes), x.low.reduce("max", axes)
    reach = top - x.low.reduce("min", axes)
    # A power of a rounded difference; then a sum of such powers less one of them, and the quotient of both.
    power = reach * number(1.05 * UNIT) + number((2 * ulp + 1) * UNIT)
    of_sum = power * number(2.1) + number(1.05 * added)
    lost = power * number(3.2) + number(1.05 * added + 12 * UNIT)
    is_near = reach <= constant(_FARTHEST, "f32")

    def share(element: Value, other: Value, shift: Value, sign: float) -> Value:
        """The element's power as a part of its sum with the powers of the others: of all but its own ``other``."""
        own, less = (emit("exp", lesser(v - shift, constant(_GREATEST, "f32"))) for v in (element, other))
        total = less.reduce("add", axes)
        beside = greater(total - less + total * of_sum * sign, zero)
        return own / (own + beside)

    low = share(x.low, x.high, top, 1.0) * (one - lost) - number(LEAST)
    high = share(x.high, x.low, peak, -1.0) * (one + lost) + number(LEAST)
    most = number(1 + 2 * added)
    return Pair(
        select(is_near, greater(low, zero), zero * reach), select(is_near, lesser(high, most), most + zero * reach)
    )

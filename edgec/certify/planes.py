"""Planes below and above element-wise operators: a slope for each operand, and an offset.

Of sums and of products with constants both planes are the function. Of a product of two variables they are McCormick's;
of a maximum the lower one may have any slope between those of its operands; of scalar functions they are the lines of
their curves (`edgec.certify.curves`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from edgec.certify.curves import RECIPROCAL, SQUARE, Lines, scalar
from edgec.certify.elementwise import RANGES, Place, stretched
from edgec.certify.ranges import U64, Array, Range
from edgec.ir.functions import FUNCTIONS
from edgec.ir.types import FLOATS

Slopes = tuple[Array, ...]
_ONE, _ZERO = np.ones(()), np.zeros(())
#: Steps between the least and the greatest value of a function that steps up to which it has no slope: both planes are
#: half a step from the middle then, as those with a slope are, and do not carry the operand's own width.
_JUMPS = 1.0


@dataclass(frozen=True)
class Planes:
    """sum(low * x) + offset_low <= y <= sum(high * x) + offset_high; a slope for each operand.

    Arrays are [boxes, elements...], or one number for all.
    """

    low: Slopes
    offset_low: Array
    high: Slopes
    offset_high: Array


Planed = Callable[[Place, Sequence[Range]], Planes]


def _linear(*slopes: Array) -> Planes:
    return Planes(slopes, _ZERO, slopes, _ZERO)


def _of(lines: Lines, *others: Array) -> Planes:
    return Planes((lines.slope_low, *others), lines.offset_low, (lines.slope_high, *others), lines.offset_high)


def _times(p: Place, args: Sequence[Range]) -> Planes:
    a, b = args
    if p.is_of_one:
        return _of(SQUARE.lines(a.low, a.high), _ZERO)
    if p.node.args[0].is_const:
        return _linear(_ZERO, a.low)
    return _linear(b.low, _ZERO) if p.node.args[1].is_const else mccormick(a, b)


def mccormick(a: Range, b: Range) -> Planes:
    """Planes of a product (McCormick, 1976)."""
    slack = 4 * U64 * a.magnitude * b.magnitude
    return Planes((b.low, a.low), -(a.low * b.low) - slack, (b.low, a.high), -(a.high * b.low) + slack)


def _over(p: Place, args: Sequence[Range]) -> Planes:
    """A product with the reciprocal, whose lines stand for it."""
    a, b = args
    if p.node.args[1].is_const and p.is_float:
        return _linear(1 / b.low, _ZERO)
    if not p.is_float:
        return constant_planes(p, args)
    inverse, lines = _inverse(b)
    if p.node.args[0].is_const:
        planes = Planes((_ZERO, a.low), _ZERO, (_ZERO, a.low), _ZERO)
    else:
        planes = mccormick(a, inverse)
    (k, m), (q, r) = planes.low, planes.high
    up, down = m >= 0, r < 0
    return Planes(
        (k, m * np.where(up, lines.slope_low, lines.slope_high)),
        planes.offset_low + m * np.where(up, lines.offset_low, lines.offset_high),
        (q, r * np.where(down, lines.slope_low, lines.slope_high)),
        planes.offset_high + r * np.where(down, lines.offset_low, lines.offset_high),
    )


def _inverse(b: Range) -> tuple[Range, Lines]:
    """The range of 1 / b, and lines below and above it; NaN where b may be zero.

    Below zero they are those of -b, negated.
    """
    positive = b.low > 0
    lost = np.where(positive | (b.high < 0), 0.0, np.nan)
    low, high = np.where(positive, b.low, -b.high) + lost, np.where(positive, b.high, -b.low) + lost
    least, most = RECIPROCAL.range(low, high)
    one = RECIPROCAL.lines(low, high)
    lines = Lines(
        np.where(positive, one.slope_low, one.slope_high),
        np.where(positive, one.offset_low, -one.offset_high),
        np.where(positive, one.slope_high, one.slope_low),
        np.where(positive, one.offset_high, -one.offset_low),
    )
    return Range(np.where(positive, least, -most), np.where(positive, most, -least), 0 * low), lines


def _maximum(p: Place, args: Sequence[Range]) -> Planes:
    a, b = args
    return extreme_planes(p.node.op, a, b)


def extreme_planes(op: str, a: Range, b: Range, share: Array | None = None) -> Planes:
    """Of max(a, b) = b + max(d, 0) with d = a - b; a minimum is that of the negated operands, negated.

    ``share``, 0 to 1, is the part of ``a`` in the free plane: the lower one of a maximum, the upper one of a minimum.
    """
    if op == "min":
        p = extreme_planes("max", Range(-a.high, -a.low, a.error), Range(-b.high, -b.low, b.error), share)
        return Planes(p.high, -p.offset_high, p.low, -p.offset_low)
    low, high = a.low - b.high, a.high - b.low
    is_first, is_second = low >= 0, high <= 0
    lost = 0 * (low + high)
    with np.errstate(all="ignore"):
        slope = np.where(is_first, 1.0, np.where(is_second, 0.0, np.minimum(high / (high - low), 1.0)))
    free = np.where(high > -low, 1.0, 0.0) if share is None else share
    below = np.where(is_first, 1.0, np.where(is_second, 0.0, free))
    # The line from (low, 0) to (high, high): at neither end it is below, whatever its slope was rounded to.
    offset = np.maximum(-slope * low, (1 - slope) * high) * (1 + 8 * U64)
    offset = np.where(is_first | is_second, 0.0, offset)
    return Planes((below + lost, 1 - below + lost), lost, (slope + lost, 1 - slope + lost), offset + lost)


def _choice(p: Place, args: Sequence[Range]) -> Planes:
    """The side that is known to be taken; else constants that hold for both."""
    c, a, b = args
    first, second = c.low == 1, c.high == 0
    known, lost = first | second, 0 * (c.low + a.low + b.low)
    slopes = (_ZERO, first + lost, second + lost)
    low, high = np.minimum(a.low, b.low), np.maximum(a.high, b.high)
    return Planes(slopes, np.where(known, 0.0, low) + lost, slopes, np.where(known, 0.0, high) + lost)


def _cast_planes(p: Place, args: Sequence[Range], jumps: float = _JUMPS) -> Planes:
    (a,), source = args, p.node.args[0].type.dtype
    if p.dtype == "bool" and source != "bool":
        return constant_planes(p, args)
    if p.is_float or source not in FLOATS:
        return _linear(_ONE)
    return _steps(
        p, a, np.where(a.high + a.error > 0, -1.0, 0.0), np.where(a.low - a.error < 0, 1.0, 0.0), np.trunc, jumps
    )


def _steps(p: Place, a: Range, low: Array, high: Array, step: Callable[[Array], Array], jumps: float) -> Planes:
    """Between x + low and x + high, or constants; whole numbers stay as they are where they have no error."""
    reach = a.error if p.settles else 0 * a.error
    if p.takes_whole:
        low, high = np.where(a.error == 0, 0.0, low), np.where(a.error == 0, 0.0, high)
    reach = reach * (1 + 1e-15)
    least, most = step(a.low - reach), step(a.high + reach)
    flat = most - least <= jumps
    slope = np.where(flat, 0.0, 1.0)
    return Planes((slope,), np.where(flat, least, low - reach), (slope,), np.where(flat, most, high + reach))


def constant_planes(p: Place, args: Sequence[Range]) -> Planes:
    """No slope: the range of the result."""
    found = RANGES[p.node.op](p, args)
    flat = tuple(_ZERO for _ in args)
    return Planes(flat, found.low, flat, found.high)


def _of_scalar(p: Place, args: Sequence[Range], jumps: float = _JUMPS) -> Planes:
    (a,), function = args, FUNCTIONS[p.node.op]
    assert function.curve is not None
    if function.curve.steps is not None:
        least, most = function.curve.steps
        return _steps(p, a, np.full_like(a.low, least), np.full_like(a.low, most), function.numpy, jumps)
    found = scalar(p.node.op)
    assert found is not None
    return _of(found.lines(a.low, a.high))


def following_planes(p: Place, args: Sequence[Range]) -> Planes:
    """The planes of a function that steps, which have a slope wherever it does step."""
    rank = p.node.type.rank
    wide = [stretched(a, rank) for a in args]
    return _cast_planes(p, wide, 0.0) if p.node.op == "cast" else _of_scalar(p, wide, 0.0)


#: The planes of every operator here.
PLANES: dict[str, Planed] = {
    **dict.fromkeys(RANGES, constant_planes),
    "add": lambda p, args: _linear(_ONE, _ONE), "sub": lambda p, args: _linear(_ONE, -_ONE),
    "neg": lambda p, args: _linear(-_ONE), "mul": _times, "div": _over, "max": _maximum, "min": _maximum,
    "cast": _cast_planes, "select": _choice,
    **{name: _of_scalar for name, f in FUNCTIONS.items() if f.curve is not None},
}  # fmt: skip

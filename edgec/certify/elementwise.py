"""Ranges of element-wise operators, and the rounding errors of the code that computes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from edgec.certify.curves import SQUARE, scalar
from edgec.certify.ranges import TINY, U64, UNITS, Array, Range, Sum, checked, gamma, whole
from edgec.ir.dtypes import ends
from edgec.ir.functions import FUNCTIONS
from edgec.ir.graph import Node
from edgec.ir.types import FLOATS
from edgec.schedule.order import Order

#: Unit roundoffs that a quotient may lose: the code may multiply by a reciprocal.
_DIVISION = 3.0


@dataclass(frozen=True)
class Place:
    """An operator where it stands.

    ``settles``: what is computed for an element is stored and read as that, by whoever reads it, so that a step in
    between is one step for all. ``takes_whole``: its first operand has whole numbers for values. ``order`` is that of
    the additions of a sum of floats; without one it is any.
    """

    node: Node
    settles: bool = False
    takes_whole: bool = False
    order: Order | None = None

    @property
    def dtype(self) -> str:
        return self.node.type.dtype

    @property
    def is_float(self) -> bool:
        return self.dtype in FLOATS

    @property
    def unit(self) -> float:
        """The unit roundoff of its arithmetic; integers are exact."""
        return UNITS[self.dtype] if self.is_float else 0.0

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the greatest number of its type."""
        return (0.0, 1.0) if self.dtype == "bool" else ends(self.dtype)

    @property
    def steps(self) -> bool:
        """Is it its operand but for a step that is known? A cast to truth values is none."""
        if self.node.op == "cast":
            return self.dtype != "bool"
        function = FUNCTIONS.get(self.node.op)
        return function is not None and function.curve is not None and function.curve.steps is not None

    @property
    def is_of_one(self) -> bool:
        """Is it an operator on a value and the same value?"""
        return len(self.node.args) == 2 and self.node.args[0] is self.node.args[1]


Ranged = Callable[[Place, Sequence[Range]], Range]


def aligned(x: Array, rank: int) -> Array:
    """An operand [boxes, ...] with as many dimensions as a result of ``rank`` has."""
    if x.ndim == rank + 1:
        return x
    return x.reshape(x.shape[0], *(1,) * (rank + 1 - x.ndim), *x.shape[1:])


def stretched(r: Range, rank: int) -> Range:
    """The same of a range."""
    if r.low.ndim == rank + 1:
        return r
    parts = r.sum
    if parts is not None:
        parts = replace(parts, carried=aligned(parts.carried, rank), mass=aligned(parts.mass, rank))
    low, high, error = (aligned(x, rank) for x in (r.low, r.high, r.error))
    return replace(r, low=low, high=high, error=error, sum=parts)


def rounded(p: Place, low: Array, high: Array, carried: Array, units: float = 1.0) -> Range:
    """A range whose computed values carry an error and are rounded once more, by so many unit roundoffs."""
    if not p.is_float:
        return whole(low, high, carried, p.ends)
    with np.errstate(all="ignore"):
        size = np.maximum(np.abs(low), np.abs(high)) + carried
        lost = units * p.unit * (1 + 1e-6) * size + TINY
        if p.takes_whole and units == 1.0:  # floats hold whole numbers as they are
            lost = np.where((carried == 0) & (size <= 2.0**24), 0.0, lost)
        return checked(low, high, carried + lost)


def _added(p: Place, args: Sequence[Range]) -> Range:
    a, b = args
    low, high = (a.low + b.low, a.high + b.high) if p.node.op == "add" else (a.low - b.high, a.high - b.low)
    if p.is_of_one and p.node.op == "sub":
        low, high = 0 * low, 0 * high
    if not a.is_open and not b.is_open:
        return rounded(p, low, high, a.error + b.error)
    x, y = a.terms, b.terms
    together = Sum(x.carried + y.carried, x.mass + y.mass, x.terms + y.terms)
    if not p.is_float:
        return whole(low, high, together.carried, p.ends, together)
    error = together.carried + gamma(together.terms, p.unit) * together.mass * (1 + 1e-6) + TINY
    return checked(low, high, error, together)


def _corners(a: Range, b: Range, of: Callable[[Array, Array], Array]) -> tuple[Array, Array]:
    found = np.broadcast_arrays(*(of(x, y) for x in (a.low, a.high) for y in (b.low, b.high)))
    return np.minimum.reduce(found), np.maximum.reduce(found)


def _multiplied(p: Place, args: Sequence[Range]) -> Range:
    a, b = args
    low, high = SQUARE.range(a.low, a.high) if p.is_of_one else _corners(a, b, np.multiply)
    return rounded(p, low, high, a.magnitude * b.error + b.magnitude * a.error + a.error * b.error)


def _divided(p: Place, args: Sequence[Range]) -> Range:
    a, b = args
    room = np.where(b.low > 0, b.low, np.where(b.high < 0, -b.high, np.nan)) - b.error
    room = np.where(room > 0, room, np.nan)
    low, high = _corners(a, b, np.divide)
    low = low + 0 * room
    carried = (a.error + np.maximum(np.abs(low), np.abs(high)) * b.error) / room
    if not p.is_float:  # towards zero
        return whole(np.trunc(low), np.trunc(high), np.floor(carried + 1) * (carried > 0), p.ends)
    return rounded(p, low, high, carried, _DIVISION)


def _extreme(p: Place, args: Sequence[Range]) -> Range:
    of = np.maximum if p.node.op == "max" else np.minimum
    a, b = args
    lost = 0 * (a.low + b.low)
    ends = max if p.node.op == "max" else min
    limits = ends(a.least, b.least), ends(a.greatest, b.greatest)
    low, high, error = of(a.low, b.low) + lost, of(a.high, b.high) + lost, np.maximum(a.error, b.error) + lost
    # Where one side is taken whatever the errors are, its error is that of the result.
    slack = 8 * U64 * (a.magnitude + b.magnitude + a.error + b.error)
    is_above = (a.low - a.error) - (b.high + b.error) > slack
    is_below = (b.low - b.error) - (a.high + a.error) > slack
    taken = (is_above, is_below) if p.node.op == "max" else (is_below, is_above)
    error = np.where(taken[0], a.error + lost, np.where(taken[1], b.error + lost, error))
    return Range(low, high, error, None, *limits)


def _negated(p: Place, args: Sequence[Range]) -> Range:
    (a,) = args
    return Range(-a.high, -a.low, a.error, a.sum) if p.is_float else whole(-a.high, -a.low, a.error, p.ends)


def _cast(p: Place, args: Sequence[Range]) -> Range:
    (a,), source = args, p.node.args[0].type.dtype
    if p.is_float:
        holds = source in (p.dtype, "bool") or (source not in FLOATS and max(map(abs, ends(source))) <= 2**24)
        return Range(a.low, a.high, a.error, a.sum) if holds else rounded(p, a.low, a.high, a.error)
    if p.dtype == "bool":
        return _truth(a)
    if source not in FLOATS:
        return whole(a.low, a.high, a.error, p.ends)
    return stepped(p, a, np.trunc)


def stepped(p: Place, a: Range, step: Callable[[Array], Array]) -> Range:
    """A function that steps, of an operand with an error: a step further is taken where the error reaches one.

    What is stored at once is a number within the steps of the operand's ends. Otherwise several readers may see
    different sides of a step, and the error is one.
    """
    if p.takes_whole:  # and whole numbers are computed
        low, high, error = step(a.low), step(a.high), a.error + 0 * a.low
    elif p.settles:
        low, high = step(a.low - a.error), step(a.high + a.error)
        error = 0 * low
    else:
        low, high, error = step(a.low), step(a.high), np.floor(a.error + 1) * (a.error > 0)
    limits = float(step(np.array(a.floor))), float(step(np.array(a.ceiling)))
    return checked(low, high, error) if p.is_float else whole(low, high, error, p.ends, None, limits)


def _truth(a: Range) -> Range:
    """The truth of a number that is not zero: known where its sign is."""
    true = (a.low - a.error > 0) | (a.high + a.error < 0)
    false = (a.low == 0) & (a.high == 0) & (a.error == 0)
    return _bits(true, false, a.error, 0 * (a.low + a.high))


def _bits(true: Array, false: Array, slack: Array, lost: Array) -> Range:
    """Truth values as 0 and 1; the error says whether what is computed may be the other one."""
    return Range(true + lost, 1.0 - false + lost, ((slack > 0) & ~true & ~false) + lost)


def _compared(p: Place, args: Sequence[Range]) -> Range:
    a, b = args
    slack = a.error + b.error
    below, above = a.high + slack < b.low, a.low - slack > b.high
    not_above, not_below = a.high + slack <= b.low, a.low - slack >= b.high
    equal = (a.low == a.high) & (b.low == b.high) & (a.low == b.low) & (slack == 0)
    apart = below | above
    true, false = {
        "lt": (below, not_below), "le": (not_above, above), "gt": (above, not_above), "ge": (not_below, below),
        "eq": (equal, apart), "ne": (apart, equal),
    }[p.node.op]  # fmt: skip
    return _bits(true, false, slack, 0 * (a.low + b.low + slack))


def _logical(p: Place, args: Sequence[Range]) -> Range:
    if p.node.op == "not":
        (a,) = args
        return Range(1 - a.high, 1 - a.low, a.error)
    a, b = args
    error = np.maximum(a.error, b.error)
    if p.node.op == "xor":
        known = (a.low == a.high) & (b.low == b.high)
        value = np.abs(a.low - b.low)
        return Range(np.where(known, value, 0 * value), np.where(known, value, 1 + 0 * value), error)
    of = np.minimum if p.node.op == "and" else np.maximum
    return Range(of(a.low, b.low), of(a.high, b.high), error)


def _selected(p: Place, args: Sequence[Range]) -> Range:
    c, a, b = args
    first, second, lost = c.low == 1, c.high == 0, 0 * c.low
    low, high, error = (
        np.where(first, x, np.where(second, y, of(x, y))) + lost
        for x, y, of in ((a.low, b.low, np.minimum), (a.high, b.high, np.maximum), (a.error, b.error, np.maximum))
    )
    return Range(low, high, error + np.where(c.error > 0, high - low, 0.0) * (1 + 1e-15))


def _of_scalar(p: Place, args: Sequence[Range]) -> Range:
    (a,), function = args, FUNCTIONS[p.node.op]
    assert function.curve is not None
    if function.curve.steps is not None:
        return stepped(p, a, function.numpy)
    found = scalar(p.node.op)
    assert found is not None
    low, high = found.range(a.low, a.high)
    with np.errstate(all="ignore"):
        steepest = found.steepest(a.low - a.error, a.high + a.error)
        carried = np.where(a.error == 0, 0.0, steepest * a.error) + 0 * low
    ulp = function.curve.ulp
    return rounded(p, low, high, carried, 2 * ulp) if ulp else Range(low, high, carried)


#: The range of the result of every operator here, with the error of what is computed.
RANGES: dict[str, Ranged] = {
    "add": _added, "sub": _added, "mul": _multiplied, "div": _divided, "max": _extreme, "min": _extreme,
    "neg": _negated, "cast": _cast, "select": _selected,
    **dict.fromkeys(("lt", "le", "gt", "ge", "eq", "ne"), _compared),
    **dict.fromkeys(("and", "or", "xor", "not"), _logical),
    **{name: _of_scalar for name, f in FUNCTIONS.items() if f.curve is not None},
}  # fmt: skip

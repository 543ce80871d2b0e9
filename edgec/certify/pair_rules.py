"""Rules of operators on pairs of bounds: each gives the pair of the result, as a graph that code is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from edgec.certify.pair import Pair, greater, held, lesser, outward, widened
from edgec.frontend.values import Value, constant, emit, select
from edgec.ir.functions import FUNCTIONS
from edgec.ir.graph import Node

#: Roundoffs of a function of two operands: one of the network, one of the bound, one of the step that widens.
_TWICE = 4.0
#: The same of a quotient, where code may multiply by a reciprocal.
_QUOTIENT = 8.0
#: A number that any bound may be moved by.
_SMALL = 2.0**64
#: Functions whose results are never below zero, exactly or computed.
_NOT_BELOW_ZERO = frozenset({"exp", "sqrt", "sigmoid"})


#: Errors of functions in units in the last place, by the language of kernels, where they are not those of
#: `edgec.ir.functions`. In CUDA those of its programming guide (sigmoid: of exp, a sum and a quotient).
ULPS: Mapping[str, Mapping[str, float]] = {"c": {}, "cuda": {"exp": 2.0, "log": 1.0, "sigmoid": 6.0}}


@dataclass(frozen=True)
class Standing:
    """An operator where it stands: the sum that it is part of, as a number of terms, and which operands are terms.

    ``ulp`` is the error of its function in units in the last place.
    """

    node: Node
    terms: int = 0
    leaves: tuple[int, ...] = ()
    ulp: float = 0.0


def ulp_of(op: str, ulps: Mapping[str, float]) -> float:
    """The error of a scalar function in units in the last place, at most; ``ulps`` are those of a language."""
    function = FUNCTIONS.get(op)
    own = function.curve.ulp if function is not None and function.curve is not None else 0.0
    return ulps.get(op, own)


Rule = Callable[[Standing, Sequence[Pair]], Pair]


def _added(at: Standing, args: Sequence[Pair]) -> Pair:
    a, b = args if at.node.op == "add" else (args[0], _turned(args[1]))
    if at.terms <= 2:
        return widened(a.low + b.low, a.high + b.high, _TWICE)
    # The network may add its terms in any order: each is moved outward by its part of the rounding of the whole sum.
    a, b = (outward(x, at.terms) if k in at.leaves else x for k, x in enumerate((a, b)))
    low, high = a.low + b.low, a.high + b.high
    has_small = any(x.low.is_const and np.abs(x.low.node.value).max(initial=0.0) <= _SMALL for x in (a, b))
    return Pair(low, high) if has_small and len(at.leaves) == 1 else held(low, high)


def _turned(a: Pair) -> Pair:
    if a.is_known:
        opposite = -a.low
        return Pair(opposite, opposite)
    return Pair(-a.high, -a.low)


def _multiplied(at: Standing, args: Sequence[Pair]) -> Pair:
    a, b = args
    if at.node.args[0] is at.node.args[1]:
        least, most = _distance(a), a.magnitude
        return _kept(widened(least * least, most * most, _TWICE))
    if b.is_known:
        a, b = b, a
    if a.is_known:
        factor = a.low
        if factor.is_const and (factor.node.value >= 0).all():
            return widened(b.low * factor, b.high * factor, _TWICE)
        if factor.is_const and (factor.node.value <= 0).all():
            return widened(b.high * factor, b.low * factor, _TWICE)
        return _between([b.low * factor, b.high * factor], _TWICE)
    return _between([x * y for x in (a.low, a.high) for y in (b.low, b.high)], _TWICE)


def _distance(a: Pair) -> Value:
    """The least absolute value."""
    return greater(greater(a.low, -a.high), constant(0.0, "f32"))


def _kept(a: Pair) -> Pair:
    """A pair of what is never below zero."""
    return Pair(greater(a.low, constant(0.0, "f32")), a.high)


def _between(values: Sequence[Value], units: float) -> Pair:
    low = high = values[0]
    for x in values[1:]:
        low, high = lesser(low, x), greater(high, x)
    return widened(low, high, units)


def _divided(at: Standing, args: Sequence[Pair]) -> Pair:
    a, b = args
    if b.is_known:
        return _between([a.low / b.low, a.high / b.low], _QUOTIENT)
    zero, nothing = constant(0.0, "f32"), constant(np.nan, "f32")
    low = select((b.low > zero) | (b.high < zero), b.low, nothing)
    return _between([x / y for x in dict.fromkeys((a.low, a.high)) for y in (low, b.high)], _QUOTIENT)


def _extreme(at: Standing, args: Sequence[Pair]) -> Pair:
    (a, b), of = args, at.node.op
    return Pair(emit(of, a.low, b.low), emit(of, a.high, b.high))


def _negated(at: Standing, args: Sequence[Pair]) -> Pair:
    return _turned(args[0])


def _magnitude(at: Standing, args: Sequence[Pair]) -> Pair:
    return Pair(_distance(args[0]), args[0].magnitude)


def _stepped(at: Standing, args: Sequence[Pair]) -> Pair:
    (a,) = args
    return Pair(emit(at.node.op, a.low), emit(at.node.op, a.high))


def _growing(at: Standing, args: Sequence[Pair]) -> Pair:
    (a,) = args
    # An error of an ulp is one of two roundoffs at most, in the network and in the bound.
    found = widened(emit(at.node.op, a.low), emit(at.node.op, a.high), 4 * at.ulp + 2)
    return _kept(found) if at.node.op in _NOT_BELOW_ZERO else found


def leaky(n: Node, x: Pair, slopes: Sequence[np.ndarray]) -> Pair:
    """A choice by the sign of x between multiples of it: its ends, or zero between them where a slope is below zero."""
    choice, *sides = n.args
    zero, limit, own = constant(0.0, "f32"), Value(choice.args[1]), choice.args[0]
    k = [side is own for side in sides].index(True)
    factor = Value(next(a for a in sides[1 - k].args if a is not own))

    def of(v: Value) -> Value:
        then, otherwise = (v, v * factor) if k == 0 else (v * factor, v)
        return select(emit(choice.op, v, limit), then, otherwise)

    ends = [of(x.low), of(x.high)]
    if all((s >= 0).all() for s in slopes):
        return widened(ends[0], ends[1], _TWICE)
    within = select((x.low < zero) & (x.high > zero), zero, ends[0])
    return _between([*ends, within], _TWICE)


def chosen(condition: Value | None, a: Pair, b: Pair) -> Pair:
    """One of two values, by a constant condition; whichever it is, where that is computed."""
    if condition is None:
        return Pair(lesser(a.low, b.low), greater(a.high, b.high))
    return Pair(select(condition, a.low, b.low), select(condition, a.high, b.high))


#: The rules of element-wise operators; those that grow are the functions with a curve but `abs` and steps.
RULES: dict[str, Rule] = {
    "add": _added, "sub": _added, "mul": _multiplied, "div": _divided, "max": _extreme, "min": _extreme,
    "neg": _negated, "abs": _magnitude,
    **{
        name: _stepped if f.curve.steps is not None else _growing
        for name, f in FUNCTIONS.items()
        if f.curve is not None and not f.curve.extremes
    },
}  # fmt: skip

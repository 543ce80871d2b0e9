"""Sums of products on pairs of bounds: a middle by the weights, and a reach by their magnitudes.

For w times the values between low and high, the middle is w times (low + high) / 2, and the reach |w| times half of
high - low. Rounding is a part of the sum of all magnitudes |w| |x|, in whatever order they are added. So it is added to
what |w| is multiplied by, and no third sum is needed:

    reach = |w| (radius (1 + c) + max(|low|, |high|) c)

A matrix product computes middle and reach in one kernel, as two rows of a tile: every weight is loaded once, and loses
its sign in a register. Convolutions, whose weights stay in the cache, are two kernels over one copy of the weights.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from edgec import ops
from edgec.certify.pair import LEAST, MOST, UNIT, Pair, absolute, at_most, held, number, outward, rounding_of
from edgec.frontend.values import Value, concat, constant
from edgec.ir.graph import Node


def product_with_weights(n: Node, x: Pair, weights: Value, k: int, terms: int, own: int) -> Pair:
    """A matmul or conv whose operand ``k`` varies; ``terms`` are those of the whole sum, ``own`` those of the product.

    ``weights`` is the value of the other operand, a constant.
    """
    c = rounding_of(terms)
    middle, reach = _middle(x, c)
    if n.op == "matmul" and k == 0 and weights.rank == 2:
        both = _in_one(middle, reach, weights)
        made = [both.part(0, row, row + 1).reshape(*n.type.shape) for row in (0, 1)]
        return _around(made[0], made[1], c, own)
    sizes = Value(ops.node("abs", weights.node))

    def applied(operand: Value, factor: Value) -> Value:
        args = (operand, factor) if k == 0 else (factor, operand)
        return Value(ops.node(n.op, *(a.node for a in args), **n.attributes))

    return _around(applied(middle, weights), applied(reach, sizes), c, own)


def _in_one(middle: Value, reach: Value, weights: Value) -> Value:
    """[2, rows, columns]: the middle times the weights, and the reach times their magnitudes."""
    inner = weights.shape[0]
    stacked = concat([v.reshape(1, -(-v.type.elements // inner), inner) for v in (middle, reach)], 0)
    first = constant(np.array([True, False]).reshape(2, 1, 1))
    sizes = ops.node("abs", weights.node)
    signed_and_not = ops.node("select", first.node, weights.node, sizes)
    return Value(ops.node("matmul", stacked.node, signed_and_not))


def _middle(x: Pair, c: float) -> tuple[Value, Value]:
    """The middle of a pair, and what is multiplied by magnitudes; padding with zeros stays outside of both."""
    source = _unpadded(x)
    if source is not None:
        pad = x.low.node
        return tuple(Value(ops.node("pad", v.node, **pad.attributes)) for v in _middle(source, c))  # type: ignore[return-value]
    reach = (x.high - x.low) * number(0.5 + 0.5 * c) + (x.magnitude * number(c) + number(LEAST))
    return x.low * 0.5 + x.high * 0.5, reach


def _unpadded(x: Pair) -> Pair | None:
    """The pair that zeros were put around; None where it is no such pair."""
    low, high = x.low.node, x.high.node
    if low.op != "pad" or high.op != "pad" or float(low.attributes["value"]) != 0:
        return None
    return Pair(Value(low.args[0]), Value(high.args[0]))


def _around(middle: Value, reach: Value, c: float, terms: int) -> Pair:
    """Middle and reach as a pair: nothing is known where what was added up may have left the floats on the way."""
    reach = at_most(reach + number(2 * terms * LEAST), min(MOST, c * MOST))
    return Pair(middle - reach, middle + reach)


def product_of_two(n: Node, a: Pair, b: Pair, terms: int, own: int) -> Pair:
    """A matmul of two values that vary: the reach has what either of them adds to the other's magnitude."""
    c = rounding_of(terms)
    (a_middle, _), (b_middle, b_reach) = _middle(a, c), _middle(b, c)
    a_radius = (a.high - a.low) * number(0.5 + 0.5 * c) + a.magnitude * number(4 * UNIT)

    def by(x: Value, y: Value) -> Value:
        return Value(ops.node("matmul", x.node, y.node))

    return _around(by(a_middle, b_middle), by(absolute(a_middle), b_reach) + by(a_radius, b.magnitude), c, own)


def total(x: Pair, terms: int, apply: Callable[[Value], Value]) -> Pair:
    """A sum over dimensions or a window."""
    moved = outward(x, terms)
    return held(apply(moved.low), apply(moved.high))

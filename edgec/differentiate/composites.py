"""Softmax and its relatives, ReLU6 and GELU: composites whose derivative is simpler than what the rules of their parts
give.

The first three shift their operand by its maximum and lose the shift again, so that nothing has to pass the maximum:

    softmax      y = e / s             g -> y * (g - sum(g * y)), y of its guard if it has one
    log softmax  y = z - log(s)        g -> g - exp(y) * sum(g)
    log-sum-exp  y = log(s) + m        g -> g * e / s

with z = x - m, e = exp(z) and s = sum(e), where m is the same for all that is summed. The last, min(max(x, 0), c),
passes g where 0 < y < c, as in torch: what lies between the two bounds need not be kept. For GELU, c x (1 + erf(k x)),
it is a factor of x alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import pi, sqrt

import numpy as np

from edgec.frontend.values import Value, emit
from edgec.ir.graph import Node


def composite(n: Node, g: Node) -> tuple[Node, Node] | None:
    """The operand of a composite that ends in ``n``, and the gradient for it; None for any other node."""
    y, seed = Value(n), Value(g)
    softmax = softmax_operand(unguarded(n))
    if softmax is not None:
        x, axes = softmax
        return x, (y * (seed - (seed * y).sum(axes))).node
    if n.op == "sub" and n.args[1].op == "log":
        z, axes = _summed(n.args[1].args[0])
        if z is not None and z is n.args[0]:
            return _unshifted(z, axes), (seed - emit("exp", y) * seed.sum(axes)).node
    if n.op == "add":
        for log, shift in (n.args, n.args[::-1]):
            z, axes = _summed(log.args[0]) if log.op == "log" else (None, ())
            if z is not None and z.op == "sub" and z.args[1] is shift and _unshifted(z, axes) is not z:
                s = log.args[0]
                return z.args[0], (seed * (Value(_powers(s)) / Value(s))).node
    return _gelu(n, seed) or _capped(n, seed)


def _gelu(n: Node, g: Value) -> tuple[Node, Node] | None:
    """GELU by the error function. The factor of its gradient is spelled by erf(-k x), which is no value of the forward
    pass: that one need not be kept."""
    scale, factors = _factors(n)
    for x, gate in (factors, factors[::-1]) if len(factors) == 2 else ():
        if gate.op != "add" or gate.type != x.type:
            continue
        for erf, one in (gate.args, gate.args[::-1]):
            if erf.op != "erf" or not one.is_const or one.type.elements != 1 or (one.value != 1).any():
                continue
            k, inner = _factors(erf.args[0])
            if inner == [x]:
                y = Value(x)
                z = y * -k
                slope = y * (2.0 * scale * k / sqrt(pi)) * emit("exp", -(z * z))
                return x, (g * ((1.0 - emit("erf", z)) * scale + slope)).node
    return None


def _factors(n: Node) -> tuple[float, list[Node]]:
    """A value as a product of a number and of other values."""
    scale, found, waiting = 1.0, [], [n]
    while waiting:
        x = waiting.pop()
        if x.is_const and x.type.elements == 1:
            scale *= float(x.value.reshape(()))
        elif x.op == "mul" and x.type == n.type:
            waiting += x.args[::-1]
        elif x.op == "div" and x.type == n.type and x.args[1].is_const and x.args[1].type.elements == 1:
            scale /= float(x.args[1].value.reshape(()))
            waiting.append(x.args[0])
        else:
            found.append(x)
    return scale, found


def _capped(n: Node, g: Value) -> tuple[Node, Node] | None:
    """ReLU with an upper bound."""
    for inner, cap in (n.args, n.args[::-1]) if n.op == "min" else ():
        if inner.op != "max" or not cap.is_const or not (cap.value > 0).all() or inner.type != n.type:
            continue
        for x, zero in (inner.args, inner.args[::-1]):
            if zero.is_const and not zero.value.any() and x.type == n.type and not x.is_const:
                y = Value(n)
                return x, emit("select", (y > 0.0) & (y < Value(cap)), g, 0.0).node
    return None


def softmax_operand(n: Node) -> tuple[Node, tuple[int, ...]] | None:
    """The operand and the dimensions of a softmax that ends in ``n``, e / s or e * (1 / s); None for any other node."""
    for powers, total in _quotients(n):
        z, axes = _summed(total)
        if z is not None and powers is _powers(total):
            return _unshifted(z, axes), axes
    return None


def unguarded(n: Node) -> Node:
    """The node without its guard, which puts 0 in the place of elements that are not a number."""
    if n.op == "select":
        condition, zero, x = n.args
        is_zero = is_number(zero) and not number_of(zero).any()
        if condition.op == "isnan" and condition.args[0] is x and is_zero:
            return x
    return n


def number_of(n: Node) -> np.ndarray:
    """The constant that a node is or repeats."""
    return number_of(n.args[0]) if n.op == "broadcast" else n.value


def is_number(n: Node) -> bool:
    """Is it a constant, or one repeated?"""
    return is_number(n.args[0]) if n.op == "broadcast" else n.is_const


def _quotients(n: Node) -> Iterator[tuple[Node, Node]]:
    """The pairs (a, b) for which the node is a / b."""
    if n.op == "div":
        yield n.args[0], n.args[1]
    if n.op == "mul":
        for a, b in (n.args, n.args[::-1]):
            if b.op == "div" and b.args[0].is_const and (b.args[0].value == 1).all():
                yield a, b.args[1]


def _powers(total: Node) -> Node:
    return total.args[0]


def _summed(total: Node) -> tuple[Node | None, tuple[int, ...]]:
    """z and the dimensions, if this is the sum of exp(z) over them."""
    if total.op != "reduce" or total.attributes["combine"] != "add" or total.args[0].op != "exp":
        return None, ()
    return total.args[0].args[0], total.attributes["axes"]


def _unshifted(z: Node, axes: tuple[int, ...]) -> Node:
    """x, if z is x less a value that is the same along ``axes``; else z."""
    if z.op != "sub" or z.args[0].type != z.type:
        return z
    x, shift = z.args
    lead = x.type.rank - shift.type.rank
    return x if all(a < lead or shift.type.shape[a - lead] == 1 for a in axes) else z

"""Rounding and bounds: what is an integer already, and clips on either side of a quantization."""

import numpy as np

from edgec.ir.graph import constant
from edgec.ir.types import FLOATS
from edgec.ops import node
from edgec.rewrite import rule, rule_on, static
from edgec.rewrite.facts import is_integral, is_static, least
from edgec.rewrite.sample import extents, given

_ROUNDINGS = ("round", "floor", "ceil", "trunc")


def rounded_integers(random):
    q = node("cast", given("q", *extents(random, 2), dtype=random.choice(["i8", "u8", "i32"])), to="f64")
    x = node(random.choice(_ROUNDINGS), given("x", *q.type.shape))
    three = constant(np.array(3.0))
    yield node(random.choice(_ROUNDINGS), node("add", node("mul", q, three), x))
    yield node(random.choice(_ROUNDINGS), node("max", node("neg", q), three))


@rule_on(*_ROUNDINGS, family="rounding", examples=rounded_integers)
def drop_idle_rounding(n, view):
    """Rounding integers does nothing."""
    return n.args[0] if is_integral(n.args[0]) else "its operand may lie between integers"


#: Functions of one operand and constants that preserve order, given that factors are positive.
_WITH_CONSTANT = ("add", "max", "min", "mul", "div")


def bounds_on_both_sides(random):
    x = given("x", *extents(random, 2))
    low, high = (constant(np.array(random.uniform(*ends))) for ends in ((-3, 1), (2, 9)))
    scale, zero = constant(np.array(random.choice([0.5, 0.3]))), constant(np.array(float(random.randint(-3, 3))))
    clipped = node("min", node("max", x, low), high)
    y = node("add", node("round", node(random.choice(["div", "mul"]), clipped, scale)), zero)
    yield node("max", y, constant(np.array(-5.0)))
    yield node("min", node("max", y, constant(np.array(-2.0))), constant(np.array(7.0)))
    yield node("min", node("floor", clipped), constant(np.array(3.0)))


@rule_on("max", "min", family="rounding", numeric="reassociates", examples=bounds_on_both_sides)
def join_bounds(n, view):
    """max(f(max(x, a)), b) = max(f(x), max(f(a), b)) for f that preserves order: an activation is a quantized bound."""
    y, outer = n.args
    if not is_static(outer) or n.type.dtype not in FLOATS or y.type.shape != n.type.shape:
        return "the bound is not constant"
    chain = []
    while not (y.op == n.op and is_static(y.args[1])):
        if len(chain) > 8 or not _preserves_order(y):
            return "nothing it is computed from has a bound"
        chain.append(y)
        y = y.args[0]
    if not chain:
        return "the bounds are next to one another"
    x, inner = y.args
    if x.type.shape != n.type.shape:
        return "it is repeated on the way"
    for step in reversed(chain):
        x, inner = (node(step.op, a, *step.args[1:], **step.attributes) for a in (x, inner))
    return node(n.op, x, node(n.op, inner, outer))


def _preserves_order(n):
    if n.op in _ROUNDINGS:
        return True
    if n.op not in _WITH_CONSTANT or not is_static(n.args[1]) or n.args[0].type.shape != n.type.shape:
        return False
    return n.op not in ("mul", "div") or (n.args[1].is_const and least(n.args[1]) > 0)


@rule("distributive", numeric="reassociates", where=lambda x, a, s, y, b, t: static(a, s, b, t))
def gather_scaled_offsets(x, a, s, y, b, t):
    """(x + a)*s + (y + b)*t = (x*s + y*t) + (a*s + b*t) for constants."""
    return (x + a) * s + (y + b) * t, (x * s + y * t) + (a * s + b * t)


@rule("distributive", numeric="reassociates", where=lambda x, a, s, y, c: static(a, s, c))
def gather_scaled_offset(x, a, s, y, c):
    """((x + a)*s + y) + c = (x*s + y) + (a*s + c) for constants."""
    return ((x + a) * s + y) + c, (x * s + y) + (a * s + c)

"""Scales and offsets by constants go into the weights: batch normalization after a convolution costs nothing."""

import numpy as np

from edgec.ir.functions import FUNCTIONS
from edgec.ir.graph import constant
from edgec.ops import node
from edgec.rewrite import rule_on
from edgec.rewrite.facts import invertible, is_static, uniform
from edgec.rewrite.sample import fixed, given
from edgec.rewrite.scaling import REACH, scaled, stripped
from edgec.rewrite.shape import reshaped, varies_only

PLAIN = {"strides": (1, 1), "dilations": (1, 1)}


def scaled_results(random):
    x = given("x", 1, 4, 5, 4)
    c = node("conv", x, fixed(random, 6, 2, 3, 2), groups=2, **PLAIN)
    s, t = fixed(random, 6, 1, 1), fixed(random)
    yield node("mul", c, s)
    yield node("mul", node("add", c, fixed(random, 1, 6, 1, 1)), s)
    yield node("mul", node("max", c, constant(np.zeros(()))), constant(np.array(2.5)))
    yield node("mul", node("pad", c, before=(0, 0, 1, 0), after=(0, 0, 0, 2), value=0.0), s)
    yield node("mul", t, node("add", c, node("conv", x, fixed(random, 6, 4, 3, 2), **PLAIN)))
    a = given("a", 2, 3, 4)
    m = node("matmul", a, fixed(random, 4, 5))
    yield node("mul", m, fixed(random, 5))
    yield node("mul", node("matmul", fixed(random, 2, 4, 3), a), fixed(random, 2, 4, 1))
    heads = node("transpose", node("reshape", m, shape=(2, 3, 5, 1)), perm=(0, 2, 1, 3))
    yield node("mul", node("matmul", heads, given("k", 1, 3)), t)
    yield node("mul", heads, fixed(random, 5, 1, 1))
    total = node("reduce", node("sub", m, fixed(random, 5)), combine="add", axes=(1,))
    yield node("mul", node("neg", total), fixed(random, 1, 5))


@rule_on("mul", family="scaling", numeric="reassociates", examples=scaled_results)
def scale_the_weights(n, view):
    """conv(x, w) * s = conv(x, w*s), also through biases, paddings and movements on the way to the weights."""
    for x, s in (n.args, n.args[::-1]):
        if is_static(s) and not is_static(x) and x.type.shape == n.type.shape:
            if x.op == "mul" and any(map(is_static, x.args)):
                return "it is a scale of a scale"
            return scaled(x, s, view)
    return "neither factor is constant"


def scaled_operands(random):
    x = given("x", 1, 4, 5, 4)
    s = node("mul", x, fixed(random, 4, 1, 1))
    padded = node("pad", s, before=(0, 0, 1, 1), after=(0, 0, 1, 1), value=0.0)
    yield node("conv", s, fixed(random, 6, 4, 1, 1), groups=1, **PLAIN)
    yield node("conv", s, fixed(random, 6, 2, 2, 2), groups=2, **PLAIN)
    yield node("conv", padded, fixed(random, 4, 1, 3, 3), groups=4, **PLAIN)
    a = given("a", 2, 3, 4)
    yield node("matmul", node("mul", a, fixed(random, 4)), fixed(random, 4, 5))
    yield node("matmul", fixed(random, 5, 3), node("mul", fixed(random, 3, 1), a))
    yield node("matmul", node("reshape", node("mul", a, fixed(random)), shape=(2, 12)), fixed(random, 12, 3))
    yield node("matmul", node("mul", node("mul", a, fixed(random, 4)), given("b", 3, 1)), fixed(random, 4, 5))


@rule_on("conv", "matmul", family="scaling", numeric="reassociates", examples=scaled_operands)
def scale_the_weights_before(n, view):
    """conv(x*s, w) = conv(x, w*s), also through zero padding and movements."""
    for k, w in enumerate(n.args):
        if is_static(w) and not is_static(n.args[1 - k]) and (n.op == "matmul" or k == 1):
            found = stripped(n.args[1 - k], "mul")
            if isinstance(found, str):
                return found
            x, s = found
            weights = _for_conv(n, w, s) if n.op == "conv" else _for_matmul(w, s, k, view)
            if isinstance(weights, str):
                return weights
            return node(n.op, *((weights, x) if k == 0 else (x, weights)), **n.attributes)
    return "the weights are not constant"


def _for_conv(n, w, s):
    """Channel g*Cg + c of the input meets the weights [outputs of group g, c]."""
    if not varies_only(s, s.type.rank, 1):
        return "the scale varies over positions"
    groups = n.attributes["groups"]
    outputs, per_group, *kernel = w.type.shape
    ones = (1,) * len(kernel)
    if s.type.elements == 1:
        return node("mul", w, reshaped(s, ()))
    if groups == 1:
        return node("mul", w, reshaped(s, (1, per_group, *ones)))
    parted = reshaped(w, (groups, outputs // groups, per_group, *kernel))
    return reshaped(node("mul", parted, reshaped(s, (groups, 1, per_group, *ones))), w.type.shape)


def _for_matmul(w, s, k, view):
    """Rows of the right weights (or columns of the left ones) meet the columns (rows) of the operand."""
    rank = s.type.rank
    inner, own = (rank - 1, rank - 2) if k == 1 else (rank - 2, rank - 1)
    if not varies_only(s, rank, inner):
        return "the scale varies over more than what is summed"
    extents = [1, 1]
    extents[own - rank] = s.type.elements
    return scaled(w, reshaped(s, tuple(extents)), view)


def scaled_gates(random):
    x = node("add", node("matmul", given("x", 3, 4), fixed(random, 4, 5)), fixed(random, 5))
    c = constant(np.array(random.choice([0.5, 2.0, 3.0])))
    gate = node("add", node("erf", node("mul", x, c)), constant(np.array(1.0)))
    yield node("matmul", node("mul", x, gate), fixed(random, 5, 2))
    y = node("add", node("conv", given("p", 1, 2, 3, 3), fixed(random, 4, 2, 1, 1), **PLAIN), fixed(random, 4, 1, 1))
    gate = node("min", node("max", node("add", node("mul", y, c), constant(np.array(0.5))), _zero()), fixed(random))
    yield node("conv", node("mul", y, gate), fixed(random, 3, 4, 1, 1), **PLAIN)


def _zero():
    return constant(np.zeros(()))


@rule_on("conv", "matmul", family="scaling", numeric="reassociates", examples=scaled_gates)
def scale_around_gate(n, view):
    """(x*g(x*c))@w = (z*g(z))@(w/c) with z = x*c in the weights before: the root of a gelu, the 1/6 of a hard swish."""
    product, w = n.args
    if product.op != "mul" or not is_static(w) or view.uses(product) > 1:
        return "no gated value meets constant weights"
    for x, gate in (product.args, product.args[::-1]):
        inner = _scaled_inside(gate, x, REACH)
        if inner is None or view.uses(x) != 2 or view.uses(inner) != 1 or view.uses(gate) != 1:
            continue
        c = inner.args[1]
        verdict = invertible(c)
        if verdict is not True:
            return str(verdict)
        z = scaled(x, c, _Alone(view, x))
        if isinstance(z, str):
            return z
        weights = scaled(w, reshaped(c, ()), view, by="div")
        if isinstance(weights, str):
            return weights
        return node(n.op, node("mul", z, _with_scaled(gate, inner, z)), weights, **n.attributes)
    return "no factor is gated by a multiple of the other one"


class _Alone:
    """The graph as it will be when ``x`` has one reader."""

    def __init__(self, view, x):
        self.view, self.x = view, x

    def uses(self, n):
        return 1 if n is self.x else self.view.uses(n)


def _scaled_inside(gate, x, reach):
    """The one multiple of x by one number that ``gate`` is computed from, element by element; or None."""
    if gate.op == "mul" and gate.args[0] is x:
        return gate if uniform(gate.args[1]) is not None and gate.args[1].type.elements == 1 else None
    if gate.op not in FUNCTIONS or not reach or gate is x:
        return None
    moving = [a for a in gate.args if not is_static(a)]
    return _scaled_inside(moving[0], x, reach - 1) if len(moving) == 1 else None


def _with_scaled(gate, inner, z):
    if gate is inner:
        return z
    return node(gate.op, *(a if is_static(a) else _with_scaled(a, inner, z) for a in gate.args))


def offset_operands(random):
    a = given("a", 2, 6, 4)
    moved = node("add", a, fixed(random, 4))
    flat = node("reshape", moved, shape=(12, 4))
    yield node("matmul", moved, fixed(random, 4, 2))
    yield node("add", node("matmul", flat, fixed(random, 4, 9)), fixed(random, 9))
    x = node("add", given("x", 1, 4, 5, 4), fixed(random, 4, 1, 1))
    yield node("conv", x, fixed(random, 2, 2, 3, 2), groups=2, **PLAIN)
    yield node("add", node("conv", x, fixed(random, 6, 4, 3, 2), **PLAIN), fixed(random, 6, 1, 1))


@rule_on("matmul", "conv", "add", family="scaling", numeric="reassociates", examples=offset_operands)
def offset_after_product(n, view):
    """(x + b)@W + c = x@W + (b@W + c): an offset before weights joins the offset after them."""
    product, bias = n, None
    if n.op == "add":
        for m, c in (n.args, n.args[::-1]):
            if m.op in ("matmul", "conv") and is_static(c) and m.type.shape == n.type.shape:
                product, bias = m, c
        if bias is None:
            return "no operand is a product and the other one constant"
    x, w = product.args
    if not is_static(w):
        return "the weights are not constant"
    found = stripped(x, "add")
    if isinstance(found, str):
        return found
    y, b = found
    offset = _through_conv(product, w, b) if product.op == "conv" else _through_matmul(b, w)
    if isinstance(offset, str):
        return offset
    offset = node("add", offset, bias) if bias is not None else offset
    return node("add", node(product.op, y, w, **product.attributes), offset)


def _through_matmul(b, w):
    if not varies_only(b, b.type.rank, b.type.rank - 1, b.type.rank - 2):
        return "the offset varies over matrices"
    rows = reshaped(b, b.type.shape[-2:])
    if rows.type.shape[1] != w.type.shape[-2]:
        rows = node("broadcast", rows, shape=(rows.type.shape[0], w.type.shape[-2]))
    return node("matmul", rows, w)


def _through_conv(n, w, b):
    """A convolution's result for an offset that is the same at all positions: a number for each output channel."""
    weights = _for_conv(n, w, b)
    if isinstance(weights, str):
        return weights
    outputs, *rest = w.type.shape
    total = node("reduce", weights, combine="add", axes=range(1, w.type.rank))
    return reshaped(total, (outputs, *(1,) * (len(rest) - 1)))

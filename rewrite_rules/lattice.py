"""The lattice of greater and smaller: absorption, distribution, and what preserves order."""

from edgec.ops import node
from edgec.rewrite import absolute, greatest, maximum, minimum, nonnegative, rule, rule_on, static, uniform
from edgec.rewrite.facts import least
from edgec.rewrite.sample import extents, fixed, given


@rule("absorbing", numeric="reassociates")
def absorb_minimum(x, y):
    """max(x, min(x, y)) = x."""
    return maximum(x, minimum(x, y)), x


@rule("absorbing", numeric="reassociates")
def absorb_maximum(x, y):
    """min(x, max(x, y)) = x."""
    return minimum(x, maximum(x, y)), x


@rule("distributive", numeric="reassociates")
def maximum_of_minima(a, b, c):
    """max(min(a, c), min(b, c)) = min(max(a, b), c)."""
    return maximum(minimum(a, c), minimum(b, c)), minimum(maximum(a, b), c)


@rule("distributive", numeric="reassociates")
def minimum_of_maxima(a, b, c):
    """min(max(a, c), max(b, c)) = max(min(a, b), c)."""
    return minimum(maximum(a, c), maximum(b, c)), maximum(minimum(a, b), c)


@rule("distributive", numeric="reassociates", dtypes="float")
def maximum_of_sums(a, b, c):
    """max(a + c, b + c) = max(a, b) + c."""
    return maximum(a + c, b + c), maximum(a, b) + c


@rule("distributive", numeric="reassociates", dtypes="float")
def minimum_of_sums(a, b, c):
    """min(a + c, b + c) = min(a, b) + c."""
    return minimum(a + c, b + c), minimum(a, b) + c


def _not_below_zero(a, b, c):
    return least(c) >= 0 or "the common factor may be negative"


@rule("distributive", numeric="reassociates", dtypes="float", where=_not_below_zero)
def maximum_of_products(a, b, c):
    """max(a*c, b*c) = max(a, b)*c for c >= 0."""
    return maximum(a * c, b * c), maximum(a, b) * c


@rule("distributive", numeric="reassociates", dtypes="float", where=_not_below_zero)
def minimum_of_products(a, b, c):
    """min(a*c, b*c) = min(a, b)*c for c >= 0."""
    return minimum(a * c, b * c), minimum(a, b) * c


@rule("inverse", numeric="reassociates", dtypes="float")
def maximum_of_negations(a, b):
    """max(-a, -b) = -min(a, b)."""
    return maximum(-a, -b), -minimum(a, b)


@rule("inverse", numeric="reassociates", dtypes="float")
def minimum_of_negations(a, b):
    """min(-a, -b) = -max(a, b)."""
    return minimum(-a, -b), -maximum(a, b)


@rule("inverse", numeric="reassociates", dtypes="float")
def maximum_of_opposites(x):
    """max(x, -x) = |x|."""
    return maximum(x, -x), absolute(x)


@rule("inverse", numeric="reassociates", dtypes="float")
def minimum_of_opposites(x):
    """min(x, -x) = -|x|."""
    return minimum(x, -x), -absolute(x)


@rule("inverse", numeric="reassociates", dtypes="float")
def sum_of_both(x, y):
    """max(x, y) + min(x, y) = x + y."""
    return maximum(x, y) + minimum(x, y), x + y


@rule("inverse", numeric="reassociates", dtypes="float")
def product_of_both(x, y):
    """max(x, y) * min(x, y) = x * y."""
    return maximum(x, y) * minimum(x, y), x * y


@rule("associative", numeric="reassociates", where=lambda x, a, y, b: static(a, b))
def join_maxima(x, a, y, b):
    """max(max(x, a), max(y, b)) = max(max(x, y), max(a, b)) for constants a and b."""
    return maximum(maximum(x, a), maximum(y, b)), maximum(maximum(x, y), maximum(a, b))


@rule("associative", numeric="reassociates", where=lambda x, a, y, b: static(a, b))
def join_minima(x, a, y, b):
    """min(min(x, a), min(y, b)) = min(min(x, y), min(a, b)) for constants a and b."""
    return minimum(minimum(x, a), minimum(y, b)), minimum(minimum(x, y), minimum(a, b))


def _is_below(x, c):
    value = uniform(c)
    return (value is not None and greatest(x) <= value) or "the first operand may be above the second"


@rule("range", numeric="reassociates", dtypes="float", where=_is_below)
def minimum_of_lesser(x, c):
    """min(x, c) = x where x <= c is known: a clip at 6 after one at 1 does nothing."""
    return minimum(x, c), x


#: Functions that preserve order where they are defined.
_RISING = ("exp", "sigmoid", "tanh", "erf", "log", "log1p", "expm1", "sqrt", "atan", "sinh", "asinh")
#: Those of them that are not a number below zero (below -1): what compares their results keeps it, and must.
_PARTLY_DEFINED = ("log", "log1p", "sqrt")


def rising_pairs(random):
    f = random.choice(_RISING)
    shape = (*extents(random, 2), 2)
    x, y = (node("add", node("abs", given(name, *shape)), fixed_one()) for name in "xy")
    yield node(random.choice(["max", "min"]), node(f, x), node(f, y))


def fixed_one():
    import numpy as np

    from edgec.ir.graph import constant

    return constant(np.ones(()))


@rule_on("max", "min", family="homomorphism", numeric="reassociates", examples=rising_pairs)
def compare_before_rising(n, view):
    """max(f(x), f(y)) = f(max(x, y)) for a function f that preserves order."""
    a, b = n.args
    if a.op != b.op or a.op not in _RISING or a.type != b.type:
        return "the operands are not results of one order-preserving function"
    if a.op in _PARTLY_DEFINED and nonnegative(*a.args, *b.args) is not True:
        return "one operand alone may be below what the function is defined for"
    return node(a.op, node(n.op, *a.args, *b.args))


def rising_rows(random):
    f = random.choice(_RISING)
    x = node("add", node("abs", given("x", *extents(random, 1), 3)), fixed_one())
    yield node("reduce", node(f, x), combine=random.choice(["max", "min"]), axes=(1,))


@rule_on("reduce", family="homomorphism", numeric="reassociates", examples=rising_rows)
def reduce_before_rising(n, view):
    """The greatest f(x) is f of the greatest x, for a function f that preserves order."""
    (x,) = n.args
    if n.attributes["combine"] not in ("max", "min") or x.op not in _RISING:
        return "it is no extreme of an order-preserving function"
    if x.op in _PARTLY_DEFINED and nonnegative(*x.args) is not True:
        return "some elements may be below what the function is defined for"
    return node(x.op, node("reduce", *x.args, **n.attributes))


def clipped_rows(random):
    x = node("max", given("x", *extents(random, 1), 3), fixed(random))
    yield node("reduce", x, combine="max", axes=(1,))
    yield node("reduce", node("min", given("x", *extents(random, 1), 3), fixed(random)), combine="max", axes=(1,))


@rule_on("reduce", family="homomorphism", numeric="reassociates", examples=clipped_rows)
def reduce_before_clipping(n, view):
    """The greatest max(x, c) is max of the greatest x and c, when c is the same for all that are compared."""
    (x,) = n.args
    if n.attributes["combine"] not in ("max", "min") or x.op not in ("max", "min"):
        return "it is no extreme of a clipped operand"
    for bound, rest in (x.args, x.args[::-1]):
        if bound.type.elements == 1 and rest.type.shape == x.type.shape and x.type.elements:
            return node(x.op, node("reduce", rest, **n.attributes), bound)
    return "no bound is one number"

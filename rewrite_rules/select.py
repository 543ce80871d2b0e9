"""Comparisons, choices and truth values: Boolean algebra, and choices that are a maximum, a sum or nothing."""

from edgec.ir.functions import FUNCTIONS
from edgec.ops import node
from edgec.rewrite import apply, is_static, maximum, minimum, rule, rule_on, select, uniform
from edgec.rewrite.sample import extents, given


@rule("comparison", dtypes="number")
def less_instead_of_greater(a, b):
    """(a > b) = (b < a): one spelling less to look for."""
    return apply("gt", a, b), apply("lt", b, a)


@rule("comparison", dtypes="number")
def at_most_instead_of_at_least(a, b):
    """(a >= b) = (b <= a)."""
    return apply("ge", a, b), apply("le", b, a)


@rule("comparison", dtypes="any")
def not_equal(a, b):
    """not (a = b) = (a /= b), for NaN too."""
    return ~apply("eq", a, b), apply("ne", a, b)


@rule("comparison", dtypes="any")
def not_unequal(a, b):
    """not (a /= b) = (a = b), for NaN too."""
    return ~apply("ne", a, b), apply("eq", a, b)


@rule("comparison", dtypes="integer")
def not_less(a, b):
    """not (a < b) = (b <= a) for integers; a float may be not a number."""
    return ~apply("lt", a, b), apply("le", b, a)


@rule("comparison", dtypes="integer")
def not_at_most(a, b):
    """not (a <= b) = (b < a) for integers."""
    return ~apply("le", a, b), apply("lt", b, a)


@rule("comparison", dtypes="number")
def never_less(x):
    """(x < x) = false, for NaN too."""
    return apply("lt", x, x), False


@rule("comparison", dtypes="integer")
def always_equal(x):
    """(x = x) = true for integers."""
    return apply("eq", x, x), True


@rule("select", numeric="reassociates")
def choose_lesser(a, b):
    """select(a < b, a, b) = min(a, b)."""
    return select(apply("lt", a, b), a, b), minimum(a, b)


@rule("select", numeric="reassociates")
def choose_greater(a, b):
    """select(a < b, b, a) = max(a, b)."""
    return select(apply("lt", a, b), b, a), maximum(a, b)


@rule("select", numeric="reassociates")
def choose_at_most(a, b):
    """select(a <= b, a, b) = min(a, b)."""
    return select(apply("le", a, b), a, b), minimum(a, b)


@rule("select", numeric="reassociates")
def choose_at_least(a, b):
    """select(a <= b, b, a) = max(a, b)."""
    return select(apply("le", a, b), b, a), maximum(a, b)


def _is_fraction(x, a):
    value = uniform(a)
    return (value is not None and 0 <= value <= 1) or "the slope is no constant between 0 and 1"


@rule("select", numeric="reassociates", dtypes="float", where=_is_fraction)
def leaky_maximum(x, a):
    """select(x < 0, x*a, x) = max(x, x*a) for 0 <= a <= 1."""
    return select(apply("lt", x, 0), x * a, x), maximum(x, x * a)


@rule("select", numeric="reassociates", dtypes="float", where=_is_fraction)
def leaky_maximum_otherwise(x, a):
    """select(0 <= x, x, x*a) = max(x, x*a) for 0 <= a <= 1."""
    return select(apply("le", 0, x), x, x * a), maximum(x, x * a)


@rule("select", numeric="reassociates", dtypes="float", where=lambda x, a: is_static(a))
def leaky_by_parts(x, a):
    """max(x, 0) + max(-x, 0)*a = select(x < 0, x*-a, x) for a constant a: PReLU as Keras spells it."""
    return maximum(x, 0) + maximum(-x, 0) * a, select(apply("lt", x, 0), x * -a, x)


@rule("select", numeric="reassociates", dtypes="float")
def rectify_by_choice(x):
    """select(0 < x, x, 0) = max(x, 0)."""
    return select(apply("lt", 0, x), x, 0), maximum(x, 0)


@rule("select", dtypes="any")
def choose_twice_then(c, x, y, z):
    """select(c, select(c, x, y), z) = select(c, x, z)."""
    return select(c, select(c, x, y), z), select(c, x, z)


@rule("select", dtypes="any")
def choose_twice_else(c, x, y, z):
    """select(c, x, select(c, y, z)) = select(c, x, z)."""
    return select(c, x, select(c, y, z)), select(c, x, z)


@rule("select", dtypes="any")
def choose_either(c, d, x, y):
    """select(c, x, select(d, x, y)) = select(c or d, x, y): truth values are narrow."""
    return select(c, x, select(d, x, y)), select(c | d, x, y)


@rule("select", dtypes="any")
def choose_both(c, d, x, y):
    """select(c, select(d, x, y), y) = select(c and d, x, y)."""
    return select(c, select(d, x, y), y), select(c & d, x, y)


@rule("select", dtypes="bool")
def choose_truth(c):
    """select(c, true, false) = c."""
    return select(c, True, False), c


@rule("select", dtypes="bool")
def choose_untruth(c):
    """select(c, false, true) = not c."""
    return select(c, False, True), ~c


_ALIKE = tuple(f for f in FUNCTIONS if f not in ("select", "and", "or", "xor", "not"))


def chosen_alike(random):
    f = random.choice(["exp", "neg", "abs", "tanh"])
    shape = extents(random, 2)
    x, y = given("x", *shape), given("y", *shape)
    yield node("select", node("lt", x, y), node(f, x), node(f, y))


@rule_on("select", family="select", examples=chosen_alike)
def choose_before_function(n, view):
    """select(c, f(x), f(y)) = f(select(c, x, y))."""
    c, a, b = n.args
    if a.op != b.op or len(a.args) != 1 or a.op not in _ALIKE or a.type != b.type:
        return "the alternatives are not results of one function"
    if a.args[0].type != b.args[0].type:
        return "the function is applied to different types"
    return node(a.op, node("select", c, *a.args, *b.args))


@rule("boolean", dtypes="bool")
def neither(a, b):
    """not a and not b = not (a or b) (De Morgan)."""
    return ~a & ~b, ~(a | b)


@rule("boolean", dtypes="bool")
def not_both(a, b):
    """not a or not b = not (a and b) (De Morgan)."""
    return ~a | ~b, ~(a & b)


@rule("absorbing", dtypes="bool")
def absorb_or(a, b):
    """a and (a or b) = a."""
    return a & (a | b), a


@rule("absorbing", dtypes="bool")
def absorb_and(a, b):
    """a or (a and b) = a."""
    return a | (a & b), a


@rule("inverse", dtypes="bool")
def contradiction(a):
    """a and not a = false."""
    return a & ~a, False


@rule("inverse", dtypes="bool")
def excluded_middle(a):
    """a or not a = true."""
    return a | ~a, True


@rule("inverse", dtypes="bool")
def differ_from_itself(a):
    """a xor a = false."""
    return apply("xor", a, a), False


@rule("identity", dtypes="bool")
def differ_from_false(a):
    """a xor false = a."""
    return apply("xor", a, False), a


@rule("inverse", dtypes="bool")
def differ_by_negations(a, b):
    """not a xor not b = a xor b."""
    return apply("xor", ~a, ~b), apply("xor", a, b)


@rule("distributive", dtypes="bool")
def factor_and(a, b, c):
    """(a and c) or (b and c) = (a or b) and c."""
    return (a & c) | (b & c), (a | b) & c


@rule("distributive", dtypes="bool")
def factor_or(a, b, c):
    """(a or c) and (b or c) = (a and b) or c."""
    return (a | c) & (b | c), (a & b) | c


@rule("identity", dtypes="bool")
def equal_to_true(a):
    """(a = true) = a."""
    return apply("eq", a, True), a


@rule("identity", dtypes="bool")
def unequal_to_false(a):
    """(a /= false) = a."""
    return apply("ne", a, False), a


def truth_as_number(random):
    dtype = random.choice(["f32", "f64", "i64", "u8"])
    c = given("c", *extents(random, 2), dtype="bool")
    yield node("ne", node("cast", c, to=dtype), _zero(dtype))
    yield node("lt", _zero(dtype), node("cast", c, to=dtype))


def _zero(dtype):
    import numpy as np

    from edgec.ir.graph import constant
    from edgec.ir.types import DTYPES

    return constant(np.zeros((), DTYPES[dtype]))


@rule_on("ne", "lt", family="inverse", examples=truth_as_number)
def truth_of_number_of_truth(n, view):
    """(number(c) /= 0) = c for a truth value c: masks that were made numbers and back."""
    pairs = [n.args] if n.op == "lt" else [n.args, n.args[::-1]]
    for zero, x in pairs:
        if uniform(zero) == 0 and x.op == "cast" and x.args[0].type.dtype == "bool" and x.type.shape == n.type.shape:
            return x.args[0]
    return "it compares no truth value with 0"


# ---- bits of integers


@rule("absorbing", dtypes="integer")
def no_bits(x):
    """x & 0 = 0."""
    return apply("bitand", x, 0), 0


@rule("identity", dtypes="integer")
def same_bits_and(x):
    """x & x = x."""
    return apply("bitand", x, x), x


@rule("identity", dtypes="integer")
def same_bits_or(x):
    """x | x = x."""
    return apply("bitor", x, x), x


@rule("identity", dtypes="integer")
def add_no_bits(x):
    """x | 0 = x."""
    return apply("bitor", x, 0), x


@rule("identity", dtypes="integer")
def flip_no_bits(x):
    """x ^ 0 = x."""
    return apply("bitxor", x, 0), x


@rule("inverse", dtypes="integer")
def flip_own_bits(x):
    """x ^ x = 0."""
    return apply("bitxor", x, x), 0


@rule("inverse", dtypes="integer")
def flip_bits_twice(x):
    """~~x = x for integers."""
    return apply("bitnot", apply("bitnot", x)), x


@rule("identity", dtypes="integer")
def shift_by_nothing(x):
    """x << 0 = x."""
    return apply("shl", x, 0), x


@rule("distributive", dtypes="integer")
def factor_bits(a, b, c):
    """(a & c) | (b & c) = (a | b) & c."""
    return apply("bitor", apply("bitand", a, c), apply("bitand", b, c)), apply("bitand", apply("bitor", a, b), c)

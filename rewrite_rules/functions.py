"""Cheaper ways to the same value: powers, quotients, exponentials."""

from edgec.rewrite import (
    absolute,
    exp,
    least,
    log,
    maximum,
    nonnegative,
    positive,
    power,
    power_of_two,
    rule,
    sqrt,
    uniform,
)


@rule("power", numeric="reassociates")
def square(x):
    """x ** 2 = x * x."""
    return power(x, 2), x * x


@rule("power", numeric="reassociates")
def cube(x):
    """x ** 3 = x * x * x."""
    return power(x, 3), x * x * x


@rule("power", numeric="reassociates", dtypes="float")
def square_root(x):
    """x ** 0.5 = sqrt(x)."""
    return power(x, 0.5), sqrt(x)


@rule("power", numeric="reassociates", dtypes="float")
def inverse(x):
    """x ** -1 = 1 / x."""
    return power(x, -1), 1 / x


@rule("power", numeric="reassociates", dtypes="float", where=positive)
def inverse_square_root(x):
    """x ** -0.5 = 1 / sqrt(x) for x > 0."""
    return power(x, -0.5), 1 / sqrt(x)


@rule("power", numeric="reassociates", dtypes="float")
def root_of_square(x):
    """sqrt(x * x) = |x|."""
    return sqrt(x * x), absolute(x)


@rule("quotient", dtypes="float", where=lambda x, c: power_of_two(c))
def multiply_by_exact_reciprocal(x, c):
    """x / c = x * (1 / c) for a power of two c, to the last bit."""
    return x / c, x * (1 / c)


@rule("quotient", numeric="reassociates", dtypes="wide", smooth=True)
def divide_once(x, y):
    """x / y = x * (1 / y), when y is smaller than x: as in a softmax, one division a row."""
    return x / y, x * (1 / y)


@rule("quotient", numeric="reassociates", dtypes="float", smooth=True)
def divide_directly(x, y):
    """x * (1 / y) = x / y, when y is as large as x."""
    return x * (1 / y), x / y


@rule("quotient", numeric="reassociates", dtypes="wide", smooth=True)
def divide_by_quotient(x, a, b):
    """x / (a / b) = x * (b / a)."""
    return x / (a / b), x * (b / a)


@rule("range", numeric="reassociates", dtypes="float", where=nonnegative)
def absolute_of_nonnegative(x):
    """|x| = x for x >= 0."""
    return absolute(x), x


def _is_above(x, c):
    value = uniform(c)
    return (value is not None and least(x) >= value) or "the first operand may be below the second"


@rule("range", numeric="reassociates", dtypes="float", where=_is_above)
def maximum_of_greater(x, c):
    """max(x, c) = x where x >= c is known: a rectifier after a sum of squares does nothing."""
    return maximum(x, c), x


@rule("exponential", numeric="reassociates", dtypes="float", where=nonnegative)
def exponential_of_logarithm(x):
    """exp(log(x)) = x for x >= 0."""
    return exp(log(x)), x


@rule("exponential", numeric="approximates", dtypes="float")
def logarithm_of_exponential(x):
    """log(exp(x)) = x (and exp may have overflowed)."""
    return log(exp(x)), x

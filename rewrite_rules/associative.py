"""Regrouping: constants and small operands meet first, so that less is done at full size."""

from edgec.rewrite import exp, maximum, minimum, rule, static, uniform


@rule("associative", numeric="reassociates")
def gather_addends(x, a, b):
    """(x + a) + b = x + (a + b), when a + b is constant or smaller than x."""
    return (x + a) + b, x + (a + b)


@rule("associative", numeric="reassociates")
def gather_factors(x, a, b):
    """(x * a) * b = x * (a * b), when a * b is constant or smaller than x."""
    return (x * a) * b, x * (a * b)


@rule("associative", numeric="reassociates", where=lambda x, a, y, b: static(a, b))
def join_addends(x, a, y, b):
    """(x + a) + (y + b) = (x + y) + (a + b) for constants a and b."""
    return (x + a) + (y + b), (x + y) + (a + b)


@rule("associative", numeric="reassociates", where=lambda x, a, y, b: static(a, b))
def join_factors(x, a, y, b):
    """(x * a) * (y * b) = (x * y) * (a * b) for constants a and b."""
    return (x * a) * (y * b), (x * y) * (a * b)


@rule("associative", dtypes="float", where=lambda x, c: static(c))
def add_the_negative(x, c):
    """x - c = x + -c for a constant c: one spelling less to look for."""
    return x - c, x + -c


@rule("associative", numeric="reassociates", where=lambda a, x, b: static(a, b))
def gather_minuends(a, x, b):
    """(a - x) + b = (a + b) - x for constants a and b."""
    return (a - x) + b, (a + b) - x


@rule("associative", numeric="reassociates", where=lambda a, x, b: static(a, b))
def gather_subtrahends(a, x, b):
    """a - (x + b) = (a - b) - x for constants a and b."""
    return a - (x + b), (a - b) - x


@rule("associative", numeric="reassociates", dtypes="float")
def gather_divisors(x, a, b):
    """(x / a) / b = x / (a * b)."""
    return (x / a) / b, x / (a * b)


@rule("associative", numeric="reassociates")
def gather_maxima(x, a, b):
    """max(max(x, a), b) = max(x, max(a, b)), when max(a, b) is constant or smaller than x."""
    return maximum(maximum(x, a), b), maximum(x, maximum(a, b))


@rule("associative", numeric="reassociates")
def gather_minima(x, a, b):
    """min(min(x, a), b) = min(x, min(a, b)), when min(a, b) is constant or smaller than x."""
    return minimum(minimum(x, a), b), minimum(x, minimum(a, b))


@rule("associative", numeric="reassociates", dtypes="float", where=lambda x, c, y: static(c))
def draw_out_constant(x, c, y):
    """(x*c) * y = (x*y) * c: constants come out of products, to where weights may take them."""
    return (x * c) * y, (x * y) * c


def _in_order(x, a, b):
    low, high = uniform(a), uniform(b)
    return (low is not None and high is not None and low <= high) or "the bounds are no numbers in order"


@rule("associative", numeric="reassociates", where=_in_order)
def clip_below_first(x, a, b):
    """max(min(x, b), a) = min(max(x, a), b) for numbers a <= b: one spelling of a clip."""
    return maximum(minimum(x, b), a), minimum(maximum(x, a), b)


@rule("associative", numeric="reassociates", dtypes="float")
def add_exponents(a, b):
    """exp(a) * exp(b) = exp(a + b)."""
    return exp(a) * exp(b), exp(a + b)

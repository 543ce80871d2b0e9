"""Inverses, quotients and negations that meet: fewer operations for the same value."""

from edgec.rewrite import absolute, apply, both, constants, invertible, maximum, positive, rule, static


@rule("inverse", numeric="reassociates", dtypes="float")
def cancel_subtraction(a, b):
    """(a - b) + b = a."""
    return (a - b) + b, a


@rule("inverse", numeric="reassociates", dtypes="float")
def cancel_addition(a, b):
    """(a + b) - b = a."""
    return (a + b) - b, a


@rule("inverse", numeric="reassociates", dtypes="float")
def cancel_minuend(a, b):
    """a - (a - b) = b."""
    return a - (a - b), b


@rule("inverse", numeric="reassociates", dtypes="float", where=lambda a, b: positive(b))
def cancel_division(a, b):
    """(a / b) * b = a for b > 0."""
    return (a / b) * b, a


@rule("inverse", numeric="reassociates", dtypes="float", where=lambda a, b: positive(b))
def cancel_multiplication(a, b):
    """(a * b) / b = a for b > 0."""
    return (a * b) / b, a


@rule("inverse", numeric="reassociates", dtypes="float", where=positive)
def quotient_of_itself(x):
    """x / x = 1 for x > 0."""
    return x / x, 1


@rule("inverse", dtypes="float")
def quotient_of_negations(a, b):
    """-a / -b = a / b."""
    return -a / -b, a / b


@rule("inverse", dtypes="float", where=lambda x, c: static(c))
def negate_the_factor(x, c):
    """-(x * c) = x * -c for a constant c."""
    return -(x * c), x * -c


@rule("inverse", numeric="reassociates", dtypes="float", where=lambda x, c: static(c))
def negate_the_addend(x, c):
    """-(x + c) = -c - x for a constant c."""
    return -(x + c), -c - x


@rule("associative", numeric="reassociates")
def gather_differences(x, a, b):
    """(x - a) - b = x - (a + b), when a + b is smaller than x."""
    return (x - a) - b, x - (a + b)


@rule("associative", numeric="reassociates", dtypes="float")
def gather_squares(a, s, c):
    """(a*s) * (s*c) = (a*c) * (s*s), when s is smaller (DNNFusion, table 4)."""
    return (a * s) * (s * c), (a * c) * (s * s)


@rule("associative", numeric="reassociates", dtypes="wide")
def join_quotients(a, b, c, d):
    """(a/b) * (c/d) = (a*c) / (b*d): one division for two (with a = c = 1: DNNFusion, table 4)."""
    return (a / b) * (c / d), (a * c) / (b * d)


@rule("associative", numeric="reassociates", dtypes="wide", where=lambda c, x, d: both(constants(c), invertible(d)))
def divide_constant_by_scaled(c, x, d):
    """c / (x*d) = (c/d) / x for constants c and d."""
    return c / (x * d), (c / d) / x


@rule("distributive", numeric="reassociates", dtypes="float", where=lambda a, b, c: positive(c))
def factor_quotient(a, b, c):
    """a/c + b/c = (a + b)/c for c > 0."""
    return a / c + b / c, (a + b) / c


@rule("distributive", numeric="reassociates", dtypes="float", where=lambda a, b, c: positive(c))
def factor_quotient_difference(a, b, c):
    """a/c - b/c = (a - b)/c for c > 0."""
    return a / c - b / c, (a - b) / c


@rule("distributive", numeric="reassociates")
def factor_minus_one(x, a):
    """x*a - x = x*(a - 1)."""
    return x * a - x, x * (a - 1)


@rule("distributive", numeric="reassociates")
def factor_complement(x, a):
    """x - x*a = x*(1 - a)."""
    return x - x * a, x * (1 - a)


@rule("distributive", numeric="reassociates", dtypes="float")
def factor_cube(x, a):
    """x + ((x*x)*x)*a = x*((x*x)*a + 1): the polynomial of the tanh gelu, by Horner."""
    return x + ((x * x) * x) * a, x * ((x * x) * a + 1)


@rule("distributive", numeric="reassociates", dtypes="float", where=lambda x, y, a, b, c: static(a, b, c))
def scale_a_factor(x, y, a, b, c):
    """(x*(y*a + b))*c = x*(y*(a*c) + b*c) for constants: the scale goes where constants are."""
    return (x * (y * a + b)) * c, x * (y * (a * c) + b * c)


@rule("distributive", numeric="reassociates", dtypes="float", where=lambda x, c: static(c))
def recognize_rectifier(x, c):
    """(x + |x|) * c = max(x, 0) * (c + c)."""
    return (x + absolute(x)) * c, maximum(x, 0) * (c + c)


@rule("inverse", numeric="reassociates", dtypes="float")
def parts_of_both_signs(x):
    """max(x, 0) - max(-x, 0) = x."""
    return maximum(x, 0) - maximum(-x, 0), x


@rule("inverse", dtypes="float")
def cosine_of_negation(x):
    """cos(-x) = cos(x)."""
    return apply("cos", -x), apply("cos", x)

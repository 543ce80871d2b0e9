"""Operands that may change places.

Constants go to the right, which is the one spelling other rules are written for. And where the other order is
computed already, its result is taken.
"""

from edgec.rewrite import apply, maximum, minimum, rule


@rule("commutative")
def swap_addends(a, b):
    """a + b = b + a."""
    return a + b, b + a


@rule("commutative")
def swap_factors(a, b):
    """a * b = b * a."""
    return a * b, b * a


@rule("commutative", numeric="reassociates")
def swap_maximum(a, b):
    """max(a, b) = max(b, a) (up to the sign of zero)."""
    return maximum(a, b), maximum(b, a)


@rule("commutative", numeric="reassociates")
def swap_minimum(a, b):
    """min(a, b) = min(b, a) (up to the sign of zero)."""
    return minimum(a, b), minimum(b, a)


@rule("commutative", dtypes="any")
def swap_equal(a, b):
    """(a = b) = (b = a)."""
    return apply("eq", a, b), apply("eq", b, a)


@rule("commutative", dtypes="any")
def swap_unequal(a, b):
    """(a /= b) = (b /= a)."""
    return apply("ne", a, b), apply("ne", b, a)


@rule("commutative", dtypes="bool")
def swap_and(a, b):
    """a and b = b and a."""
    return a & b, b & a


@rule("commutative", dtypes="bool")
def swap_or(a, b):
    """a or b = b or a."""
    return a | b, b | a


@rule("commutative", dtypes="bool")
def swap_xor(a, b):
    """a xor b = b xor a."""
    return apply("xor", a, b), apply("xor", b, a)


@rule("commutative", dtypes="integer")
def swap_bitwise_and(a, b):
    """a & b = b & a."""
    return apply("bitand", a, b), apply("bitand", b, a)


@rule("commutative", dtypes="integer")
def swap_bitwise_or(a, b):
    """a | b = b | a."""
    return apply("bitor", a, b), apply("bitor", b, a)


@rule("commutative", dtypes="integer")
def swap_bitwise_xor(a, b):
    """a ^ b = b ^ a."""
    return apply("bitxor", a, b), apply("bitxor", b, a)

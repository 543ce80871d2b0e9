"""Neutral elements, inverses and idempotence: operations that leave their operand as it is."""

from edgec.rewrite import absolute, is_static, maximum, minimum, power, rule, select


@rule("identity", numeric="reassociates")
def add_zero(x):
    """x + 0 = x (up to the sign of zero)."""
    return x + 0, x


@rule("identity", dtypes="float")
def add_negative_zero(x):
    """x + -0.0 = x."""
    return x + -0.0, x


@rule("identity")
def subtract_zero(x):
    """x - 0 = x."""
    return x - 0, x


@rule("identity", numeric="reassociates")
def subtract_from_zero(x):
    """0 - x = -x (up to the sign of zero)."""
    return 0 - x, -x


@rule("identity", dtypes="integer")
def subtract_itself(x):
    """x - x = 0 for integers; a float may be infinite."""
    return x - x, 0


@rule("identity")
def multiply_by_one(x):
    """x * 1 = x."""
    return x * 1, x


@rule("identity", dtypes="float")
def multiply_by_minus_one(x):
    """x * -1 = -x."""
    return x * -1, -x


@rule("identity", dtypes="integer")
def multiply_by_zero(x):
    """x * 0 = 0 for integers; a float may be infinite or not a number."""
    return x * 0, 0


@rule("identity")
def divide_by_one(x):
    """x / 1 = x."""
    return x / 1, x


@rule("identity")
def first_power(x):
    """x ** 1 = x."""
    return power(x, 1), x


@rule("identity", dtypes="float")
def zeroth_power(x):
    """x ** 0 = 1, for NaN too."""
    return power(x, 0), 1


@rule("identity")
def negate_twice(x):
    """-(-x) = x."""
    negated = -x
    return -negated, x


@rule("identity")
def add_negation(x, y):
    """x + -y = x - y."""
    return x + -y, x - y


@rule("identity")
def subtract_negation(x, y):
    """x - -y = x + y."""
    return x - -y, x + y


@rule("identity", numeric="reassociates")
def negate_difference(x, y):
    """-(x - y) = y - x (up to the sign of zero)."""
    return -(x - y), y - x


@rule("identity")
def multiply_negations(x, y):
    """-x * -y = x * y."""
    return -x * -y, x * y


@rule("identity", where=lambda x, y: is_static(y) or "neither factor is constant")
def negate_the_constant_factor(x, y):
    """-x * c = x * -c."""
    return -x * y, x * -y


@rule("identity", dtypes="float")
def absolute_of_negation(x):
    """|-x| = |x|."""
    return absolute(-x), absolute(x)


@rule("identity")
def absolute_twice(x):
    """||x|| = |x|."""
    return absolute(absolute(x)), absolute(x)


@rule("identity")
def maximum_of_one(x):
    """max(x, x) = x."""
    return maximum(x, x), x


@rule("identity")
def minimum_of_one(x):
    """min(x, x) = x."""
    return minimum(x, x), x


@rule("identity")
def maximum_twice(x, a):
    """max(max(x, a), a) = max(x, a): a rectifier after a rectifier does nothing."""
    return maximum(maximum(x, a), a), maximum(x, a)


@rule("identity")
def minimum_twice(x, a):
    """min(min(x, a), a) = min(x, a)."""
    return minimum(minimum(x, a), a), minimum(x, a)


@rule("identity", dtypes="bool")
def and_true(x):
    """x and true = x."""
    return x & True, x


@rule("identity", dtypes="bool")
def and_false(x):
    """x and false = false."""
    return x & False, False


@rule("identity", dtypes="bool")
def or_false(x):
    """x or false = x."""
    return x | False, x


@rule("identity", dtypes="bool")
def or_true(x):
    """x or true = true."""
    return x | True, True


@rule("identity", dtypes="bool")
def and_itself(x):
    """x and x = x."""
    return x & x, x


@rule("identity", dtypes="bool")
def or_itself(x):
    """x or x = x."""
    return x | x, x


@rule("identity", dtypes="bool")
def not_twice(x):
    """not not x = x."""
    return ~~x, x


@rule("identity", dtypes="any")
def select_the_same(c, x):
    """select(c, x, x) = x."""
    return select(c, x, x), x


@rule("identity", dtypes="any")
def select_always(x, y):
    """select(true, x, y) = x."""
    return select(True, x, y), x


@rule("identity", dtypes="any")
def select_never(x, y):
    """select(false, x, y) = y."""
    return select(False, x, y), y


@rule("identity", dtypes="any")
def select_on_negation(c, x, y):
    """select(not c, x, y) = select(c, y, x)."""
    return select(~c, x, y), select(c, y, x)

"""Functions that turn one operation into another: exp, log, powers, roots and absolute values."""

from edgec.rewrite import (
    absolute,
    apply,
    both,
    constants,
    exp,
    log,
    nonnegative,
    positive,
    power,
    rule,
    sigmoid,
    sqrt,
    tanh,
)


@rule("homomorphism", numeric="approximates", dtypes="float")
def subtract_exponents(a, b):
    """exp(a) / exp(b) = exp(a - b) (and exp may have overflowed)."""
    return exp(a) / exp(b), exp(a - b)


@rule("homomorphism", numeric="reassociates", dtypes="float")
def reciprocal_of_exponential(x):
    """1 / exp(x) = exp(-x)."""
    return 1 / exp(x), exp(-x)


@rule("homomorphism", numeric="approximates", dtypes="float", where=lambda a, b: positive(a, b))
def logarithm_of_product(a, b):
    """log(a) + log(b) = log(a*b) for a, b > 0 (and a*b may overflow)."""
    return log(a) + log(b), log(a * b)


@rule("homomorphism", numeric="approximates", dtypes="float", where=lambda a, b: positive(a, b))
def logarithm_of_quotient(a, b):
    """log(a) - log(b) = log(a/b) for a, b > 0 (and a/b may overflow)."""
    return log(a) - log(b), log(a / b)


@rule("homomorphism", numeric="approximates", dtypes="float", where=lambda x, c: positive(x))
def logarithm_of_power(x, c):
    """log(x ** c) = c * log(x) for x > 0 (and the power may have overflowed)."""
    return log(power(x, c)), c * log(x)


@rule("homomorphism", numeric="reassociates", dtypes="float")
def logarithm_of_root(x):
    """log(sqrt(x)) = log(x) / 2."""
    return log(sqrt(x)), log(x) * 0.5


@rule("homomorphism", numeric="reassociates", dtypes="float", where=lambda x, c: constants(c))
def power_of_exponential(x, c):
    """exp(x) ** c = exp(x * c)."""
    return power(exp(x), c), exp(x * c)


@rule("homomorphism", numeric="reassociates", dtypes="float")
def root_of_exponential(x):
    """sqrt(exp(x)) = exp(x / 2)."""
    return sqrt(exp(x)), exp(x * 0.5)


@rule("homomorphism", numeric="reassociates", dtypes="float", where=lambda c, x: both(positive(c), constants(c)))
def exponential_of_base(c, x):
    """c ** x = exp(x * log(c)) for a constant c > 0."""
    return power(c, x), exp(x * log(c))


@rule("homomorphism", numeric="reassociates", dtypes="float")
def product_of_absolutes(a, b):
    """|a| * |b| = |a * b|."""
    return absolute(a) * absolute(b), absolute(a * b)


@rule("homomorphism", numeric="reassociates", dtypes="float")
def quotient_of_absolutes(a, b):
    """|a| / |b| = |a / b|."""
    return absolute(a) / absolute(b), absolute(a / b)


@rule("homomorphism", numeric="reassociates", dtypes="float")
def product_of_absolutes_apart(a, b, c):
    """(|a| * b) * |c| = |a * c| * b (DNNFusion, table 4)."""
    return (absolute(a) * b) * absolute(c), absolute(a * c) * b


@rule("homomorphism", dtypes="float")
def square_of_absolute(x):
    """|x| * |x| = x * x, to the last bit."""
    return absolute(x) * absolute(x), x * x


@rule("homomorphism", numeric="reassociates", dtypes="float")
def sign_times_absolute(x):
    """sign(x) * |x| = x."""
    return apply("sign", x) * absolute(x), x


@rule("homomorphism", numeric="reassociates", dtypes="float")
def sign_times_itself(x):
    """sign(x) * x = |x|."""
    return apply("sign", x) * x, absolute(x)


@rule("homomorphism", numeric="approximates", dtypes="float", where=lambda a, b: nonnegative(a, b))
def product_of_roots(a, b):
    """sqrt(a) * sqrt(b) = sqrt(a * b) for a, b >= 0 (and a*b may overflow)."""
    return sqrt(a) * sqrt(b), sqrt(a * b)


@rule("homomorphism", numeric="approximates", dtypes="float", where=lambda a, b: both(nonnegative(a), positive(b)))
def quotient_of_roots(a, b):
    """sqrt(a) / sqrt(b) = sqrt(a / b) for a >= 0, b > 0 (and a/b may overflow)."""
    return sqrt(a) / sqrt(b), sqrt(a / b)


@rule("homomorphism", numeric="reassociates", dtypes="float", where=nonnegative)
def square_of_root(x):
    """sqrt(x) * sqrt(x) = x for x >= 0 (DNNFusion, table 4, without the guard)."""
    return sqrt(x) * sqrt(x), x


@rule("homomorphism", numeric="reassociates", dtypes="float", where=positive)
def quotient_by_root(x):
    """x / sqrt(x) = sqrt(x) for x > 0."""
    return x / sqrt(x), sqrt(x)


@rule("power", numeric="reassociates", dtypes="float")
def fourth_power(x):
    """x ** 4 = (x * x) * (x * x)."""
    return power(x, 4), (x * x) * (x * x)


@rule("power", numeric="reassociates", dtypes="float")
def inverse_square(x):
    """x ** -2 = 1 / (x * x)."""
    return power(x, -2), 1 / (x * x)


@rule("power", numeric="reassociates", dtypes="float", where=nonnegative)
def square_root_of_cube(x):
    """x ** 1.5 = x * sqrt(x) for x >= 0."""
    return power(x, 1.5), x * sqrt(x)


@rule("power", numeric="approximates", dtypes="float", where=lambda x, a, b: both(positive(x), constants(a, b)))
def power_of_power(x, a, b):
    """(x ** a) ** b = x ** (a * b) for x > 0 (and the inner power may have overflowed)."""
    return power(power(x, a), b), power(x, a * b)


@rule("power", numeric="approximates", dtypes="float", where=lambda x, a, b: positive(x))
def product_of_powers(x, a, b):
    """x ** a * x ** b = x ** (a + b) for x > 0."""
    return power(x, a) * power(x, b), power(x, a + b)


@rule("power", numeric="approximates", dtypes="float", where=lambda x, a: positive(x))
def power_times_base(x, a):
    """x ** a * x = x ** (a + 1) for x > 0."""
    return power(x, a) * x, power(x, a + 1)


@rule("power", numeric="approximates", dtypes="float", where=lambda x, y, a: positive(x, y))
def power_of_product(x, y, a):
    """x ** a * y ** a = (x * y) ** a for x, y > 0."""
    return power(x, a) * power(y, a), power(x * y, a)


@rule("exponential", numeric="reassociates", dtypes="float")
def recognize_sigmoid(x, y):
    """y / (1 + exp(-x)) = y * sigmoid(x)."""
    return y / (1 + exp(-x)), y * sigmoid(x)


@rule("exponential", numeric="approximates", dtypes="float")
def recognize_sigmoid_of_exponentials(x):
    """exp(x) / (1 + exp(x)) = sigmoid(x) (and exp may have overflowed)."""
    return exp(x) / (1 + exp(x)), sigmoid(x)


@rule("exponential", numeric="approximates", dtypes="float")
def recognize_tanh_of_exponentials(x):
    """(exp(x) - exp(-x)) / (exp(x) + exp(-x)) = tanh(x) (and exp may have overflowed)."""
    return (exp(x) - exp(-x)) / (exp(x) + exp(-x)), tanh(x)

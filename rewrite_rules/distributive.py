"""Products of sums and sums of products: whichever does less."""

from edgec.rewrite import rule, static


@rule("distributive", numeric="reassociates")
def factor(x, a, b):
    """x*a + x*b = x*(a + b): one multiplication and one read of x less."""
    return x * a + x * b, x * (a + b)


@rule("distributive", numeric="reassociates")
def factor_difference(x, a, b):
    """x*a - x*b = x*(a - b)."""
    return x * a - x * b, x * (a - b)


@rule("distributive", numeric="reassociates")
def factor_one(x, a):
    """x*a + x = x*(a + 1)."""
    return x * a + x, x * (a + 1)


@rule("distributive", numeric="reassociates", where=lambda x, s, b, t: static(s, b, t))
def scale_a_scaled_sum(x, s, b, t):
    """(x*s + b)*t = x*(s*t) + b*t for constants: a chain of scales and offsets is one of each."""
    return (x * s + b) * t, x * (s * t) + b * t


@rule("distributive", numeric="reassociates", where=lambda x, b, t, c: static(b, t, c))
def offset_a_scaled_sum(x, b, t, c):
    """(x + b)*t + c = x*t + (b*t + c) for constants."""
    return (x + b) * t + c, x * t + (b * t + c)

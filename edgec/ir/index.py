"""Arithmetic of indices: linear normal form, bounds, and the rules of floor division and remainder.

Fusing by substitution makes indices such as ``((i*4 + j) // 4)``; the rules here turn them back into ``i``.
Everything holds for mathematical integers with floor division and a positive divisor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import gcd, inf
from typing import Union

from edgec.errors import Undecided
from edgec.ir import expr as X
from edgec.ir.corners import of_products
from edgec.ir.expr import Expr
from edgec.ir.linear import build, coefficients, factors_of, is_static, linear, monomial, order_of, product_of
from edgec.ir.memory import remembered

__all__ = [
    "bounds", "build", "coefficients", "divide", "exact", "greater", "is_static", "least", "lesser", "linear", "modulo",
    "simplify_call", "upper",
]  # fmt: skip

Bound = Union[int, float]


@remembered(200_000)
def bounds(e: Expr) -> tuple[Bound, Bound]:
    """Least and greatest value of an integer expression (infinite where nothing is known)."""
    if e.op == "const":
        return (int(e.value), int(e.value))
    if e.op == "var":
        return (0, upper(e.value.extent) - 1)
    if e.op == "size":
        return (e.value.low, e.value.high)
    if e.op in ("add", "mul"):
        terms, c = linear(e)
        if list(terms) == [e] and e.op == "mul":
            corners = [_times(x, y) for x in bounds(e.args[0]) for y in bounds(e.args[1])]
            return (min(corners), max(corners))
        if any(map(_is_entangled, terms)):  # a loop over H elements ends at H - 1, whatever H is
            return (bounds(_extreme(terms, c, False))[0], bounds(_extreme(terms, c, True))[1])
        if list(terms) != [e]:
            joint, low, high = of_products(terms, factors_of, _ends_of_size, c)
            for atom, k in terms.items():
                lo, hi = bounds(atom) if atom not in joint else (0, 0)
                low += k * (lo if k > 0 else hi)
                high += k * (hi if k > 0 else lo)
            return _narrowed(terms, c, low, high)
    if e.op == "floordiv" and e.args[1].op == "const" and e.args[1].value > 0:
        lo, hi = bounds(e.args[0])
        d = e.args[1].value
        return (lo // d if lo > -inf else -inf, hi // d if hi < inf else inf)
    if e.op == "floormod" and e.args[1].op == "const" and e.args[1].value > 0:
        return (0, e.args[1].value - 1)
    if e.op in ("floordiv", "floormod") and bounds(e.args[1])[0] > 0:
        (lo, hi), (least, greatest) = bounds(e.args[0]), bounds(e.args[1])
        if e.op == "floormod":
            return (0, greatest - 1)
        terms, c = linear(e.args[0])
        if any(map(_is_entangled, terms)):
            ends = (X.call("floordiv", _extreme(terms, c, end), e.args[1]) for end in (False, True))
            (lo, _), (_, hi) = map(bounds, ends)
            return (lo, hi)
        return (_over(lo, greatest, least), _over(hi, least, greatest))
    if e.op in ("min", "max"):
        (a, b), (c2, d2) = bounds(e.args[0]), bounds(e.args[1])
        pick = min if e.op == "min" else max
        return (pick(a, c2), pick(b, d2))
    if e.op == "select":
        (a, b), (c2, d2) = bounds(e.args[1]), bounds(e.args[2])
        return (min(a, c2), max(b, d2))
    return (-inf, inf)


def _ends_of_size(e: Expr) -> tuple[int, int] | None:
    return (e.value.low, e.value.high) if e.op == "size" and e.value.high < inf else None


def upper(extent: X.Extent) -> int:
    """The most an extent can be; raises Undecided where nothing bounds it."""
    if not isinstance(extent, Expr):
        return extent
    high = bounds(extent)[1]
    if high == inf:
        raise Undecided(f"nothing bounds {X.show(extent)}", hint="give dimensions a range with --dim")
    return int(max(high, 0))


def lower(extent: X.Extent) -> int:
    """The least an extent can be."""
    return int(max(bounds(extent)[0], 0)) if isinstance(extent, Expr) else extent


def _narrowed(terms: Mapping[Expr, int], c: int, low: Bound, high: Bound) -> tuple[Bound, Bound]:
    """Narrower bounds of a linear form: its atoms are bounded by formulas that may cancel with other terms.

    d * (x // d) lies in x-d+1 .. x; a minimum is no more than either operand, a maximum no less.
    """
    for atom, k in terms.items():
        if atom.op in ("min", "max"):
            rest = build({a: m for a, m in terms.items() if a is not atom}, c)
            for a in atom.args:
                lo, hi = bounds(rest + a * k)
                if (atom.op == "min") == (k > 0):
                    high = min(high, hi)
                else:
                    low = max(low, lo)
        if atom.op != "floordiv" or atom.args[1].op != "const":
            continue
        d = gcd(atom.args[1].value, k)  # x // (a*d) is (x // a) // d
        if d > 1:
            times = k // d
            rest = build({a: m for a, m in terms.items() if a is not atom}, c)
            lo, hi = bounds(rest + divide(atom.args[0], atom.args[1].value // d) * times)
            slack = abs(times) * (d - 1)
            low = max(low, lo - (slack if times > 0 else 0))
            high = min(high, hi + (slack if times < 0 else 0))
    return (low, high)


def _over(a: Bound, if_positive: Bound, if_negative: Bound) -> Bound:
    d = if_positive if a >= 0 else if_negative
    return a if a in (inf, -inf) else (0 if a >= 0 else -1) if d == inf else a // d


def least(extent: X.Extent) -> Bound:
    """The least an extent can be."""
    return bounds(extent)[0] if isinstance(extent, Expr) else extent


def _times(a: Bound, b: Bound) -> Bound:
    return 0 if a == 0 or b == 0 else a * b


def _is_entangled(atom: Expr) -> bool:
    """Does a loop variable in it have to be replaced by its symbolic limit before numbers can be compared?"""
    factors = factors_of(atom)
    if not any(f.op == "var" and (len(factors) > 1 or isinstance(f.value.extent, Expr)) for f in factors):
        return False
    return all(f.op == "var" or bounds(f)[0] >= 0 for f in factors)


def _extreme(terms: Mapping[Expr, int], c: int, greatest: bool) -> Expr:
    """A bound of a linear form in which such loop variables stand at the end of their range."""
    result = X.const(c)
    for atom, k in terms.items():
        if not _is_entangled(atom):
            result = result + atom * k
        elif (k > 0) == greatest:
            term = X.const(k)
            for f in factors_of(atom):
                term = term * (f.value.extent - 1 if f.op == "var" else f)
            result = result + term
    return result


def _split(e: Expr, d: int) -> tuple[dict[Expr, int], int, dict[Expr, int], int]:
    """e = d * (quotient terms + q) + (rest terms + r), with 0 <= r < d."""
    terms, c = linear(e)
    quotient = {a: k // d for a, k in terms.items() if k % d == 0}
    rest = {a: k for a, k in terms.items() if k % d}
    return quotient, c // d, rest, c % d


def _centered(e: Expr, d: int) -> tuple[Expr, Expr] | None:
    """(q, r) with e = d * q + r and 0 <= r < d, where multiples of d are taken out to the nearest, up or down.

    A loop over rows of d elements that steps by d - 1 (a shift by one element a row) falls back within its row.
    """
    terms, c = linear(e)
    if not any(k % d * 2 > d for k in terms.values()):
        return None  # the nearest is below
    nearest = {a: (k + d // 2) // d for a, k in terms.items()}
    remainder = build({a: k - d * nearest[a] for a, k in terms.items()}, c)
    lo, hi = bounds(remainder)
    if lo == -inf or hi == inf or lo // d != hi // d:
        return None
    q = int(lo // d)
    return build(nearest, q), remainder - q * d


def _shrink(rest: dict[Expr, int], r: int, d: int) -> tuple[dict[Expr, int], int, int, int] | None:
    """Find g | d such that rest = g * big + small with 0 <= small < g: then only ``big`` decides rest // d."""
    for g in sorted({gcd(k, d) for k in rest.values()} - {1, d}, reverse=True):
        big = {a: k // g for a, k in rest.items() if k % g == 0}
        small = {a: k for a, k in rest.items() if k % g}
        lo, hi = bounds(build(small, r % g))
        if big and lo >= 0 and hi < g:
            return big, r // g, g, d // g
    return None


def divide(e: Expr, d: int) -> Expr:
    """e // d for a positive constant d, simplified."""
    if d == 1:
        return e
    quotient, q, rest, r = _split(e, d)
    remainder = build(rest, r)
    lo, hi = bounds(remainder)
    if lo > -inf and hi < inf and lo // d == hi // d:
        return build(quotient, q + int(lo // d))
    if (centered := _centered(e, d)) is not None:
        return centered[0]
    if hi <= 0 and is_static(remainder):  # one spelling of rounding up, and C divides what is not negative
        terms, c = linear(divide(-remainder + (d - 1), d))
        return _plus(quotient, q, {a: -k for a, k in terms.items()}, -c)
    shrunk = _shrink(rest, r, d)
    if shrunk is not None:
        big, b, _, d2 = shrunk
        terms, c = linear(divide(build(big, b), d2))
        return _plus(quotient, q, terms, c)
    if (parts := _quotient_and_shift(rest, r)) is not None:  # (x // a + c) // b = (x + c*a) // (a*b)
        x, a = parts
        inner: Expr = divide(x, a * d)
    elif _is_modulo_of_multiple(remainder, d):  # (x % (b*d)) // d = (x // d) % b
        inner = modulo(divide(remainder.args[0], d), remainder.args[1].value // d)
    else:
        inner = X.raw_call("floordiv", (remainder, X.const(d)), "i64")
    terms, c = linear(inner)
    return _plus(quotient, q, terms, c)


def _quotient_and_shift(rest: Mapping[Expr, int], c: int) -> tuple[Expr, int] | None:
    """(y, a) where the sum is one quotient x // a and a constant; y // a is the sum."""
    if len(rest) != 1:
        return None
    ((atom, k),) = rest.items()
    if k != 1 or atom.op != "floordiv" or atom.args[1].op != "const" or atom.args[1].value <= 0:
        return None
    a = atom.args[1].value
    return atom.args[0] + c * a, a


def _is_modulo_of_multiple(e: Expr, d: int) -> bool:
    return e.op == "floormod" and e.args[1].op == "const" and e.args[1].value > 0 and e.args[1].value % d == 0


def _plus(a: dict[Expr, int], ca: int, b: Mapping[Expr, int], cb: int) -> Expr:
    terms = dict(a)
    for atom, k in b.items():
        terms[atom] = terms.get(atom, 0) + k
    return build(terms, ca + cb)


def modulo(e: Expr, d: int) -> Expr:
    """e % d for a positive constant d, simplified; the result is in 0 .. d-1."""
    if d == 1:
        return X.const(0)
    _, _, rest, r = _split(e, d)
    remainder = build(rest, r)
    lo, hi = bounds(remainder)
    if lo > -inf and hi < inf and lo // d == hi // d:
        return build(rest, r - d * int(lo // d))
    if (centered := _centered(e, d)) is not None:
        return centered[1]
    shrunk = _shrink(rest, r, d)
    if shrunk is not None:  # (g*big + small) % d = g * (big % (d/g)) + small
        big, b, g, d2 = shrunk
        small = {a: k for a, k in rest.items() if k % g}
        terms, c = linear(modulo(build(big, b), d2))
        return _plus({a: k * g for a, k in terms.items()}, c * g, small, r % g)
    if _is_modulo_of_multiple(remainder, d):
        return modulo(remainder.args[0], d)
    return X.raw_call("floormod", (remainder, X.const(d)), "i64")


def _divided(e: Expr, d: Expr) -> tuple[Expr, Expr]:
    """(q, r) with e = q * d + r: long division of polynomials by the term of ``d`` with the most factors."""
    terms, _ = linear(d)
    leading = max(terms, key=lambda a: (len(factors_of(a)), order_of(a)))
    wanted, k = factors_of(leading), terms[leading]
    quotient, rest = X.const(0), e
    for _ in range(16):
        for atom, m in linear(rest)[0].items():
            left = factors_of(atom)
            if m % k == 0 and all(left.count(f) >= wanted.count(f) for f in wanted):
                for f in wanted:
                    left.remove(f)
                term = (monomial(left) if left else X.const(1)) * (m // k)
                break
        else:
            break
        quotient, rest = quotient + term, rest - term * d
    return quotient, rest


def _inside(e: Expr, d: Expr) -> bool:
    """Is 0 <= e < d whatever the sizes are?"""
    return bounds(e)[0] >= 0 and bounds(d - e)[0] >= 1


def lesser(a: X.Extent, b: X.Extent) -> X.Extent:
    """The smaller of two extents; a formula where their ranges do not decide which that is."""
    if not isinstance(a, Expr) and not isinstance(b, Expr):
        return min(a, b)
    return X.plain(X.call("min", X.lift(a, "i64"), X.lift(b, "i64")))


def greater(a: X.Extent, b: X.Extent) -> X.Extent:
    """The larger of two extents; a formula where their ranges do not decide which that is."""
    if not isinstance(a, Expr) and not isinstance(b, Expr):
        return max(a, b)
    return X.plain(X.call("max", X.lift(a, "i64"), X.lift(b, "i64")))


def exact(a: X.Extent, b: X.Extent) -> X.Extent | None:
    """a / b where b divides a whatever the sizes are, else None."""
    if not isinstance(a, Expr) and not isinstance(b, Expr):
        return a // b if b and a % b == 0 else None
    a, b = X.lift(a, "i64"), X.plain(b)
    if not isinstance(b, Expr):
        terms, c = linear(a)
        return None if not b or any(k % b for k in (*terms.values(), c)) else X.plain(divide(a, b))
    quotient, rest = _divided(a, b)
    return X.plain(quotient) if rest.op == "const" and rest.value == 0 else None


def _by_size(name: str, a: Expr, b: Expr) -> Expr | None:
    """Division by a size, or the remainder; None where it stays as it is."""
    if not (is_static(a) and is_static(b)) or bounds(b)[0] < 0:
        return None
    quotient, rest = _divided(a, b)
    if _inside(rest, b):  # then b is above 0
        return quotient if name == "floordiv" else rest
    terms, c = linear(rest)
    d, e = linear(b)
    step = gcd(*d.values(), e)
    small = {atom: k for atom, k in terms.items() if k % step}
    if step > 1 and len(small) < len(terms) and _inside(build(small, c % step), X.const(step)):
        # (step * big + small) // (step * d) is big // d
        big = build({atom: k // step for atom, k in terms.items() if k % step == 0}, c // step)
        inner = X.call(name, big, build({atom: k // step for atom, k in d.items()}, e // step))
        return quotient + inner if name == "floordiv" else inner * step + build(small, c % step)
    if rest is a or bounds(b)[0] == 0:
        return None
    raw = X.raw_call(name, (rest, b), "i64")
    return quotient + raw if name == "floordiv" else raw


_COMPARE: dict[str, tuple[Callable[[Bound, Bound], bool], Callable[[Bound, Bound], bool]]] = {
    "lt": (lambda lo, hi: hi < 0, lambda lo, hi: lo >= 0),
    "le": (lambda lo, hi: hi <= 0, lambda lo, hi: lo > 0),
    "gt": (lambda lo, hi: lo > 0, lambda lo, hi: hi <= 0),
    "ge": (lambda lo, hi: lo >= 0, lambda lo, hi: hi < 0),
    "eq": (lambda lo, hi: lo == hi == 0, lambda lo, hi: lo > 0 or hi < 0),
    "ne": (lambda lo, hi: lo > 0 or hi < 0, lambda lo, hi: lo == hi == 0),
}


def simplify_call(name: str, args: tuple[Expr, ...]) -> Expr | None:
    """The simpler form of an integer call, or None when it stays as it is."""
    a = args[0]
    b = args[1] if len(args) > 1 else None
    if name in ("add", "sub") and b is not None:
        terms, c = linear(a)
        more, d = linear(b)
        sign = 1 if name == "add" else -1
        return _plus(terms, c, {atom: sign * k for atom, k in more.items()}, sign * d)
    if name == "neg":
        terms, c = linear(a)
        return build({atom: -k for atom, k in terms.items()}, -c)
    if name == "mul" and b is not None:
        if a.op == "const":
            a, b = b, a
        if b.op != "const":
            return product_of(a, b) if is_static(a) and is_static(b) else None
        terms, c = linear(a)
        return build({atom: k * b.value for atom, k in terms.items()}, c * b.value)
    if b is None or b.dtype != "i64":
        return None
    if name in ("floordiv", "floormod") and b.op == "const" and b.value > 0:
        return divide(a, b.value) if name == "floordiv" else modulo(a, b.value)
    if name in ("floordiv", "floormod") and b.op != "const":
        return _by_size(name, a, b)
    if name == "div" and is_static(a) and bounds(a)[0] >= 0 and bounds(b)[0] > 0:  # then it rounds as floor does
        return X.call("floordiv", a, b)
    if name in _COMPARE:
        lo, hi = _distance(a, b)
        yes, no = _COMPARE[name]
        if yes(lo, hi):
            return X.const(True, "bool")
        if no(lo, hi):
            return X.const(False, "bool")
        return None
    if name in ("min", "max"):
        lo, hi = _distance(a, b)
        if hi <= 0:
            return a if name == "min" else b
        if lo >= 0:
            return b if name == "min" else a
    return None


def _distance(a: Expr, b: Expr) -> tuple[float, float]:
    """The bounds of a - b, which could wrap around: ends of slices are often the greatest number there is."""
    (low, high), (least, most) = bounds(a), bounds(b)
    lo, hi = low - most, high - least
    return (lo, hi) if lo > 0 or hi < 0 else bounds(a - b)

"""Arithmetic of indices: linear normal form, bounds, and the laws of floor division and remainder.

Fusing by substitution makes indices such as ``((i*4 + j) // 4)``; the laws here turn them back into ``i``.
Everything holds for mathematical integers with floor division and a positive divisor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from math import gcd, inf
from typing import Union

from edgec.ir import expr as X
from edgec.ir.expr import Expr

Bound = Union[int, float]
Linear = tuple[dict[Expr, int], int]


@lru_cache(maxsize=200_000)
def _linear(e: Expr) -> tuple[tuple[tuple[Expr, int], ...], int]:
    if e.op == "const":
        return (), e.value
    if e.op in ("add", "sub") and e.dtype == "i64":
        left, c = linear(e.args[0])
        right, d = linear(e.args[1])
        sign = 1 if e.op == "add" else -1
        terms = dict(left)
        for atom, k in right.items():
            terms[atom] = terms.get(atom, 0) + sign * k
        return tuple((a, k) for a, k in terms.items() if k), c + sign * d
    if e.op == "neg":
        terms, c = linear(e.args[0])
        return tuple((a, -k) for a, k in terms.items()), -c
    if e.op == "mul" and e.args[1].op == "const":
        terms, c = linear(e.args[0])
        k = e.args[1].value
        return tuple((a, v * k) for a, v in terms.items() if v * k), c * k
    return ((e, 1),), 0


def linear(e: Expr) -> Linear:
    """``e`` as a sum of integer multiples of atoms, plus a constant."""
    terms, c = _linear(e)
    return dict(terms), c


def _order(e: Expr, depth: int = 5) -> str:
    """What terms are sorted by: the expression down to some depth (a shared sub-expression would print many times)."""
    if e.op in ("var", "const"):
        return str(e.value.name if e.op == "var" else e.value)
    name = e.op if e.op != "load" else f"load {getattr(e.value, 'key', None) or e.value}"
    return f"{name}({', '.join(_order(a, depth - 1) for a in e.args)})" if depth else name


def build(terms: Mapping[Expr, int], constant: int = 0) -> Expr:
    """The canonical expression of a linear form."""
    terms = _recompose({a: k for a, k in terms.items() if k})
    result: Expr | None = None
    for atom in sorted(terms, key=_order):
        k = terms[atom]
        term = atom if k == 1 else X.raw_call("mul", (atom, X.const(k)), "i64")
        result = term if result is None else X.raw_call("add", (result, term), "i64")
    if result is None:
        return X.const(constant)
    return X.raw_call("add", (result, X.const(constant)), "i64") if constant else result


def _recompose(terms: dict[Expr, int]) -> dict[Expr, int]:
    """(x // c) * c + x % c is x."""
    for atom, k in list(terms.items()):
        if atom.op != "floormod" or atom not in terms:
            continue
        x, c = atom.args
        quotient = divide(x, c.value)
        inner, offset = linear(quotient)
        if offset == 0 and len(inner) == 1:
            ((q, m),) = inner.items()
            if m == 1 and terms.get(q) == k * c.value:
                rest = {a: v for a, v in terms.items() if a not in (q, atom)}
                more, constant = linear(x)
                if constant == 0:
                    for a, v in more.items():
                        rest[a] = rest.get(a, 0) + v * k
                    return _recompose({a: v for a, v in rest.items() if v})
    return terms


@lru_cache(maxsize=200_000)
def bounds(e: Expr) -> tuple[Bound, Bound]:
    """Least and greatest value of an integer expression (infinite where nothing is known)."""
    if e.op == "const":
        return (int(e.value), int(e.value))
    if e.op == "var":
        return (0, e.value.extent - 1)
    if e.op in ("add", "sub", "neg", "mul"):
        terms, c = linear(e)
        if list(terms) != [e]:
            low: Bound = c
            high: Bound = c
            for atom, k in terms.items():
                lo, hi = bounds(atom)
                low += k * (lo if k > 0 else hi)
                high += k * (hi if k > 0 else lo)
            return (low, high)
    if e.op == "floordiv" and e.args[1].op == "const" and e.args[1].value > 0:
        lo, hi = bounds(e.args[0])
        d = e.args[1].value
        return (lo // d if lo > -inf else -inf, hi // d if hi < inf else inf)
    if e.op == "floormod" and e.args[1].op == "const" and e.args[1].value > 0:
        return (0, e.args[1].value - 1)
    if e.op in ("min", "max"):
        (a, b), (c2, d2) = bounds(e.args[0]), bounds(e.args[1])
        pick = min if e.op == "min" else max
        return (pick(a, c2), pick(b, d2))
    if e.op == "select":
        (a, b), (c2, d2) = bounds(e.args[1]), bounds(e.args[2])
        return (min(a, c2), max(b, d2))
    return (-inf, inf)


def _split(e: Expr, d: int) -> tuple[dict[Expr, int], int, dict[Expr, int], int]:
    """e = d * (quotient terms + q) + (rest terms + r), with 0 <= r < d."""
    terms, c = linear(e)
    quotient = {a: k // d for a, k in terms.items() if k % d == 0}
    rest = {a: k for a, k in terms.items() if k % d}
    return quotient, c // d, rest, c % d


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
    shrunk = _shrink(rest, r, d)
    if shrunk is not None:
        big, b, _, d2 = shrunk
        terms, c = linear(divide(build(big, b), d2))
        return _plus(quotient, q, terms, c)
    if remainder.op == "floordiv" and remainder.args[1].op == "const":  # (x // a) // b = x // (a*b)
        inner: Expr = divide(remainder.args[0], remainder.args[1].value * d)
    elif remainder.op == "floormod" and remainder.args[1].value % d == 0:  # (x % (b*d)) // d = (x // d) % b
        inner = modulo(divide(remainder.args[0], d), remainder.args[1].value // d)
    else:
        inner = X.raw_call("floordiv", (remainder, X.const(d)), "i64")
    terms, c = linear(inner)
    return _plus(quotient, q, terms, c)


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
    shrunk = _shrink(rest, r, d)
    if shrunk is not None:  # (g*big + small) % d = g * (big % (d/g)) + small
        big, b, g, d2 = shrunk
        small = {a: k for a, k in rest.items() if k % g}
        terms, c = linear(modulo(build(big, b), d2))
        return _plus({a: k * g for a, k in terms.items()}, c * g, small, r % g)
    if remainder.op == "floormod" and remainder.args[1].value % d == 0:
        return modulo(remainder.args[0], d)
    return X.raw_call("floormod", (remainder, X.const(d)), "i64")


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
            return None
        terms, c = linear(a)
        return build({atom: k * b.value for atom, k in terms.items()}, c * b.value)
    if b is None or b.dtype != "i64":
        return None
    if name in ("floordiv", "floormod") and b.op == "const" and b.value > 0:
        return divide(a, b.value) if name == "floordiv" else modulo(a, b.value)
    if name in _COMPARE:
        lo, hi = bounds(simplify_call("sub", (a, b)) or a)
        yes, no = _COMPARE[name]
        if yes(lo, hi):
            return X.const(True, "bool")
        if no(lo, hi):
            return X.const(False, "bool")
        return None
    if name in ("min", "max"):
        lo, hi = bounds(simplify_call("sub", (a, b)) or a)
        if hi <= 0:
            return a if name == "min" else b
        if lo >= 0:
            return b if name == "min" else a
    return None


def coefficients(e: Expr, variables: Iterable[Expr]) -> tuple[dict[Expr, int], int] | None:
    """Coefficients of an index that is affine in ``variables`` alone, and its constant; None if it is not."""
    terms, c = linear(e)
    wanted = set(variables)
    return (terms, c) if set(terms) <= wanted else None


def linearize(index: Iterable[Expr], shape: Iterable[int]) -> Expr:
    """Position of an index in row-major order."""
    result = X.const(0)
    for i, extent in zip(index, shape):
        result = result * extent + i
    return result


def delinearize(position: Expr, shape: tuple[int, ...]) -> tuple[Expr, ...]:
    """Index of a position in row-major order."""
    index: list[Expr] = []
    for extent in reversed(shape):
        index.append(position % extent if extent > 1 else X.const(0))
        position = position // extent if extent > 1 else position
    return tuple(reversed(index))

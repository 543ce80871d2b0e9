"""Integer expressions as sums: every one in one canonical form, products of sizes and variables multiplied out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.memory import remembered

Linear = tuple[dict[Expr, int], int]


@remembered(200_000)
def _linear(e: Expr) -> tuple[tuple[tuple[Expr, int], ...], int]:
    if e.op == "const":
        return (), e.value
    if e.op == "add" and e.dtype == "i64":  # differences are sums with a factor of -1
        terms, c = linear(e.args[0])
        right, d = linear(e.args[1])
        for atom, k in right.items():
            terms[atom] = terms.get(atom, 0) + k
        return tuple((a, k) for a, k in terms.items() if k), c + d
    if e.op == "mul" and e.args[1].op == "const":
        terms, c = linear(e.args[0])
        k = e.args[1].value
        return tuple((a, v * k) for a, v in terms.items() if v * k), c * k
    return ((e, 1),), 0  # a product of sizes and variables is an atom, in the canonical order of `monomial`


def linear(e: Expr) -> Linear:
    """``e`` as a sum of integer multiples of atoms, plus a constant."""
    terms, c = _linear(e)
    return dict(terms), c


def order_of(e: Expr, depth: int = 5) -> str:
    """Sort key of a term: its text down to some depth (a shared sub-expression would print many times)."""
    if e.op in ("var", "size", "const"):
        return str(e.value if e.op == "const" else e.value.name)
    name = e.op if e.op != "load" else f"load {getattr(e.value, 'key', None) or e.value}"
    return f"{name}({', '.join(order_of(a, depth - 1) for a in e.args)})" if depth else name


def build(terms: Mapping[Expr, int], constant: int = 0) -> Expr:
    """The canonical expression of a linear form."""
    terms, constant = _recompose({a: k for a, k in terms.items() if k}, constant)
    result: Expr | None = None
    for atom in sorted(terms, key=order_of):
        k = terms[atom]
        term = atom if k == 1 else X.raw_call("mul", (atom, X.const(k)), "i64")
        result = term if result is None else X.raw_call("add", (result, term), "i64")
    if result is None:
        return X.const(constant)
    return X.raw_call("add", (result, X.const(constant)), "i64") if constant else result


_STATIC = ("const", "var", "size", "add", "mul", "floordiv", "floormod", "min", "max")


@remembered(200_000)
def is_static(e: Expr) -> bool:
    """Is it arithmetic of sizes and loop variables alone, without anything loaded?"""
    return e.op in _STATIC and e.dtype == "i64" and all(is_static(a) for a in e.args)


def factors_of(atom: Expr) -> list[Expr]:
    """The factors of an atom."""
    if atom.op != "mul" or not is_static(atom):
        return [atom]
    return [*factors_of(atom.args[0]), *factors_of(atom.args[1])]


def monomial(factors: Iterable[Expr]) -> Expr:
    """Their product, in canonical order."""
    ordered = sorted(factors, key=order_of)
    result = ordered[0]
    for f in ordered[1:]:
        result = X.raw_call("mul", (result, f), "i64")
    return result


def product_of(a: Expr, b: Expr) -> Expr:
    """a * b multiplied out."""
    (left, c), (right, d) = linear(a), linear(b)
    terms: dict[Expr, int] = {}
    for x, k in left.items():
        terms[x] = terms.get(x, 0) + k * d
        for y, m in right.items():
            atom = monomial([*factors_of(x), *factors_of(y)])
            terms[atom] = terms.get(atom, 0) + k * m
    for y, m in right.items():
        terms[y] = terms.get(y, 0) + m * c
    return build(terms, c * d)


def _recompose(terms: dict[Expr, int], constant: int) -> tuple[dict[Expr, int], int]:
    """(x // c) * c + x % c is x, and ((x // c + s) % b) * c + x % c is (x + s*c) % (b*c)."""
    from edgec.ir.index import divide, modulo  # which are written in terms of this module

    for atom, k in list(terms.items()):
        if atom.op != "floormod" or atom not in terms:
            continue
        x, c = atom.args
        if c.op != "const" or c.value <= 0:  # the extent of an empty dimension, in what is never computed
            continue
        found = _above(terms, divide(x, c.value), k * c.value)
        if found is None:
            continue
        high, shift, times = found
        whole = x if times is None else modulo(x + shift * c.value, c.value * times)
        rest = {a: v for a, v in terms.items() if a not in (high, atom)}
        more, beside = linear(whole)
        for a, v in more.items():
            rest[a] = rest.get(a, 0) + v * k
        return _recompose({a: v for a, v in rest.items() if v}, constant + beside * k)
    return terms, constant


def _above(terms: Mapping[Expr, int], quotient: Expr, k: int) -> tuple[Expr, int, int | None] | None:
    """The term of coefficient ``k`` that is the quotient or, moved, its remainder: (term, shift, divisor or None)."""
    inner, offset = linear(quotient)
    if offset == 0 and len(inner) == 1:
        ((q, m),) = inner.items()
        if m == 1 and terms.get(q) == k:
            return q, 0, None
    for atom, found in terms.items():
        if found == k and atom.op == "floormod" and atom.args[1].op == "const" and atom.args[1].value > 0:
            shifted, s = linear(atom.args[0])
            if shifted == inner:
                return atom, s - offset, atom.args[1].value
    return None


def coefficients(e: Expr, variables: Iterable[Expr]) -> tuple[dict[Expr, int], int] | None:
    """Coefficients of an index that is affine in ``variables`` alone, and its constant; None if it is not."""
    terms, c = linear(e)
    wanted = set(variables)
    return (terms, c) if set(terms) <= wanted else None

"""Functions of a greatest, a least or a sum, moved into what is combined."""

from __future__ import annotations

from edgec.ir import expr as X
from edgec.ir.dtypes import FLOATS
from edgec.ir.expr import Expr

#: Functions that preserve order.
_RISING = frozenset({"exp", "sigmoid", "tanh", "erf", "log", "log1p", "expm1", "sqrt", "atan", "sinh", "asinh"})
_OTHER = {"max": "min", "min": "max"}


def pushed(e: Expr, real: bool) -> Expr:
    """Functions of a greatest or least (a sum, a product) as the greatest or least of the function.

    Each is an identity of real numbers, of two operands (`max(a, b) + c = max(a + c, b + c)`), by induction one of any
    number; without ``real`` nothing is done but to drop combinations of one element.
    """
    change = _inwards if real else _single
    return X.rebuilt(e, lambda _: None, lambda _, new: change(new))


def _single(e: Expr) -> Expr:
    return e.args[0] if e.op == "reduce" and not e.value[1] else e


def _inwards(e: Expr) -> Expr:
    if e.op == "reduce":
        return _single(e)
    for k, a in enumerate(e.args):
        combine = a.value[0] if a.op == "reduce" else a.op
        into = _of_each(e, k, combine)
        if into is None or a.op not in ("reduce", "max", "min"):
            continue
        if a.op != "reduce":
            return X.call(into, *(_around(e, k, x) for x in a.args))
        bound, body = X.opened(a)
        return X.reduce(into, bound, _around(e, k, body))
    return e


def _around(e: Expr, k: int, x: Expr) -> Expr:
    """``e`` with ``x`` for its operand ``k``."""
    return _inwards(X.rebuild(e, (*e.args[:k], x, *e.args[k + 1 :])))


def _of_each(e: Expr, k: int, combine: str) -> str | None:
    """The function that combines results of ``e`` whose operand ``k`` is combined by ``combine``; None for none."""
    if combine in _OTHER:
        if e.op == "neg" or (e.op == "sub" and k == 1):
            return _OTHER[combine]
        is_scale = e.op == "mul" and e.args[1 - k].op == "const" and e.args[1 - k].value >= 0
        if e.op in _RISING or e.op in ("add", "sub") or is_scale:
            return combine if e.dtype in FLOATS else None
        if (e.op == combine and e.args[k].op == "reduce") or e.op == _OTHER[combine]:
            return combine if e.args[k].op == "reduce" else None
    if combine == "add" and e.op == "shl" and k == 0:
        return "add"
    return "mul" if combine == "add" and e.op == "exp" else None

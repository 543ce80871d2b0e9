"""Functions of a greatest, a least or a sum, moved into what is combined."""

from __future__ import annotations

from edgec.ir import expr as X
from edgec.ir.dtypes import FLOATS
from edgec.ir.expr import Expr
from edgec.ir.index import least
from edgec.ir.substitution import rebuilt

#: Functions that preserve order.
_RISING = frozenset({"exp", "sigmoid", "tanh", "erf", "log", "log1p", "expm1", "sqrt", "atan", "sinh", "asinh"})
_ROUNDINGS = frozenset({"round", "floor", "ceil", "trunc"})
#: Functions that make whole numbers of whole numbers.
_WHOLE = frozenset({"add", "sub", "mul", "neg", "abs", "max", "min"})
_OTHER = {"max": "min", "min": "max"}


def pushed(e: Expr, real: bool) -> Expr:
    """Functions of a greatest or least (a sum, a product) as the greatest or least of the function.

    Each is an identity of real numbers, of two operands (`max(a, b) + c = max(a + c, b + c)`), by induction one of any
    number; without ``real`` nothing is done but to drop combinations of one element.
    """
    change = _inwards if real else _single
    return rebuilt(e, lambda _: None, lambda _, new: change(_simpler(new)))


def _simpler(e: Expr) -> Expr:
    """Truth as a number is a choice of 1 or 0; rounding a whole number, as floats hold it, does nothing."""
    if e.op == "cast" and e.args[0].dtype == "bool" and e.dtype != "bool" and X.loads(e.args[0]):
        return X.select(e.args[0], X.const(1, e.dtype), X.const(0, e.dtype))
    if e.op in _ROUNDINGS and _is_whole(e.args[0]):
        return e.args[0]
    return e


def _is_whole(e: Expr) -> bool:
    """Is it a whole number, infinite or no number, however its arithmetic rounds?

    Sums and products of whole floats are whole: what is too large to be exact has no fraction left.
    """
    if e.op == "const":
        return float(e.value).is_integer()
    if e.op == "cast":
        return e.args[0].dtype[0] in "iub" or _is_whole(e.args[0])
    return e.op in _ROUNDINGS or (e.op in _WHOLE and all(map(_is_whole, e.args)))


def _single(e: Expr) -> Expr:
    """Without combinations of one element, and without those of one value with itself."""
    if e.op != "reduce":
        return e
    if e.value[1] and e.value[0] in ("max", "min", "and", "or"):
        bound, body = X.opened(e)
        own = X.free_variables(body)
        kept = [v for v in bound if v in own or least(v.value.extent) < 1]
        if len(kept) < len(bound):
            return X.reduce(e.value[0], kept, body) if kept else body
    return e if e.value[1] else e.args[0]


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

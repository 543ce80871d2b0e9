"""The formula of an element of a graph, in elements of its inputs and of constants whose values are open."""

from __future__ import annotations

from collections.abc import Sequence

from edgec.ir import expr as X
from edgec.ir.expr import Expr, Extent
from edgec.ir.graph import Node
from edgec.ir.registry import formula
from edgec.ir.types import FLOATS
from edgec.rewrite.facts import uniform
from edgec.rewrite.forms import Unknown

#: Constants of so many elements are choices among their values; larger ones stand for anything.
LISTED = 16
_LISTED_TYPES = (*FLOATS, "i64", "i32", "i16", "i8", "u8", "bool")


def element(n: Node, index: Sequence[Expr]) -> Expr:
    """The formula of an element of ``n`` in elements of inputs and constants."""
    if n.op == "const" and not isinstance(n.attributes["value"], Unknown):
        number = uniform(n)
        if number is not None:
            return X.const(number, n.type.dtype)
        if n.value.size <= LISTED and n.type.dtype in _LISTED_TYPES:
            return _listed(n, index)
    if n.op in ("input", "const"):
        return X.load(n, [X.const(0) if e == 1 else i for i, e in zip(index, n.type.shape)], n.type.dtype)
    if n.op == "prefix" and n.attributes["combine"] == "add":
        return _running_sum(n, index)
    f = formula(n)
    body = X.substitute(f.body, {v: i for v, i in zip(f.variables, index) if v.op == "var"})
    return X.transform(body, lambda e: element(n.args[e.value], _inner(n, e.args)) if _is_slot(e) else None)


def _inner(n: Node, index: Sequence[Expr]) -> Sequence[Expr]:
    """The index of a load, whose own loads (positions that are data) are followed too."""
    follow = lambda e: element(n.args[e.value], _inner(n, e.args)) if _is_slot(e) else None  # noqa: E731
    return [X.transform(i, follow) for i in index]


def _running_sum(n: Node, index: Sequence[Expr]) -> Expr:
    """The element of a running sum: the sum of all elements, those that count not yet as zero."""
    (x,), axis = n.args, n.attributes["axis"]
    here, place = X.fresh(x.type.shape[axis]), X.lift(index[axis], "i64")
    orders = {(False, False): "le", (True, False): "lt", (False, True): "ge", (True, True): "gt"}
    counts = X.call(orders[bool(n.attributes["exclusive"]), bool(n.attributes["reverse"])], here, place)
    term = element(x, [here if d == axis else i for d, i in enumerate(index)])
    return X.reduce("add", [here], X.select(counts, term, X.const(0, n.type.dtype)))


def _listed(n: Node, index: Sequence[Expr]) -> Expr:
    """The element of a small constant as a choice by its index."""
    flat = n.value.reshape(-1)
    position: Expr = X.const(0)
    for i, extent in zip(index, n.type.shape):
        position = position * extent + i
    found = X.const(flat[-1].item(), n.type.dtype)
    for k in range(len(flat) - 2, -1, -1):
        if flat[k] != flat[-1] or found.op == "select":
            found = X.select(equal(position, k), X.const(flat[k].item(), n.type.dtype), found)
    return found


def _is_slot(e: Expr) -> bool:
    """Does it load from an operand, and not from an input or constant, as in positions that were followed already?"""
    return e.op == "load" and not isinstance(e.value, Node)


def equal(a: Extent, b: Extent) -> Expr:
    return X.call("eq", X.lift(a, "i64"), X.lift(b, "i64"))

"""Values of small integer tensors when dimensions are known only at run time: formulas of sizes.

Exporters compute shapes in the graph (Shape, Gather, Mul, Concat, ...). Their elements are found by following the
element formulas of core operators with formulas of sizes in the place of numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from math import ceil, floor, trunc
from typing import Union

import numpy as np

from edgec.errors import Undecided
from edgec.frontend.values import Value, computed
from edgec.ir import expr as X
from edgec.ir import index
from edgec.ir.expr import Expr, Extent
from edgec.ir.graph import Node
from edgec.ir.types import FLOATS
from edgec.ops import formula, is_procedure

#: Tensors of more elements than this hold no shapes.
LIMIT = 256
#: Bound of a symbol about which nothing is known.
_ANY = 2**62


class _Unknown(Exception):
    """An element that does not depend on sizes alone."""


#: An element: a whole number or a formula of sizes, divided by a number; floats that are neither are unknown.
_Element = Union[Fraction, "_Ratio"]


class _Ratio:
    """``formula / divisor``: what a size scaled by a float is, or divided by another, which is rounded at once."""

    def __init__(self, formula: Expr, divisor: Extent) -> None:
        self.formula, self.divisor = formula, divisor

    @property
    def number(self) -> int:
        """The divisor, where it is a number."""
        if isinstance(self.divisor, Expr):
            raise _Unknown
        return self.divisor

    def whole(self) -> Expr:
        if self.number != 1:
            raise _Unknown
        return self.formula


def known_elements(
    value: Value, counted: Callable[[Node], Extent | None] = lambda node: None
) -> tuple[Extent, ...] | None:
    """The elements of an integer tensor in row-major order, when sizes alone decide them; else None.

    ``counted`` tells the size that a node of one element is, where it knows one: the number of a mask's true elements.
    """
    return _elements(value, _Search(counted))


def constant_difference(a: Value, b: Value) -> int | None:
    """``a - b`` of two scalars, where it is one number whatever the inputs are: ``(i + 3) - i``; else None."""
    if a.dtype != b.dtype or a.is_float:
        return None
    found = _elements((a - b).reshape(), _Search(opaque=True))
    return None if found is None or isinstance(found[0], Expr) else found[0]


def _elements(value: Value, search: _Search) -> tuple[Extent, ...] | None:
    type = value.type
    if type.dtype in FLOATS or not type.is_fixed or type.elements > LIMIT:
        return None
    try:
        places = product(*(range(extent) for extent in type.shape))
        return tuple(X.plain(_whole(search.element(value.node, place))) for place in places)
    except (_Unknown, Undecided):
        return None


def decided(value: Value) -> bool | None:
    """The truth value that a scalar has in every run, where constants and the ranges of sizes decide it; else None."""
    array = computed(value)
    if array is not None:
        return bool(array.reshape(-1)[0])
    known = known_elements(value)
    return bool(known[0]) if known is not None and not isinstance(known[0], Expr) else None


def _whole(element: _Element) -> Expr:
    if isinstance(element, _Ratio):
        return element.whole()
    if element.denominator != 1:
        raise _Unknown
    return X.const(int(element))


@dataclass
class _Search:
    """Elements of nodes, found by following their formulas.

    ``opaque``: an integer that does not depend on sizes alone is a symbol of its own, so that differences are known.
    """

    counted: Callable[[Node], Extent | None] = lambda node: None
    opaque: bool = False
    done: dict[tuple[Node, tuple[int, ...]], _Element] = field(default_factory=dict)

    def element(self, node: Node, place: tuple[int, ...]) -> _Element:
        if (node, place) not in self.done:
            try:
                self.done[node, place] = self.followed(node, place)
            except (_Unknown, Undecided):
                if not self.opaque or node.type.dtype in FLOATS:
                    raise
                self.done[node, place] = _Ratio(X.size(f"element {len(self.done)}", -_ANY, _ANY), 1)
        return self.done[node, place]

    def followed(self, node: Node, place: tuple[int, ...]) -> _Element:
        size = self.counted(node) if node.op == "reduce" else None
        if node.is_const:
            value = node.value[place]
            if not np.isfinite(value):
                raise _Unknown
            return Fraction(value.item())
        if size is not None:
            return _Ratio(size, 1) if isinstance(size, Expr) else Fraction(size)
        if node.op == "input" or is_procedure(node.op) or len(self.done) > 100 * LIMIT:
            raise _Unknown
        derived = formula(node)
        bound = {v: Fraction(p) for v, p in zip(derived.variables, place) if v.op == "var"}
        return _Follower(bound, lambda slot, at: self.element(node.args[slot], at)).value(derived.body)


class _Follower:
    """Evaluates a formula whose loads are elements."""

    def __init__(self, bound: Mapping[Expr, Fraction], load) -> None:  # type: ignore[no-untyped-def]
        self.bound = bound
        self.load = load

    def value(self, e: Expr) -> _Element:
        if e.op == "const":
            if not np.isfinite(e.value):
                raise _Unknown
            return Fraction(e.value)
        if e.op == "size":
            return _Ratio(e, 1)
        if e.op == "var":
            return self.bound[e]
        if e.op == "load":
            places = [self.value(i) for i in e.args]
            if not all(isinstance(p, Fraction) and p.denominator == 1 for p in places):
                raise _Unknown
            found: _Element = self.load(e.value, tuple(int(p) for p in places))  # type: ignore[arg-type]
            return found
        if e.op == "select":
            chosen = self.value(e.args[0])
            if not isinstance(chosen, Fraction):
                raise _Unknown
            return self.value(e.args[1] if chosen else e.args[2])
        if e.op == "reduce":
            return self.reduced(e)
        args = [self.value(a) for a in e.args]
        if e.op == "cast":
            return args[0] if e.dtype in FLOATS else _truncated(args[0])
        if all(isinstance(a, Fraction) for a in args):
            return _number(e, args)  # type: ignore[arg-type]
        return _symbolic(e, args)

    def reduced(self, e: Expr) -> _Element:
        combine = e.value[0]
        names, body = X.opened(e)
        extents = [n.value.extent for n in names]
        if any(isinstance(n, Expr) for n in extents) or np.prod(extents) > LIMIT:
            raise _Unknown
        terms = [
            _Follower({**self.bound, **dict(zip(names, map(Fraction, place)))}, self.load).value(body)
            for place in product(*map(range, extents))
        ]
        total = terms[0]
        for term in terms[1:]:
            total = _symbolic(X.raw_call(combine, (X.const(0), X.const(0)), "i64"), [total, term])
        return total


def _truncated(a: _Element) -> _Element:
    if isinstance(a, Fraction):
        return Fraction(trunc(a))
    if not isinstance(a.divisor, Expr) and a.divisor == 1:
        return a
    if index.bounds(a.formula)[0] < 0:
        raise _Unknown
    return _Ratio(X.lift(a.formula, "i64") // a.divisor, 1)


_NUMBERS = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "neg": lambda a: -a,
    "min": min, "max": max, "abs": abs, "floor": floor, "ceil": ceil,
    "floordiv": lambda a, b: a // b, "floormod": lambda a, b: a % b, "sqrt": None,
    "lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b,
    "and": lambda a, b: bool(a and b), "or": lambda a, b: bool(a or b), "not": lambda a: not a,
}  # fmt: skip


def _number(e: Expr, args: list[Fraction]) -> Fraction:
    if e.op == "div" and args[1]:
        exact = args[0] / args[1]
        return exact if e.dtype in FLOATS else Fraction(trunc(exact))
    apply = _NUMBERS.get(e.op)
    if apply is None or (e.op in ("floordiv", "floormod") and not args[1]):
        raise _Unknown
    return Fraction(apply(*args))


def _symbolic(e: Expr, args: list[_Element]) -> _Element:
    """A function of elements of which some are formulas of sizes."""
    if e.op in ("floor", "ceil") and isinstance(args[0], _Ratio):
        part, whole = args[0].formula, args[0].divisor
        return _Ratio(part // whole if e.op == "floor" else -(-part // whole), 1)
    pairs = [(a.formula, a.number) if isinstance(a, _Ratio) else (X.const(a.numerator), a.denominator) for a in args]
    (a, d), (b, f) = pairs[0], pairs[-1]
    if e.op == "mul":
        return _ratio(a * b, d * f)
    if e.op in ("add", "sub"):
        return _ratio(a * f + b * d if e.op == "add" else a * f - b * d, d * f)
    if e.op == "div" and e.dtype in FLOATS:
        if b.op == "const" and b.value > 0:
            return _ratio(a * f, d * b.value)
        if d == f == 1 and index.bounds(b)[0] > 0:
            return _Ratio(a, b)
        raise _Unknown
    if e.op == "neg":
        return _Ratio(-a, d)
    if d == f == 1 and e.op in ("div", "floordiv", "floormod", "min", "max"):
        return _settled(X.call(e.op, a, b))
    if e.op in ("lt", "le", "gt", "ge", "eq", "ne"):
        return Fraction(bool(X.call(e.op, a * f, b * d)))
    if e.op == "abs" and index.bounds(a)[0] >= 0:
        return _Ratio(a, d)
    raise _Unknown


def _ratio(formula: Expr, divisor: int) -> _Element:
    """In lowest terms."""
    exact = index.exact(formula, divisor)
    if exact is not None:
        return _Ratio(exact, 1) if isinstance(exact, Expr) else Fraction(exact)
    return Fraction(formula.value, divisor) if formula.op == "const" else _Ratio(formula, divisor)


def _settled(formula: Expr) -> _Element:
    if not index.is_static(formula):
        raise _Unknown
    return Fraction(formula.value) if formula.op == "const" else _Ratio(formula, 1)

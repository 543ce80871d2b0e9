"""Facts about a node that rules may use: constants, their values, signs."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from math import inf
from typing import TypeVar, Union
from weakref import WeakKeyDictionary

import numpy as np

from edgec.ir.graph import Node
from edgec.ir.types import FLOATS, ends, is_worth_computing

Number = Union[int, float, bool]

#: Constants up to this size stay in the nearest cache: reading one costs nothing, and one may be repeated up to it.
SMALL_BYTES = 16 * 1024
Value = TypeVar("Value")

_ANYTHING = (-inf, inf)
_SMALL_INTEGERS = frozenset({"i8", "u8", "i16", "u16"})
#: Results that stay in a range whatever the operand is.
_RANGES = {
    "exp": (0.0, inf), "abs": (0.0, inf), "sigmoid": (0.0, 1.0),
    **dict.fromkeys(("tanh", "erf", "sin", "cos"), (-1.0, 1.0)),
}  # fmt: skip
#: What makes whole numbers of whole numbers.
_KEEPING_INTEGERS = frozenset(
    {"add", "sub", "mul", "max", "min", "neg", "abs", "reshape", "transpose", "slice", "broadcast", "concat"}
)

_uniform: WeakKeyDictionary[Node, Number | None] = WeakKeyDictionary()
_static: WeakKeyDictionary[Node, bool] = WeakKeyDictionary()
_largest: WeakKeyDictionary[Node, tuple[int, int]] = WeakKeyDictionary()


def uniform(node: Node) -> Number | None:
    """The number all elements of a constant have, or None."""
    if not node.is_const:
        return None
    if node not in _uniform:
        flat = node.value.reshape(-1)
        same = flat.size > 0 and flat[0] == flat[-1] and bool((flat == flat[0]).all())
        if same and flat[0] == 0 and node.type.dtype in FLOATS:  # zeros of both signs are not one number
            same = bool((np.signbit(flat) == np.signbit(flat[0])).all())
        value = flat[0].item() if same else None
        _uniform[node] = value
    return _uniform[node]


def is_static(node: Node) -> bool:
    """No input of the graph can change it, nor its size: a constant, or something computed from constants alone."""
    if node.op in ("const", "input"):
        return node.op == "const"
    return memoized(node, _static, lambda n: n.op != "input" and not n.sizes and all(_static[a] for a in n.args))


def is_known(node: Node) -> bool:
    """Static, and not absurdly large beside the constants that it is computed from: `value_of` may be asked for it."""
    return is_static(node) and is_worth_computing(*memoized(node, _largest, _largest_of))


def _largest_of(node: Node) -> tuple[int, int]:
    """Elements of the largest result on the way to a static node, and of the largest constant."""
    if node.is_const:
        return 0, node.type.elements
    computed, stored = zip((node.type.elements, 0), *(_largest[a] for a in node.args))
    return max(computed), max(stored)


def memoized(node: Node, known: MutableMapping[Node, Value], derive: Callable[[Node], Value]) -> Value:
    """A value derived from those of a node's arguments, without recursion: graphs are deep."""
    found = known.get(node)
    if found is not None:
        return found
    stack = [node]
    while stack:
        missing = [a for a in stack[-1].args if a not in known]
        if missing:
            stack += missing
        else:
            done = stack.pop()
            known[done] = derive(done)
    return known[node]


def constants(*nodes: Node) -> bool | str:
    """Guard: all are constants."""
    return all(n.is_const for n in nodes) or "an operand is not constant"


def static(*nodes: Node) -> bool | str:
    """Guard: no input can change them."""
    return all(map(is_static, nodes)) or "an operand depends on the input"


def invertible(*nodes: Node) -> bool | str:
    """Guard: constants whose reciprocals neither overflow nor vanish."""
    for n in nodes:
        if not n.is_const:
            return "an operand is not constant"
        size = np.abs(n.value.astype(np.float64))
        limit = 2.0**14 if n.type.dtype == "f16" else 2.0**100
        if not ((size <= limit) & (size >= 1 / limit)).all():
            return "the reciprocal of a constant leaves the range of its type"
    return True


def power_of_two(*nodes: Node) -> bool | str:
    """Guard: invertible constants that are powers of two, whose reciprocals are exact."""
    for n in nodes:
        verdict = invertible(n)
        if verdict is not True:
            return verdict
        if not (np.abs(np.frexp(n.value.astype(np.float64))[0]) == 0.5).all():
            return "a constant is no power of two"
    return True


def least(node: Node, depth: int = 8) -> float:
    """A number no element is below, NaN apart, whatever the inputs are; minus infinity where nothing is known."""
    return _bounds(node, depth)[0]


def greatest(node: Node, depth: int = 8) -> float:
    """A number no element is above, NaN apart, whatever the inputs are; infinity where nothing is known."""
    return _bounds(node, depth)[1]


def _bounds(node: Node, depth: int) -> tuple[float, float]:
    """Interval arithmetic, ``depth`` operators down."""
    if node.is_const and node.type.dtype != "bool" and node.type.elements:
        low, high = float(node.value.min()), float(node.value.max())
        return (low, high) if low == low else _ANYTHING
    if node.type.dtype in _SMALL_INTEGERS:
        low, high = ends(node.type.dtype)
        return float(low), float(high)
    if node.op in _RANGES:
        return _RANGES[node.op]
    if not depth or node.op in ("input", "const") or node.type.dtype not in FLOATS:
        return _ANYTHING
    parts = [_bounds(a, depth - 1) for a in node.args]
    below, above = [p[0] for p in parts], [p[1] for p in parts]
    if node.op in ("reshape", "transpose", "slice", "broadcast", "concat"):
        return min(below), max(above)
    if node.op == "cast":
        return parts[0] if node.args[0].type.dtype in _SMALL_INTEGERS else _ANYTHING
    if node.op == "max":
        return max(below), max(above)
    if node.op == "min":
        return min(below), min(above)
    if node.op == "add":
        return sum(below), sum(above)
    if node.op == "round":
        low, high = np.rint(parts[0])
        return float(low), float(high)
    if node.op == "mul" and node.args[0] is node.args[1]:
        return 0.0, inf
    if node.op in ("sqrt", "mul", "div"):
        return (0.0, inf) if min(below) >= 0 else _ANYTHING
    if node.op in ("reduce", "pool"):
        if node.attributes["combine"] in ("max", "min"):
            return parts[0]
        return (0.0, inf) if below[0] >= 0 else _ANYTHING
    return _ANYTHING


def is_integral(node: Node, depth: int = 8) -> bool:
    """Is every element, infinities and NaN apart, known to be a whole number?"""
    if node.type.dtype not in FLOATS:
        return node.type.dtype != "bool"
    if node.is_const:
        values = node.value.astype(np.float64)
        return bool((values == np.rint(values)).all())
    if node.op == "cast" and node.args[0].type.dtype not in FLOATS:
        return True
    if node.op in ("round", "floor", "ceil", "trunc"):
        return True
    return bool(depth) and node.op in _KEEPING_INTEGERS and all(is_integral(a, depth - 1) for a in node.args)


def nonnegative(*nodes: Node) -> bool | str:
    """Guard: no element is below zero."""
    return all(least(n) >= 0 for n in nodes) or "an operand may be negative"


def positive(*nodes: Node) -> bool | str:
    """Guard: every element is above zero, NaN apart."""
    return all(least(n) > 0 for n in nodes) or "an operand may be zero or negative"


def both(*verdicts: bool | str) -> bool | str:
    """Guard: all of several guards; the first objection where there is one."""
    return next((v for v in verdicts if v is not True), True)

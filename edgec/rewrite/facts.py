"""What laws may ask about a node: constants, their values, signs."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import TypeVar, Union
from weakref import WeakKeyDictionary

import numpy as np

from edgec.ir.graph import Node
from edgec.ir.types import FLOATS

Number = Union[int, float, bool]
Value = TypeVar("Value")

_uniform: WeakKeyDictionary[Node, Number | None] = WeakKeyDictionary()
_static: WeakKeyDictionary[Node, bool] = WeakKeyDictionary()


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
    """No input of the graph can change it: a constant, or something computed from constants alone."""
    if node.op in ("const", "input"):
        return node.op == "const"
    return memoized(node, _static, lambda n: n.op != "input" and all(_static[a] for a in n.args))


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


def nonnegative(node: Node) -> bool | str:
    """Guard: no element is below zero or not a number, whatever the inputs are."""
    if node.is_const:
        known = bool((node.value >= 0).all())
    elif node.op in ("reshape", "transpose", "slice", "broadcast"):
        return nonnegative(node.args[0])
    else:
        known = False
    return known or node.op in ("exp", "sigmoid") or "an operand may be negative"

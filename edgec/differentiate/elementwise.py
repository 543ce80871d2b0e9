"""Derivatives of element-wise operators: the formulas of the table of functions, over tensors."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from types import CodeType
from typing import Any

import numpy as np

from edgec.frontend.values import Value, constant, emit
from edgec.ir.functions import FUNCTIONS
from edgec.ir.graph import Node
from edgec.ops.graphs import totaled


def elementwise(n: Node, g: Node, k: int) -> Node | None:
    """The gradient for operand ``k`` of an element-wise operator: its formula, summed where it was broadcast."""
    formula = FUNCTIONS[n.op].derivatives[k]
    if formula is None or formula == "0":
        return None
    operands = {name: Value(a) for name, a in zip("abc", n.args)}
    scope = {**_vocabulary(), **operands, "g": Value(g), "y": Value(n)}
    result: Value = eval(_compiled(formula), {"__builtins__": {}}, scope)
    return totaled(result.broadcast(*n.type.shape).node, n.args[k].type.shape)


@cache
def _compiled(formula: str) -> CodeType:
    return compile(formula, formula, "eval")


@cache
def _vocabulary() -> dict[str, Callable[..., Any]]:
    """Words of a formula: every scalar function by its name."""
    return {**{name: partial(emit, name) for name in FUNCTIONS}, "winner": _winner}


def _winner(g: Value, is_first: Value, a: Value, b: Value) -> Value:
    """``g`` where ``a`` comes first, and its share of a tie of ``a`` and ``b``.

    Two computed values have half each, as in torch. Beside a constant the computed one has all of it, so that a bound
    that is just reached does not stop the gradient (torch's clamp); but beside 0 it has none (torch's ReLU).
    """
    share = b.node.value != 0 if b.is_const else a.node.value == 0 if a.is_const else np.array(0.5)
    if not share.any():
        return emit("select", is_first, g, 0.0)
    if share.all() and share.dtype == bool:
        return emit("select", is_first | a.equals(b), g, 0.0)
    return emit("select", is_first, g, emit("select", a.equals(b), g * constant(share, g.dtype), 0.0))

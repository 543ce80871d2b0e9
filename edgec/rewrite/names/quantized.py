"""Names of quantized operators: all that stands between narrow integers and narrow integers is one operator.

Simplified, a quantized operator is a sum of products of widened bytes (or a sum, or a function of real numbers), and
behind it an offset, a scale, bounds and a rounding, by constants: the parts that ``requantized`` walks through.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Protocol

from edgec.ir.functions import FUNCTIONS
from edgec.ir.graph import Node
from edgec.ir.types import FLOATS
from edgec.rewrite.affine import NARROW
from edgec.rewrite.facts import is_static
from edgec.rewrite.measure import is_widening

#: What is done by constants on the way to narrow integers.
_STEPS = frozenset({"add", "mul", "div", "max", "min", "round"})


class Surroundings(Protocol):
    """The facts needed about the graph: the single reader of a node, and whether nothing else reads a node."""

    def reader(self, n: Node) -> Node | None: ...

    def is_private(self, n: Node) -> bool: ...


def is_narrowing(n: Node) -> bool:
    """It makes the integers of a quantized tensor."""
    return n.op == "cast" and n.type.dtype in NARROW and n.args[0].type.dtype in FLOATS


def is_reading(n: Node) -> bool:
    """It only widens the integers of a quantized tensor, which whoever reads them does."""
    return is_widening(n) or (n.op == "cast" and n.args[0].type.dtype in NARROW and n.type.dtype in FLOATS)


def requantized(n: Node, around: Surroundings) -> tuple[Node, frozenset[Node]]:
    """The last node of the requantization (or dequantization) of the sum ``n``, or ``n``, and the nodes in between."""
    end, sums = n, _operands(n)
    way: list[Node] = []
    taken: set[Node] = set()
    reached: tuple[Node, frozenset[Node]] = (n, frozenset())
    while (reader := around.reader(end)) is not None:
        others = [a for a in reader.args if a is not end and not is_static(a)]
        if is_narrowing(reader):
            return reader, frozenset({*way, *taken, reader})
        to_float = reader.op == "cast" and end.type.dtype == "i32" and reader.type.dtype in FLOATS
        if not to_float and reader.op not in _STEPS:
            break
        for other in others:
            correction = _correction(other, sums, around)
            if correction is None or reader.op != "add":
                return reached
            taken |= correction
        way.append(reader)
        end = reader
        if end.type.dtype == "i32" or to_float or end.op == "mul":
            reached = (end, frozenset({*way, *taken}))
    return reached


def _operands(n: Node) -> frozenset[Node]:
    """The tensors that a sum of products reads, not widened."""
    return frozenset(a.args[0] if is_widening(a) else a for a in n.args)


def _correction(n: Node, operands: Collection[Node], around: Surroundings) -> frozenset[Node] | None:
    """The nodes that multiply the sums of an operand by the zero point of the other one; None if it does not."""
    nodes: set[Node] = set()
    while n.op in ("add", "mul", "reshape") and around.is_private(n):
        nodes.add(n)
        moving = [a for a in n.args if not is_static(a)]
        n = next((a for a in moving if a.type.elements > 1), moving[0])
        nodes.update(a for a in moving if a is not n and a.op in ("reshape", "cast") and around.is_private(a))
    if n.op == "pool" and around.is_private(n):
        nodes.add(n)
        n = n.args[0]
    if n.op == "reduce" and n.attributes["combine"] == "add" and around.is_private(n):
        (x,) = n.args
        if (x.args[0] if is_widening(x) else x) in operands:
            return frozenset({*nodes, n})
    return None


def elementwise(n: Node, around: Surroundings) -> tuple[str, frozenset[Node]] | None:
    """``n`` makes narrow integers: the quantization alone, or with the one function whose operands are dequantized."""
    if not is_narrowing(n):
        return None
    nodes = {n}
    x = _climbed(n.args[0], nodes, around)
    if is_reading(x):
        return "requantize", frozenset({*nodes, x})
    moving = [a for a in x.args if not is_static(a)]
    if x.op in FUNCTIONS and around.is_private(x) and moving:
        inside = {*nodes, x}
        if all(is_reading(leaf) for leaf in _leaves(moving, inside, around)):
            return f"quantized {x.op}", frozenset(inside)
    return "quantize", frozenset(nodes)


def _leaves(operands: Iterable[Node], nodes: set[Node], around: Surroundings) -> list[Node]:
    found = []
    for a in operands:
        leaf = _climbed(a, nodes, around)
        if is_reading(leaf):
            nodes.add(leaf)
        found.append(leaf)
    return found


def _climbed(n: Node, nodes: set[Node], around: Surroundings) -> Node:
    """The first operand on the way up that takes more than constants; what lies before it joins ``nodes``."""
    while n.op in _STEPS and around.is_private(n) and sum(not is_static(a) for a in n.args) == 1:
        nodes.add(n)
        n = next(a for a in n.args if not is_static(a))
    return n


def dequantized(n: Node, around: Surroundings) -> frozenset[Node] | None:
    """The nodes of real numbers that stand for narrow integers; None where ``n`` are none."""
    nodes: set[Node] = {n}
    x = n
    while x.op in ("add", "mul", "sub", "reshape") and sum(not is_static(a) for a in x.args) == 1:
        x = next(a for a in x.args if not is_static(a))
        if not is_reading(x) and not around.is_private(x):
            return None
        nodes.add(x)
    return frozenset(nodes) if is_reading(x) and x.type.dtype in FLOATS else None

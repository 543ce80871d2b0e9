"""Blocks: several operators as one formula, composed by substitution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from edgec.fuse.kind import Kind
from edgec.ir import expr as X
from edgec.ir.evaluate import evaluate_formula, evaluate_node
from edgec.ir.expr import Expr
from edgec.ir.graph import Formula, Meaning, Node, Procedure
from edgec.ir.lanes import NARROWEST
from edgec.ir.loads import reduces, replace_loads
from edgec.ir.memory import remembered
from edgec.ir.nest import most, split_formula
from edgec.ir.sizes import NO_SIZES, Sizes
from edgec.ir.types import is_float
from edgec.ops import formula


@dataclass(frozen=True)
class Block:
    """Operators computed by one kernel, as one formula whose loads name the nodes in ``inputs``.

    A procedure is a block of its own. ``kind`` is the most specialized schedule that may accept the block.
    """

    output: Node
    nodes: tuple[Node, ...]
    meaning: Meaning
    kind: Kind

    @property
    def formula(self) -> Formula:
        """The composed formula of a block that is no procedure."""
        assert isinstance(self.meaning, Formula), f"{self.output.op} is a procedure"
        return self.meaning

    @property
    def is_procedure(self) -> bool:
        return isinstance(self.meaning, Procedure)

    @cached_property
    def inputs(self) -> tuple[Node, ...]:
        if self.is_procedure:
            return tuple(dict.fromkeys(self.output.args))
        return tuple(dict.fromkeys(e.value for e in X.loads(self.formula.body)))

    def evaluate(self, lookup: Callable[[Any], np.ndarray], known: Sizes = NO_SIZES) -> np.ndarray:
        """The block's result, from the arrays of its inputs."""
        if self.is_procedure:
            return evaluate_node(self.output, [lookup(a) for a in self.output.args], known)
        return evaluate_formula(self.formula, lookup, known)


#: Arithmetic whose operands of one element may be read from memory, and the digits of numbers that people write.
_ARITHMETIC, _WRITTEN_DIGITS = ("add", "sub", "mul", "div"), 3


def is_trained(node: Node, arg: Node) -> bool:
    """Is ``arg`` a number that ``node`` multiplies or adds, and of more digits than people write?"""
    if node.op not in _ARITHMETIC or not is_float(arg.type.dtype):
        return False
    digits = np.format_float_scientific(np.float32(arg.value.reshape(-1)[0])).partition("e")[0]
    return sum(digit.isdigit() for digit in digits) > _WRITTEN_DIGITS


class Composer:
    """Composes formulas by substitution; they are remembered, as blocks are composed many times.

    With ``updatable``, numbers that may be trained stay weights, so that code does not depend on them.
    """

    def __init__(self, updatable: bool = False) -> None:
        self.updatable = updatable
        self.simple: dict[Node, Formula] = {}

    def own(self, node: Node) -> Formula:
        """The formula of one node, whose loads name nodes; constants of one element are part of it."""
        found = self.simple.get(node)
        if found is None:
            found = self.simple[node] = _own(node, self.updatable)
        return found

    def compose(self, output: Node, inside: Callable[[Node], bool]) -> Formula:
        """The formula of ``output`` with every node for which ``inside`` holds substituted into it."""
        return _composed(self._within(output, inside), self.updatable)

    def likeness(self, output: Node, inside: Callable[[Node], bool]) -> Likeness:
        """The nodes of `compose` as a value that blocks share whose formulas differ in the names of what they load."""
        return Likeness(self._within(output, inside), self.updatable)

    def _within(self, output: Node, inside: Callable[[Node], bool]) -> tuple[Node, ...]:
        """``output`` and every node before it for which ``inside`` holds, arguments first."""
        nodes: dict[Node, None] = {}
        stack = [(output, False)]
        while stack:  # arguments first; not recursive, as blocks may be deep
            node, ready = stack.pop()
            if node in nodes:
                continue
            if ready:
                nodes[node] = None
                self.own(node)
            else:
                stack.append((node, True))
                within = (a for a in node.args if a.op not in ("input", "const") and inside(a))
                stack.extend((a, False) for a in within if a not in nodes)
        return tuple(nodes)


class Likeness:
    """Nodes of a block, equal to those of another whose operators, types and connections are the same."""

    __slots__ = ("key", "nodes", "updatable")

    def __init__(self, nodes: tuple[Node, ...], updatable: bool) -> None:
        numbers: dict[Node, int] = {}
        rows = []
        for n in nodes:
            rows.append((n.op, n.attrs, n.type, *(numbers.setdefault(a, len(numbers)) for a in n.args)))
            numbers[n] = len(numbers)
        inside = {*nodes}
        loaded = tuple((k, a.op, _number(a) or a.type) for a, k in numbers.items() if a not in inside)
        self.nodes, self.updatable, self.key = nodes, updatable, (tuple(rows), loaded, updatable)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Likeness) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def formula(self) -> Formula:
        """The formula of the last node with the others substituted into it."""
        return _composed(self.nodes, self.updatable)


def _number(node: Node) -> Node | None:
    """A constant of one element, which is part of a formula."""
    return node if node.is_const and node.type.elements == 1 else None


@remembered(20_000)
def holds(ask: Callable[[Formula], bool], block: Likeness) -> bool:
    """The answer to a question about a formula, remembered for all blocks of one likeness."""
    return ask(block.formula)


@remembered(20_000)
def _own(node: Node, updatable: bool) -> Formula:
    """The formula of one node, whose loads name nodes."""
    derived = formula(node)

    def named(slot: Any, place: tuple[Expr, ...]) -> Expr:
        arg = node.args[slot]
        if arg.is_const and arg.type.elements == 1 and not (updatable and is_trained(node, arg)):
            (value,) = arg.value.reshape(-1)
            return X.const(float(value) if is_float(arg.type.dtype) else value.item(), arg.type.dtype)
        return X.load(arg, place, arg.type.dtype)

    return Formula(derived.type, derived.variables, replace_loads(derived.body, named, keeps_loops=True))


@remembered(4096)
def _composed(nodes: tuple[Node, ...], updatable: bool) -> Formula:
    """The formula of the last of ``nodes`` with the others substituted into it, which are in the order of a graph."""
    whole: dict[Node, Formula] = {}

    def inline(slot: Any, place: tuple[Expr, ...]) -> Expr | None:
        inner = whole.get(slot)
        return X.substitute(inner.body, dict(zip(inner.variables, place))) if inner is not None else None

    for node in nodes:
        mine = _own(node, updatable)
        read = [whole[a] for a in node.args if a in whole]
        keeps_loops = not any(reduces(inner.body) for inner in read)
        whole[node] = Formula(
            mine.type, mine.variables, replace_loads(mine.body, inline, keeps_loops) if read else mine.body
        )
    return whole[nodes[-1]]


@remembered(4096)
def is_affine(derived: Formula) -> bool:
    """After splitting loops, is every load's index a linear function of them?"""
    split = split_formula(derived)
    for load in X.loads(split.body):
        for i in load.args:
            if any(e.op in ("floordiv", "floormod") for e in X.walk(i)):
                return False
    return not any(e.op == "select" and _positional(e.args[0]) for e in X.walk(split.body))


@remembered(4096)
def is_reduced_in_line(derived: Formula) -> bool:
    """Does no reduction read what it goes over at remainders of positions, where no loop of results fills lanes?

    Phases of a transposed convolution that lie side by side are such positions, if its result is cropped. Elements that
    are repeated have quotients alone, once the broadcast that repeats them is joined, and lanes repeat them.
    """
    split = split_formula(derived)
    sums = [e for e in X.walk(split.body) if e.op == "reduce"]
    if not sums:
        return True
    loads = (load for load in X.loads(split.body) if getattr(load.value, "op", None) != "broadcast")
    parts = (e for load in loads for i in load.args for e in X.walk(i))
    divided = frozenset().union(*(X.free_variables(e) for e in parts if e.op == "floormod"))
    if any(most(v) >= NARROWEST and v not in divided for v in split.variables):
        return True
    return not any(v in divided and most(v) >= NARROWEST for e in sums for v in X.reduction_variables(e))


def _positional(condition: Expr) -> bool:
    return all(e.op != "load" for e in X.walk(condition))

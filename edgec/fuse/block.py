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
from edgec.ir.loads import replace_loads
from edgec.ir.nest import split_formula
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
    """Composes formulas by substitution; the formulas of single nodes are cached, as blocks are composed many times.

    With ``updatable``, numbers that may be trained stay weights, so that code does not depend on them.
    """

    def __init__(self, updatable: bool = False) -> None:
        self.updatable = updatable
        self.simple: dict[Node, Formula] = {}

    def own(self, node: Node) -> Formula:
        """The formula of one node, whose loads name nodes; constants of one element are part of it."""
        if node not in self.simple:
            derived = formula(node)

            def named(slot: Any, place: tuple[Expr, ...]) -> Expr:
                arg = node.args[slot]
                if arg.is_const and arg.type.elements == 1 and not (self.updatable and is_trained(node, arg)):
                    (value,) = arg.value.reshape(-1)
                    return X.const(float(value) if is_float(arg.type.dtype) else value.item(), arg.type.dtype)
                return X.load(arg, place, arg.type.dtype)

            self.simple[node] = Formula(derived.type, derived.variables, replace_loads(derived.body, named))
        return self.simple[node]

    def compose(self, output: Node, inside: Callable[[Node], bool]) -> Formula:
        """The formula of ``output`` with every node for which ``inside`` holds substituted into it."""
        whole: dict[Node, Formula] = {}

        def inline(slot: Any, place: tuple[Expr, ...]) -> Expr | None:
            inner = whole.get(slot)
            return X.substitute(inner.body, dict(zip(inner.variables, place))) if inner is not None else None

        stack = [(output, False)]
        while stack:  # arguments first; not recursive, as blocks may be deep
            node, ready = stack.pop()
            if node in whole:
                continue
            if ready:
                mine = self.own(node)
                whole[node] = Formula(mine.type, mine.variables, replace_loads(mine.body, inline))
            else:
                stack.append((node, True))
                within = (a for a in node.args if a.op not in ("input", "const") and inside(a))
                stack.extend((a, False) for a in within if a not in whole)
        return whole[output]


def is_affine(derived: Formula) -> bool:
    """After splitting loops, is every load's index a linear function of them?"""
    split = split_formula(derived)
    for load in X.loads(split.body):
        for i in load.args:
            if any(e.op in ("floordiv", "floormod") for e in X.walk(i)):
                return False
    return not any(e.op == "select" and _positional(e.args[0]) for e in X.walk(split.body))


def _positional(condition: Expr) -> bool:
    return all(e.op != "load" for e in X.walk(condition))

"""Blocks: several operators as one formula, composed by substitution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.graph import Formula, Node
from edgec.ir.nest import split_formula
from edgec.ir.types import is_float
from edgec.ops import formula


@dataclass(frozen=True)
class Block:
    """Operators computed by one kernel: ``formula`` loads from the nodes in ``inputs``, by node.

    ``kind`` is the schedule it is meant for: contract, window, row, map or procedure.
    """

    output: Node
    nodes: tuple[Node, ...]
    formula: Formula
    kind: str

    @property
    def inputs(self) -> tuple[Node, ...]:
        return tuple(dict.fromkeys(e.value for e in X.loads(self.formula.body)))


class Composer:
    """Composes formulas; remembers what it composed, since blocks grow by one operator at a time."""

    def __init__(self) -> None:
        self.simple: dict[Node, Formula] = {}

    def own(self, node: Node) -> Formula:
        """The formula of one node, loading from nodes; one-element constants are written out."""
        if node not in self.simple:
            derived = formula(node)

            def named(slot: Any, place: tuple[Expr, ...]) -> Expr:
                arg = node.args[slot]
                if arg.is_const and arg.type.elements == 1:
                    (value,) = arg.value.reshape(-1)
                    return X.const(float(value) if is_float(arg.type.dtype) else value.item(), arg.type.dtype)
                return X.load(arg, place, arg.type.dtype)

            self.simple[node] = Formula(derived.type, derived.variables, X.replace_loads(derived.body, named))
        return self.simple[node]

    def compose(self, output: Node, inside: Callable[[Node], bool]) -> Formula:
        """The formula of ``output`` with every node for which ``inside`` holds substituted into it."""
        whole: dict[Node, Formula] = {}

        def inline(slot: Any, place: tuple[Expr, ...]) -> Expr | None:
            inner = whole.get(slot)
            return X.substitute(inner.body, dict(zip(inner.variables, place))) if inner is not None else None

        stack = [(output, False)]
        while stack:  # arguments first; a block may be as deep as it has operators
            node, ready = stack.pop()
            if node in whole:
                continue
            if ready:
                mine = self.own(node)
                whole[node] = Formula(mine.type, mine.variables, X.replace_loads(mine.body, inline))
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

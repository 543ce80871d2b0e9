"""Applied and considered rules: the log of a rewrite."""

from __future__ import annotations

from dataclasses import dataclass

from edgec.ir.graph import Node
from edgec.rewrite.facts import is_static
from edgec.rewrite.measure import Measure
from edgec.rewrite.rule import Numeric, Proposal, Rule

#: Depth to which the terms of an applied rule are printed.
_SHOWN_DEPTH = 6


@dataclass(frozen=True)
class Applied:
    """One step: the rule, the ONNX nodes it concerned, and the terms before and after."""

    rule: str
    family: str
    numeric: Numeric
    origin: tuple[str, ...]
    before: str
    after: str
    gain: Measure

    def __str__(self) -> str:
        names = f" ({', '.join(self.origin)})" if self.origin else ""
        return f"{self.rule}{names}: {self.before} -> {self.after}"


@dataclass(frozen=True)
class Considered:
    """Verdict of a rule on a node: it applied, or a sentence with the reason why not."""

    rule: Rule
    outcome: Proposal


def term(node: Node, inside: set[Node]) -> str:
    """The part of a node's term that is ``inside``, on one line; other operands are shown by type."""
    names: dict[Node, str] = {}

    def show(n: Node, depth: int) -> str:
        if n in inside and n.args and depth:
            attributes = [f"{k}={v!r}" for k, v in n.attrs]
            return f"{n.op}({', '.join([*(show(a, depth - 1) for a in n.args), *attributes])})"
        if n not in names:
            names[n] = f"{'c' if is_static(n) else 'x'}{len(names)}"
            return f"{names[n]}: {n.type}"
        return names[n]

    return show(node, _SHOWN_DEPTH)

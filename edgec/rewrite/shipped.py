"""Simplification by the shipped rules, or by those that the caller gives."""

from __future__ import annotations

from collections.abc import Iterable

from edgec.ir.graph import Graph
from edgec.rewrite import engine
from edgec.rewrite.applied import Applied
from edgec.rewrite.load import load_rules
from edgec.rewrite.measure import OpCosts
from edgec.rewrite.rule import Numeric, Rule


def simplify(
    graph: Graph,
    rules: Iterable[Rule] | None = None,
    *,
    numeric: Numeric = "reassociates",
    steps: int | None = None,
    prices: OpCosts = OpCosts(),
) -> tuple[Graph, tuple[Applied, ...]]:
    """`edgec.rewrite.engine.simplify`, by the shipped rules where ``rules`` is None."""
    known = load_rules() if rules is None else rules
    return engine.simplify(graph, known, numeric=numeric, steps=steps, prices=prices)

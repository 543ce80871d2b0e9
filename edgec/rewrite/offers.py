"""Proposals of rules for nodes, asked for once where they follow from the node alone.

Nodes are swept again and again until no rule applies, and most of them are what they were in the sweep before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from edgec.errors import Undecided
from edgec.ir.graph import Node
from edgec.rewrite.rule import Proposal, Rule, View

#: Elements of a new constant, at most, in a proposal that is kept for later sweeps.
SMALL_ELEMENTS = 1024


def proposals(r: Rule, node: Node, view: View) -> Iterator[Proposal]:
    """Proposals of a rule for a node; none where its validity depends on run-time sizes."""
    try:
        yield from r.propose(node, view)
    except Undecided as reason:
        yield reason.message


class _Watched:
    """A view that knows whether it was asked."""

    def __init__(self, view: View) -> None:
        self.view, self.asked = view, False

    def uses(self, node: Node) -> int:
        self.asked = True
        return self.view.uses(node)


class Offers:
    """The nodes that rules propose; ``rules`` are those that may apply to a node, in order."""

    def __init__(self, view: View, rules: Callable[[Node], Iterable[Rule]]) -> None:
        self.view, self.rules = view, rules
        self._known: dict[Node, list[tuple[Rule, tuple[Node, ...] | None]]] = {}

    def of(self, node: Node) -> Iterator[tuple[Rule, Node]]:
        """Rules and what they propose, from memory where they did not ask for numbers of readers."""
        known = self._known.get(node)
        if known is None:
            known = []
            for r in self.rules(node):
                watched, found = _Watched(self.view), []
                for proposal in self._asked(r, node, watched):
                    found.append(proposal)
                    yield r, proposal
                if watched.asked or found:
                    is_kept = not watched.asked and all(_is_light(proposal, node) for proposal in found)
                    known.append((r, tuple(found) if is_kept else None))
            self._known[node] = known  # unless the node was replaced before all rules were asked
            return
        for r, kept in known:
            for proposal in self._asked(r, node, self.view) if kept is None else kept:
                yield r, proposal

    @staticmethod
    def _asked(r: Rule, node: Node, view: View) -> Iterator[Node]:
        return (p for p in proposals(r, node, view) if isinstance(p, Node) and p is not node)


def _is_light(proposal: Node, node: Node) -> bool:
    """Is it a small term over what the node reads, without large constants that would be kept alive?"""
    there = {node, *node.args}
    level = [proposal]
    for _ in range(4):
        level = [n for n in level if n not in there]
        if any(n.is_const and n.type.elements > SMALL_ELEMENTS for n in level):
            return False
        level = [a for n in level for a in n.args]
    return True

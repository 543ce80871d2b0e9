"""The order in which rows pass back from a node through a network whose ways part at sums and meet again."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Literal

from edgec.ir.graph import Node


@dataclass(frozen=True)
class Turn:
    """At a sum rows are "keep"-t in a ``slot`` and pass its first operand; then those kept take their "turn"; and where
    both ways "meet" they are added up. ``value`` is what the rows are of, after it."""

    kind: Literal["keep", "turn", "meet"]
    slot: int
    value: Node


@dataclass
class Route:
    """``nodes`` in the order in which rows pass them, the last one an input; ``turns`` by the number of the node that
    they come behind, ``met`` the numbers of nodes at which ways meet, ``sums`` the nodes at which they part."""

    nodes: list[Node] = field(default_factory=list)
    turns: dict[int, list[Turn]] = field(default_factory=dict)
    met: set[int] = field(default_factory=set)
    sums: set[Node] = field(default_factory=set)
    seen: set[Node] = field(default_factory=set)
    depth: int = 0

    def turn(self, kind: Literal["keep", "turn", "meet"], slot: int, value: Node) -> None:
        """Behind the last node."""
        self.turns.setdefault(len(self.nodes) - 1, []).append(Turn(kind, slot, value))
        self.depth = max(self.depth, slot + 1)


def route(start: Node, fixed: Collection[Node], passes: Callable[[Node, int], bool]) -> Route | None:
    """The route from a node to the one input; None where there is none.

    ``passes``: do rows of a node become those of the operand with this number alone?
    """
    made, ends = Route(), _Ends(fixed)
    return made if _pass(made, start, None, 0, passes, ends) else None


class _Ends:
    """The node through which all ways from a node to the input go, next to it."""

    def __init__(self, fixed: Collection[Node]) -> None:
        self.fixed = fixed
        self.found: dict[Node, Node | None] = {}
        self.depths: dict[Node, int] = {}

    def varying(self, n: Node) -> list[int]:
        """The numbers of the operands that are not known."""
        return [k for k, a in enumerate(n.args) if a not in self.fixed]

    def of(self, n: Node) -> Node | None:
        """None for inputs, and where ways end at several inputs."""
        stack = [n]
        while stack:
            m = stack[-1]
            below = [m.args[k] for k in self.varying(m)]
            waiting = [a for a in below if a not in self.depths]
            if waiting:
                stack += waiting
                continue
            stack.pop()
            if m not in self.depths:
                common = below[0] if below else None
                for a in below[1:]:
                    common = self._common(common, a)
                self.found[m] = common
                self.depths[m] = self.depths[common] + 1 if common is not None else 0
        return self.found[n]

    def _common(self, a: Node | None, b: Node | None) -> Node | None:
        while a is not b and a is not None and b is not None:
            if self.depths[a] >= self.depths[b]:
                a = self.found[a]
            else:
                b = self.found[b]
        return a if a is b else None


def _pass(
    made: Route, start: Node, end: Node | None, slot: int, passes: Callable[[Node, int], bool], ends: _Ends
) -> bool:
    """Adds the way from a node to an ``end``, which is none of it, or to an input; False where there is none."""
    n = start
    while n is not end:
        if n in made.seen:  # of ways that cross, one node would have to be passed twice
            return False
        made.seen.add(n)
        made.nodes.append(n)
        if n.op == "input":
            return end is None
        varying = ends.varying(n)
        if len(varying) == 1 and passes(n, varying[0]):
            n = n.args[varying[0]]
            continue
        is_sum = n.op == "add" and len(varying) == 2 and all(a.type.shape == n.type.shape for a in n.args)
        meeting = ends.of(n) if is_sum else None
        if meeting is None or meeting is end:  # rows that meet in turns may cancel after their sum was rounded
            return False
        made.sums.add(n)
        made.turn("keep", slot, n)
        if not _pass(made, n.args[0], meeting, slot + 1, passes, ends):
            return False
        made.turn("turn", slot, n)
        if not _pass(made, n.args[1], meeting, slot + 1, passes, ends):
            return False
        made.turn("meet", slot, meeting)
        made.met.add(len(made.nodes))
        n = meeting
    return True

"""Decisions of the planner with their reasons, recorded where they are made.

A verdict is about two neighbors: a value, and an operator or a block that reads it. `edgec explain` only prints them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from edgec.fuse import classify
from edgec.fuse.choice import Choice
from edgec.fuse.classify import Mapping
from edgec.fuse.table import TABLE, Cell
from edgec.ir.graph import Node

#: The reasons why two operators are not fused; docs/design/fusion.md explains each. ``class``: the table of pairs;
#: ``registers``: no vector form; ``code size``: the block is at the limit; ``recompute``: the reader would repeat it;
#: ``readers``: there are several; ``output``: it must be stored in memory; ``shape``: another domain; ``index``: loads
#: would not be linear; ``width``: the narrower integers are stored; ``mode``: the build does not fuse this; ``price``:
#: the alternative is cheaper; ``decided``: by the user.
Constraint = Literal[
    "class", "registers", "code size", "recompute", "readers", "output", "shape", "index", "width",
    "branch", "procedure", "aliasing", "mode", "price", "decided",
]  # fmt: skip


@dataclass(frozen=True)
class Refusal:
    """Reason for not fusing: the constraint, and a sentence that continues "two kernels, because ...".

    Where ``is_yellow``, the two are fused nevertheless if that costs less.
    """

    constraint: Constraint
    why: str
    is_yellow: bool = False


@dataclass(frozen=True)
class Verdict:
    """A decision on whether ``writer`` and its ``reader`` (an operator, or the end of a block) are in one kernel.

    ``constraint`` is the reason where they are not, ``choice`` the costs where these decided.
    """

    writer: Node
    reader: Node
    fused: bool
    why: str
    constraint: Constraint | None = None
    choice: Choice | None = None
    #: The classes of the blocks that the two are part of, where these impose more than the operators.
    first: Mapping | None = None
    second: Mapping | None = None

    @property
    def cell(self) -> Cell:
        """The cell of the table that the two operators are in."""
        return TABLE[self.first or _class(self.writer), self.second or _class(self.reader)]


@dataclass
class Decisions:
    """All verdicts in the order they were found, and the choices that prices made."""

    verdicts: list[Verdict] = field(default_factory=list)
    choices: list[Choice] = field(default_factory=list)
    #: Results that the user decided to store in memory, with the reason as a sentence.
    decided: dict[Node, str] = field(default_factory=dict)

    def fused(self, writer: Node, reader: Node, why: str, choice: Choice | None = None) -> None:
        self.verdicts.append(Verdict(writer, reader, True, why, None, choice))

    def apart(
        self,
        writer: Node,
        readers: Iterable[Node],
        refusal: Refusal,
        choice: Choice | None = None,
        *,
        first: Mapping | None = None,
        second: Mapping | None = None,
    ) -> None:
        if writer in self.decided:
            refusal = Refusal("decided", self.decided[writer])
        for reader in dict.fromkeys(readers):
            verdict = Verdict(writer, reader, False, refusal.why, refusal.constraint, choice, first, second)
            self.verdicts.append(verdict)

    def asked(self, choice: Choice) -> Choice:
        self.choices.append(choice)
        return choice


def _class(node: Node) -> Mapping:
    """The class of an operator; of what is in memory already, the one that imposes nothing."""
    return Mapping.ONE_TO_ONE if node.op in ("input", "const", "copy") else classify.mapping(node)

"""The order in which blocks and copies write memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from edgec.fuse.aliases import JOINED, BufferAlias
from edgec.fuse.block import Block
from edgec.fuse.guards import Guard
from edgec.ir.expr import Expr
from edgec.ir.graph import Node
from edgec.ir.sizes import sizes_of


class WriteOrder:
    """Blocks and copies, each behind what it needs; a value without a block is complete when all its parts are.

    ``order`` has the number of every node, ``aliased`` the values that no block writes, ``sizes`` the values of
    computed sizes.
    """

    def __init__(
        self,
        blocks: Sequence[Block],
        copies: Sequence[Block],
        aliases: Mapping[Node, BufferAlias],
        aliased: Collection[Node],
        guards: Mapping[Node, frozenset[Guard]],
        sizes: Mapping[Expr, Node],
        order: Mapping[Node, int],
    ) -> None:
        self._blocks, self._copies, self._aliases, self._aliased = blocks, copies, aliases, aliased
        self._guards, self._sizes, self._order = guards, sizes, order
        self._writers: dict[Node, list[Block]] = {}
        for b in (*blocks, *copies):
            self._writers.setdefault(b.output, []).append(b)
        self._copied: dict[Node, list[Block]] = {}  # the copies inside a value
        for b in copies:
            if b.output in aliases:
                parent = aliases[b.output].parent
                self._copied.setdefault(parent, []).append(b)
                self._writers.setdefault(parent, []).append(b)
        self._done: set[int] = set()
        self._ordered: list[Block] = []

    def ordered(self, wanted: Sequence[Node]) -> list[Block]:
        """All of them, with what the ``wanted`` values need."""
        for b in sorted(self._blocks, key=lambda b: self._order[b.output]):
            self._write(b)
        for node in wanted:
            self._need(node)
        for b in self._copies:
            self._write(b)
        return self._ordered

    def _need(self, node: Node) -> None:
        if node in self._aliased:
            for part in node.args if node.op in JOINED else (self._aliases[node].parent,):
                self._need(part)
            self._write_all(self._copied.get(node, ()))
        else:
            self._write_all(self._writers.get(node, ()))

    def _write_all(self, blocks: Sequence[Block]) -> None:
        for b in blocks:
            self._write(b)

    def _write(self, block: Block) -> None:
        if id(block) in self._done:
            return
        self._done.add(id(block))
        for i in block.inputs:
            self._need(i)
        self._overwrite(block.output)
        for condition, _ in sorted(self._guards.get(block.output, ()), key=lambda g: self._order[g[0]]):
            self._need(condition)
        for size in sizes_of(block.meaning):
            if size in self._sizes:
                self._need(self._sizes[size])
        self._ordered.append(block)

    def _overwrite(self, part: Node) -> None:
        """Before ``part`` is written, so is what it changes: the first operand of an update."""
        while part in self._aliases and not self._aliases[part].is_view:
            around = self._aliases[part].parent
            if around.op == "update" and _is_changing(part, around):
                self._need(around.args[0])
                self._write_all([c for c in self._copied.get(around, ()) if c.inputs == around.args[:1]])
            part = around


def _is_changing(part: Node, around: Node) -> bool:
    """Is ``part``, or what it is a copy of, the second operand of the update ``around``?"""
    return part is around.args[1] or (part.op == "copy" and part.args == around.args[1:])

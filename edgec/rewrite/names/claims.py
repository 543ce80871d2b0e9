"""The nodes that a named operator may claim: those nobody else reads, and those that every reader recomputes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from edgec.ir.graph import Graph, Node
from edgec.rewrite.facts import is_static
from edgec.rewrite.names.quantized import is_reading

_PADDED = ("conv", "pool")


@dataclass(frozen=True)
class Named:
    """One operator: its name, the node that is its result, and the nodes it stands for."""

    name: str
    output: Node
    nodes: frozenset[Node]


class Claims:
    """The nodes of a graph, who reads them, and whom each belongs to so far."""

    def __init__(self, graph: Graph) -> None:
        self.order = [n for n in graph.operations() if not is_static(n)]
        self.users = graph.users()
        self.kept = {n for _, n in graph.outputs}
        self.owner: dict[Node, Named] = {}
        #: What is part of every operator that reads it: paddings, and widenings of narrow integers.
        self.shared: set[Node] = set()
        for n in reversed(self.order):
            if n not in self.kept and (is_reading(n) or (n.op == "pad" and all(map(self.pads, self.users[n])))):
                self.shared.add(n)

    def pads(self, reader: Node) -> bool:
        """Does this reader of a padding carry it out?"""
        if reader in self.shared and reader.op == "cast":
            return all(map(self.pads, self.users[reader]))
        return reader.op in _PADDED

    def is_free(self, named: Named) -> bool:
        if any(n in self.owner and n not in self.shared for n in named.nodes):
            return False
        return named.name == "split" or self.is_closed(named.output, named.nodes)

    def is_closed(self, output: Node, nodes: frozenset[Node]) -> bool:
        """Nobody else reads what is inside; a reshape is the same value, so what it reshapes may be read too."""
        viewed = output.args[0] if output.op == "reshape" else output
        return all(
            n in (output, viewed)
            or n in self.shared
            or (n not in self.kept and all(u in nodes or is_static(u) for u in self.users[n]))
            for n in nodes
        )

    def reader(self, n: Node) -> Node | None:
        """The one node that reads ``n``, where there is only one."""
        readers = self.users[n]
        alone = len(readers) == 1 and n not in self.kept and readers[0] not in self.owner
        return readers[0] if alone else None

    def is_private(self, n: Node) -> bool:
        return len(self.users[n]) == 1 and n not in self.kept and n not in self.owner and not is_static(n)

    def chain_above(self, n: Node, ops: Iterable[str]) -> set[Node]:
        """``n`` and its operands, as long as they are of ``ops`` (or widenings) and nobody else reads them."""
        claimed: set[Node] = set()
        while (n.op in ops or is_reading(n)) and (self.is_private(n) or n in self.shared):
            claimed.add(n)
            n = n.args[0]
        return claimed

    def chain_below(self, n: Node, length: int) -> list[Node]:
        """The next movements, each the only reader of the one before; empty where there are not so many."""
        found: list[Node] = []
        while len(found) < length and (reader := self.reader(n)) is not None and reader.op in ("reshape", "transpose"):
            found.append(reader)
            n = reader
        return found if len(found) == length else []

    def squeezed(self, n: Node, nodes: set[Node]) -> Node:
        """The result of a reduction without the dimensions it reduced, where that is all that is read of it."""
        wide = [e for e in n.type.shape if e != 1]
        views = [u for u in self.users[n] if u.op == "reshape" and u.type.rank < n.type.rank and u not in self.owner]
        views = [u for u in views if [e for e in u.type.shape if e != 1] == wide]
        if len(views) != 1:
            return n
        nodes.add(views[0])
        return views[0]

"""An incomplete plan: the blocks so far."""

from __future__ import annotations

from collections.abc import Callable, Collection

from edgec.fuse import classify
from edgec.fuse.block import Block, Composer, holds
from edgec.fuse.choice import BlockCosts
from edgec.fuse.decisions import Decisions
from edgec.fuse.guards import conditions
from edgec.fuse.kind import kind_of
from edgec.fuse.modes import Mode
from edgec.ir.graph import Formula, Graph, Node

#: A block has at most this many operators: beyond that a kernel gains nothing, and its code becomes too large.
BLOCK_LIMIT = 64


class Draft:
    """The graph, facts about it, and the blocks so far."""

    def __init__(self, graph: Graph, mode: Mode, prices: BlockCosts) -> None:
        self.graph = graph
        self.mode = mode
        self.prices = prices
        self.decisions = Decisions()
        self.users = graph.users()
        self.order = {n: k for k, n in enumerate(graph.nodes())}
        self.conditions = conditions(graph.nodes())  # of branches: stored in memory, as calls of kernels depend on them
        self.results = graph.results() | {n for n in self.order if n.op == "windows"}  # made to be stored
        self.composer = Composer(mode.updatable)
        self.owner: dict[Node, Node] = {}  # operator -> output of the block that computes it
        self.members: dict[Node, list[Node]] = {}  # output of a block -> what it computes
        self.inlined: dict[Node, set[Node]] = {}  # operator computed in all of its readers -> outputs of their blocks
        self.attentions: set[Node] = set()  # ends of blocks that are attention
        self.aliased: set[Node] = set()  # concat and pad: computed by aliasing

    def own(self, node: Node, output: Node) -> None:
        """``node`` is computed by the block that ends in ``output``."""
        self.owner[node] = output
        self.members.setdefault(output, []).append(node)

    def materialize(self, names: Collection[str]) -> None:
        """Store the results of these nodes of the model in memory, as the user asked (``--materialize``)."""
        for node in self.graph.operations():
            for name in set(self.graph.names(node)).intersection(names):
                if not any(name in self.graph.names(user) for user in self.users[node]):
                    self.results.add(node)
                    self.decisions.decided[node] = f"its result is to be kept in memory (--materialize {name})"

    def readers(self, node: Node) -> set[Node]:
        """Outputs of the blocks (or aliased values) that read ``node``, through operators that are inlined."""
        found: set[Node] = set()
        for user in self.users[node]:
            found |= self.inlined.get(user) or {self.owner.get(user, user)}
        return found

    def block(self, output: Node, nodes: list[Node], *more: Node) -> Block:
        """``nodes`` as one block that ends in ``output``, with the inlined operators that it reads, and ``more``."""
        derived = self.formula(output, nodes, *more)
        return Block(output, tuple(nodes), derived, kind_of(derived))

    def formula(self, output: Node, nodes: list[Node], *more: Node) -> Formula:
        """The formula of `block`."""
        return self.composer.compose(output, self._inside(nodes, more))

    def holds(self, ask: Callable[[Formula], bool], output: Node, nodes: list[Node], *more: Node) -> bool:
        """The answer to a question about the formula of `block` that is the same for all blocks of one likeness."""
        return holds(ask, self.composer.likeness(output, self._inside(nodes, more)))

    def _inside(self, nodes: list[Node], more: Collection[Node]) -> Callable[[Node], bool]:
        own, inlined = {*nodes, *more}, self.inlined
        return lambda n: n in own or n in inlined

    # ---- movement on the way

    def moves(self, node: Node) -> bool:
        if node.op in ("input", "const") or node in self.owner or node in self.results:
            return False
        return classify.is_movement(node)

    def behind(self, node: Node) -> tuple[Node, list[Node]]:
        """The value from which ``node`` is only moved, and the movement from there to ``node``."""
        path: list[Node] = []
        while self.moves(node) and len(node.args) == 1:
            path.append(node)
            node = node.args[0]
        return node, path[::-1]

    def upstream(self, nodes: list[Node]) -> list[Node]:
        """The operands of ``nodes``, and the movement before them."""
        found: list[Node] = []
        for n in nodes:
            for a in n.args:
                found.append(a)
                found += self.behind(a)[1]
        return found

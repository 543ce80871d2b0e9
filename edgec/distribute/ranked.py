"""The graphs of ranks that run one program: one for each, equal but for the weights, with exchanges as operators."""

from __future__ import annotations

from dataclasses import dataclass, field

from edgec.distribute.consecutive import Chain
from edgec.distribute.pieces import Made, piece, sliced
from edgec.distribute.sweep import Chosen
from edgec.ir.graph import Graph, Node, intern, placeholder, topological
from edgec.ops import node


@dataclass(frozen=True)
class Ranked:
    """The graphs of all ranks, and the names of those inputs and outputs of which each has a slice."""

    graphs: tuple[Graph, ...]
    slices: frozenset[str]
    sums: int
    gathers: int


def ranked(chain: Chain, chosen: Chosen, ranks: int) -> Ranked:
    """The graphs of a choice of shardings."""
    names = {n: str(n.attributes["name"]) for n in chain.graph.inputs}
    slices = {names[n] for n, lies in chosen.inputs.items() if not lies.whole}
    slices |= {name for name, n in chain.graph.outputs if not chosen.values[n][1].whole}
    graphs = tuple(_Rank(chain, chosen, rank, ranks).graph() for rank in range(ranks))
    return Ranked(graphs, frozenset(slices), *chosen.exchanged)


@dataclass
class _Rank:
    """The graph of one rank in the making: the nodes of whole values, and of its slices."""

    chain: Chain
    chosen: Chosen
    rank: int
    ranks: int
    whole: dict[Node, Node] = field(default_factory=dict)
    mine: dict[Node, Node] = field(default_factory=dict)
    origin: dict[Node, tuple[str, ...]] = field(default_factory=dict)

    def graph(self) -> Graph:
        given = self.chain.graph
        for n in given.inputs:
            lies = self.chosen.inputs[n]
            if lies.whole:
                self.whole[n] = n
            else:
                assert lies.axis is not None
                self.mine[n] = placeholder(str(n.attributes["name"]), sliced(n.type, lies.axis, self.ranks))
        for value in self.chain.values:
            self._add(value)
        outputs = tuple((name, self.whole.get(n) or self.mine[n]) for name, n in given.outputs)
        there = set(topological(n for _, n in outputs))
        origin = {n: names for n, names in self.origin.items() if n in there}
        inputs = tuple(self.whole.get(n) or self.mine[n] for n in given.inputs)
        return Graph(inputs, outputs, given.name, origin, given.metadata)

    def _add(self, value: Node) -> None:
        sharding, lies = self.chosen.values[value]
        cut = piece(value, self.chain.operands[value], sharding, self.rank, self.ranks)
        leaves = {leaf: self.mine[n] for leaf, (n, _) in cut.taken.items()}
        leaves |= {n: self.whole[n] for n, needed in sharding.needs if needed is None}
        made = self._substituted(cut, leaves)
        if sharding.kind == "slices":
            self.mine[value] = made
            if lies.whole:
                assert sharding.axis is not None
                self.whole[value] = self._named(self._gathered(made, value, sharding.axis), value)
        elif sharding.kind == "sums":
            self.whole[value] = self._named(node("collective", made, kind="sum", ranks=self.ranks), value)
        else:
            self.whole[value] = made

    def _gathered(self, mine: Node, value: Node, axis: int) -> Node:
        """The whole value of the slices of all ranks, which come one after the other."""
        every = node("collective", mine, kind="gather", ranks=self.ranks)
        order = [*range(1, axis + 1), 0, *range(axis + 1, value.type.rank + 1)]
        turned = every if order == sorted(order) else node("transpose", every, perm=tuple(order))
        return node("reshape", turned, shape=value.type.shape)

    def _substituted(self, cut: Made, leaves: dict[Node, Node]) -> Node:
        """The node of a piece from these leaves; its nodes keep the names that they have in the model."""
        new = dict(leaves)
        for n in topological([cut.node], known=frozenset(leaves)):
            if n in new:
                continue
            new[n] = n if not n.args else intern(n.op, tuple(new[a] for a in n.args), n.attributes, n.type)
            known = self.chain.graph.origin.get(cut.origin.get(n, n), ())
            if known and n.args:
                self.origin.setdefault(new[n], known)
        return new[cut.node]

    def _named(self, n: Node, value: Node) -> Node:
        known = self.chain.graph.origin.get(value, ())
        for made in (n, *n.args):
            if known:
                self.origin.setdefault(made, known)
        return n

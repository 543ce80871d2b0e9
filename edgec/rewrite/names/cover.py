"""Covering a graph with names: every operation belongs to exactly one named operator.

Larger composites go first: attention, then what is defined in ``definitions``, then sums of products with what stands
around them, then rearrangements; whatever is left is an operator by itself. Nothing is named whose inside is needed by
others: a named operator has one result; only a split has several. A padding that several convolutions read belongs to
each of them, because that is where it is carried out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from edgec.ir.graph import Graph, Node
from edgec.rewrite.facts import is_static, uniform
from edgec.rewrite.names.patterns import Match, matches, patterns
from edgec.rewrite.names.rearranged import interpolation, rearrangement, repetition, rotary

#: What an attention operator does to its operands and its result by itself: splitting heads, repeating groups of them.
_HEADS = frozenset({"reshape", "transpose", "broadcast"})
#: What happens to scores before their softmax: scale, mask, heads in groups.
_ON_SCORES = ("matmul", "add", "mul", "div", "select", "reshape")
#: Activations that ONNX runtimes compute inside a convolution or a dense layer, by name.
_EPILOGUES = ("relu", "clip", "leaky relu", "sigmoid", "tanh", "hard sigmoid")
_PICKED = ("arg max", "arg min")
_PADDED = ("conv", "pool")
_NORMS = ("layer normalization", "rms normalization")


@dataclass(frozen=True)
class Named:
    """One operator: its name, the node that is its result, and the nodes it stands for."""

    name: str
    output: Node
    nodes: frozenset[Node]


def cover(graph: Graph) -> tuple[Named, ...]:
    """The named operators of a simplified graph, in the order of their results; what is static belongs to none."""
    return _Cover(graph).found()


class _Cover:
    def __init__(self, graph: Graph) -> None:
        self.order = [n for n in graph.operations() if not is_static(n)]
        self.users = graph.users()
        self.kept = {n for _, n in graph.outputs}
        self.owner: dict[Node, Named] = {}
        #: Paddings that are part of every operator that reads them.
        self.shared = {
            n
            for n in self.order
            if n.op == "pad" and n not in self.kept and all(u.op in _PADDED for u in self.users[n])
        }

    def found(self) -> tuple[Named, ...]:
        finders: tuple[Callable[[Node], Named | None], ...] = (
            self.attention, self.rotary, self.contraction, self.composite, self.average, self.rearrangement, self.split,
            self.reduction, self.single,
        )  # fmt: skip
        for find in finders:
            for n in reversed(self.order):
                if n not in self.owner:
                    named = find(n)
                    if named is not None and self.is_free(named):
                        self.owner.update(dict.fromkeys(named.nodes, named))
        return tuple(dict.fromkeys(self.owner[n] for n in self.order))

    # ---- what may be claimed

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
        """``n`` and its operands, as long as they are of ``ops`` and nobody else reads them."""
        claimed: set[Node] = set()
        while n.op in ops and (self.is_private(n) or n in self.shared):
            claimed.add(n)
            n = n.args[0]
        return claimed

    # ---- composites

    def composite(self, n: Node) -> Named | None:
        """What is defined by its mathematics, the largest first."""
        for pattern in patterns():
            match = matches(pattern, n)
            if match is not None and self.is_closed(n, match.nodes):
                nodes, output = set(match.nodes), n
                name = pattern.name
                if name in _PICKED:
                    output = self.squeezed(n, nodes)
                if name in _NORMS:
                    output = self.affine(n, nodes)
                    name = _kind_of_norm(name, match)
                return Named(name, output, frozenset(nodes))
        return None

    def affine(self, n: Node, nodes: set[Node]) -> Node:
        """The result of a normalization with its scale and offset, by constants, where they follow."""
        for op in ("mul", "add"):
            reader = self.reader(n)
            if reader is not None and reader.op == op and any(map(is_static, reader.args)):
                nodes.add(reader)
                n = reader
        return n

    def attention(self, n: Node) -> Named | None:
        """softmax(q k^T scaled and masked) v, with the splitting and joining of heads."""
        if n.op != "matmul":
            return None
        weights, values = n.args
        nodes = {n}
        for pattern in patterns():
            match = matches(pattern, weights) if pattern.name == "softmax" else None
            if match is not None:
                nodes |= match.nodes
                product = self.scores(match.operands["x"], nodes)
                if product is None:
                    return None
                for operand in (*product.args, values):
                    nodes |= self.chain_above(operand, _HEADS)
                output = n
                while (reader := self.reader(output)) is not None and reader.op in _HEADS:
                    nodes.add(reader)
                    output = reader
                return Named("attention", output, frozenset(nodes))
        return None

    def scores(self, n: Node, nodes: set[Node]) -> Node | None:
        """The product of queries and keys below a scale and a mask."""
        for _ in range(4):
            nodes.add(n)
            if n.op == "matmul":
                return None if is_static(n.args[0]) or is_static(n.args[1]) else n
            below = [a for a in n.args if a.op in _ON_SCORES and a.type.elements == n.type.elements]
            if n.op not in _ON_SCORES or not below:
                return None
            n = below[0]
        return None

    # ---- sums of products

    def average(self, n: Node) -> Named | None:
        """A sum over windows or dimensions, and the division by how many they are."""
        if n.op == "mul" and is_static(n.args[1]) and n.args[0].op in ("reduce", "pool"):
            total = n.args[0]
            if total.attributes["combine"] == "add":
                nodes = {n, total} | (self.chain_above(total.args[0], {"pad"}) if total.op == "pool" else set())
                if total.op == "pool":
                    return Named("average pool", n, frozenset(nodes))
                return Named("mean", self.squeezed(n, nodes), frozenset(nodes))
        return None

    def contraction(self, n: Node) -> Named | None:
        """A convolution or a product of matrices: with padding or transposition before, bias and activation after."""
        if n.op not in ("conv", "matmul", "pool"):
            return None
        nodes = {n}
        name = {"conv": "convolution", "matmul": "matrix product", "pool": "pool"}[n.op]
        for operand in n.args:
            nodes |= self.chain_above(operand, {"pad"} if n.op != "matmul" else {"transpose"})
        if n.op == "pool":
            return Named(name, n, frozenset(nodes))
        output = self.epilogue(n, nodes)
        if n.op == "conv":
            moved = self.chain_below(output, 3)
            if moved and (found := rearrangement(moved[-1])) is not None and found[0] == "depth to space":
                nodes.update(moved)
                name, output = "transposed convolution", moved[-1]
                output = self.epilogue(output, nodes)
        output = self.activated(output, nodes)
        return Named(name, output, frozenset(nodes))

    def chain_below(self, n: Node, length: int) -> list[Node]:
        """The next movements, each the only reader of the one before; empty where there are not so many."""
        found: list[Node] = []
        while len(found) < length and (reader := self.reader(n)) is not None and reader.op in ("reshape", "transpose"):
            found.append(reader)
            n = reader
        return found if len(found) == length else []

    def epilogue(self, n: Node, nodes: set[Node]) -> Node:
        """The result after a factor, a bias, and for a convolution another tensor are added to ``n``."""
        reader = self.reader(n)
        if reader is not None and reader.op == "mul" and n.op == "matmul" and uniform(reader.args[1]) is not None:
            nodes.add(reader)  # the alpha of a Gemm
            n, reader = reader, self.reader(reader)
        if reader is not None and reader.op == "add" and any(map(is_static, reader.args)):
            nodes.add(reader)
            n = reader
        return n

    def activated(self, n: Node, nodes: set[Node]) -> Node:
        """The result after an activation that is computed with the sum; a residual is added on the way to one."""
        reader = self.reader(n)
        if reader is not None and reader.op == "add" and any(m.op == "conv" for m in nodes):
            above = self.reader(reader)
            if above is not None and _is_relu(above) and reader.type == n.type:
                nodes.add(reader)
                n, reader = reader, above
        if reader is not None and (reader.op in ("sigmoid", "tanh") or _is_relu(reader)):
            nodes.add(reader)
            second = self.reader(reader)
            if second is not None and second.op == "min" and is_static(second.args[1]):
                nodes.add(second)
                return second
            return reader
        for user in self.users[n]:
            for candidate in filter(None, (user, self.reader(user))):
                for pattern in patterns():
                    match = matches(pattern, candidate) if pattern.name in _EPILOGUES else None
                    if match is None or match.operands["x"] is not n:
                        continue
                    if self.is_closed(candidate, frozenset(nodes | match.nodes)):
                        nodes |= match.nodes
                        return candidate
        return n

    # ---- the rest

    def rotary(self, n: Node) -> Named | None:
        nodes = rotary(n)
        return None if nodes is None else Named("rotary embedding", n, nodes)

    def rearrangement(self, n: Node) -> Named | None:
        found = rearrangement(n) or repetition(n)
        between = interpolation(n)
        if between is not None and not self.is_closed(n, between):
            between = None
        if between is not None:
            return Named("resize", n, between)
        return None if found is None else Named(found[0], n, found[1])

    def split(self, n: Node) -> Named | None:
        """Slices side by side of one tensor: the one operator with several results."""
        if n.op != "slice" or set(n.attributes["steps"]) != {1}:
            return None
        (x,) = n.args
        axes = [d for d, (whole, part) in enumerate(zip(x.type.shape, n.type.shape)) if whole != part]
        siblings = [s for s in self.users[x] if s.op == "slice" and s.args[0] is x and s not in self.owner]
        if len(axes) != 1 or len(siblings) < 2:
            return None
        parts = sorted(siblings, key=lambda s: s.attributes["starts"][axes[0]])
        end = 0
        for s in parts:
            aside = [e for d, e in enumerate(s.type.shape) if d != axes[0]]
            whole = [e for d, e in enumerate(x.type.shape) if d != axes[0]]
            if aside != whole or set(s.attributes["steps"]) != {1} or s.attributes["starts"][axes[0]] != end:
                return None
            end += s.type.shape[axes[0]]
        return Named("split", n, frozenset(parts)) if end == x.type.shape[axes[0]] else None

    def reduction(self, n: Node) -> Named | None:
        nodes = {n}
        return Named("reduce", self.squeezed(n, nodes), frozenset(nodes)) if n.op == "reduce" else None

    def single(self, n: Node) -> Named:
        return Named(n.op, n, frozenset({n}))

    def squeezed(self, n: Node, nodes: set[Node]) -> Node:
        """The result of a reduction without the dimensions it reduced, where that is all that is read of it."""
        wide = [e for e in n.type.shape if e != 1]
        views = [u for u in self.users[n] if u.op == "reshape" and u.type.rank < n.type.rank and u not in self.owner]
        views = [u for u in views if [e for e in u.type.shape if e != 1] == wide]
        if len(views) != 1:
            return n
        nodes.add(views[0])
        return views[0]


def _is_relu(n: Node) -> bool:
    return n.op == "max" and uniform(n.args[1]) == 0


def _kind_of_norm(name: str, match: Match) -> str:
    """Pictures are normalized over positions, rows over features."""
    rank = match.operands["x"].type.rank
    if rank > 2 and match.axes == tuple(range(2, rank)) and name == "layer normalization" and rank > 3:
        return "instance normalization"
    return name

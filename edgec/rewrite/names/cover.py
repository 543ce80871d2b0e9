"""Covering a graph with names: every operation belongs to exactly one named operator.

Larger composites go first: attention, then what is defined in ``definitions``, then sums of products with what stands
around them, then rearrangements; whatever is left is an operator by itself. Nothing is named whose inside is needed by
others: a named operator has one result; only a split has several. A padding that several convolutions read belongs to
each of them, because that is where it is carried out.
"""

from __future__ import annotations

from collections.abc import Callable

from edgec.ir.graph import Graph, Node
from edgec.ir.types import FLOATS
from edgec.rewrite.facts import is_static, uniform
from edgec.rewrite.names.claims import Claims, Named
from edgec.rewrite.names.patterns import Match, matches, patterns
from edgec.rewrite.names.quantized import dequantized, elementwise, is_reading, requantized
from edgec.rewrite.names.rearranged import interpolation, rearrangement, repetition
from edgec.rewrite.names.rotary import rotary

#: What an attention operator does to its operands and its result by itself: splitting heads, repeating groups of them.
_HEADS = frozenset({"reshape", "transpose", "broadcast"})
#: What happens to scores before their softmax: scale, mask, heads in groups.
_ON_SCORES = ("matmul", "add", "mul", "div", "select", "reshape")
#: Activations that ONNX runtimes compute inside a convolution or a dense layer, by name.
_EPILOGUES = ("relu", "clip", "leaky relu", "sigmoid", "tanh", "hard sigmoid")
_PICKED = ("arg max", "arg min")
_NORMS = ("layer normalization", "rms normalization")


def cover(graph: Graph) -> tuple[Named, ...]:
    """The named operators of a simplified graph, in the order of their results; what is static belongs to none."""
    return _Cover(graph).found()


class _Cover(Claims):
    def found(self) -> tuple[Named, ...]:
        finders: tuple[Callable[[Node], Named | None], ...] = (
            self.attention, self.rotary, self.contraction, self.quantized_sum, self.quantized, self.composite,
            self.average, self.rearrangement, self.split, self.reduction, self.dequantized, self.single,
        )  # fmt: skip
        for find in finders:
            for n in reversed(self.order):
                if n not in self.owner:
                    named = find(n)
                    if named is not None and self.is_free(named):
                        self.owner.update(dict.fromkeys(named.nodes, named))
        return tuple(dict.fromkeys(self.owner[n] for n in self.order))

    # ---- composites

    def composite(self, n: Node) -> Named | None:
        """The largest composite, defined by its mathematics, that ends in ``n``; None if there is none."""
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
                    grouped = self.grouped(output, match, nodes)
                    if name == "layer normalization" and grouped is not None:
                        return grouped
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

    def grouped(self, n: Node, match: Match, nodes: set[Node]) -> Named | None:
        """A normalization of pictures whose channels are in groups for that time: [N, groups, rest] and back."""
        x, back = match.operands["x"], self.reader(n)
        if x.op != "reshape" or back is None or back.op != "reshape" or x.type.rank != 3 or match.axes != (2,):
            return None
        picture, groups = x.args[0].type.shape, x.type.shape[1]
        if back.type.shape != picture or len(picture) < 3 or x.type.shape[0] != picture[0] or picture[1] % groups:
            return None
        inside = {*nodes, x, back}
        output = self.affine(back, inside)
        name = "instance normalization" if groups == picture[1] else "group normalization"
        return Named(name, output, frozenset(inside)) if self.is_closed(output, frozenset(inside)) else None

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

    # ---- quantized operators

    def quantized_sum(self, n: Node) -> Named | None:
        """A sum of narrow integers, over dimensions or windows, with its requantization: an average."""
        if n.op not in ("reduce", "pool") or n.attributes["combine"] != "add" or n.type.dtype != "i32":
            return None
        output, after = requantized(n, self)
        nodes = {n, *after, *self.chain_above(n.args[0], {"pad"})}
        if output is n:
            return None
        return Named("average pool" if n.op == "pool" else "mean", self.squeezed(output, nodes), frozenset(nodes))

    def quantized(self, n: Node) -> Named | None:
        found = elementwise(n, self)
        if found is None:
            return None
        name, nodes = found
        if name == "quantize":  # of a softmax of quantized numbers, it is a part
            top = next((a for x in nodes for a in x.args if a not in nodes and not is_static(a)), n)
            match = next((m for p in patterns() if p.name == "softmax" and (m := matches(p, top))), None)
            x = None if match is None else match.operands["x"]
            inside = None if x is None else dequantized(x, self)
            if match is not None and inside is not None and self.is_closed(n, nodes | match.nodes | inside):
                return Named("quantized softmax", n, nodes | match.nodes | inside)
            between = interpolation(top)
            if between is not None and self.is_closed(n, nodes | between):
                return Named("quantized resize", n, nodes | between)
        return Named(name, n, nodes)

    def dequantized(self, n: Node) -> Named | None:
        nodes = dequantized(n, self)
        return None if nodes is None else Named("dequantize", n, nodes)

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
        output, after = requantized(n, self)
        nodes |= after
        if output.type.dtype not in FLOATS:
            return Named(name, output, frozenset(nodes))
        output = self.epilogue(output, nodes)
        if n.op == "conv":
            moved = self.chain_below(output, 3)
            if moved and (found := rearrangement(moved[-1])) is not None and found[0] == "depth to space":
                nodes.update(moved)
                name, output = "transposed convolution", moved[-1]
                output = self.epilogue(output, nodes)
        output = self.activated(output, nodes)
        return Named(name, output, frozenset(nodes))

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
        nodes = next((found for found in rotary(n) if self.is_closed(n, found)), None)
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
        return Named(n.op, n, frozenset({n, *(a for a in n.args if a in self.shared and is_reading(a))}))


def _is_relu(n: Node) -> bool:
    return n.op == "max" and uniform(n.args[1]) == 0


def _kind_of_norm(name: str, match: Match) -> str:
    """Pictures are normalized over positions, rows over features."""
    rank = match.operands["x"].type.rank
    if rank > 2 and match.axes == tuple(range(2, rank)) and name == "layer normalization" and rank > 3:
        return "instance normalization"
    return name

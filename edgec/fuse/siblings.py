"""Sibling contractions: products of one operand with several weights can be one product with the weights side by side.

Queries, keys and values of attention are the case in point. Each becomes a slice of the wider result, which is only an
index in the products that read it; where anything else reads one of them, it is left alone. Whether it pays is a choice
by price: the operand is read once and one kernel starts instead of three, but rows of results lie further apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from edgec import ops
from edgec.fuse import classify
from edgec.fuse.block import Block, Composer
from edgec.fuse.choice import Choice, Prices
from edgec.fuse.kind import kind_of
from edgec.fuse.placement import results_of
from edgec.ir.graph import Graph, Node, constant, rewrite


@dataclass(frozen=True)
class _Head:
    """One sibling: its product, and where it ends: there, or at the constant that is added."""

    product: Node
    end: Node

    @property
    def weights(self) -> np.ndarray:
        return self.product.args[1].value

    @property
    def bias(self) -> np.ndarray:
        """What is added to each column, zeros where nothing is."""
        width = self.weights.shape[1]
        if self.end is self.product:
            return np.zeros(width, self.weights.dtype)
        return _added(self.end, self.product).value.reshape(-1)

    @property
    def block(self) -> Block:
        nodes = tuple(dict.fromkeys((self.product, self.end)))
        derived = Composer().compose(self.end, set(nodes).__contains__)
        return Block(self.end, nodes, derived, kind_of(derived))


def stacked(graph: Graph, prices: Prices, gpu: bool = False) -> tuple[Graph, list[Choice]]:
    """The graph with siblings made one where that is cheaper, and the choices about them.

    On a ``gpu`` it always is: a launch costs more than rows that lie further apart.
    """
    choices: list[Choice] = []
    groups: dict[Node, Sequence[_Head]] = {}  # end of a head -> it and its siblings
    for heads in _groups(graph):
        if gpu:
            groups.update((head.end, heads) for head in heads)
            continue
        one = _one(heads, heads[0].product.args[0])
        whole = _Head(one if one.op == "matmul" else one.args[0], one).block
        ways = {"stacked": [whole], "apart": [h.block for h in heads]}
        choices.append(prices.choose("stack", heads[0].end, ways))
        if choices[-1].taken.name == "stacked":
            groups.update((head.end, heads) for head in heads)
    return (_rebuilt(graph, groups) if groups else graph), choices


def _rebuilt(graph: Graph, groups: Mapping[Node, Sequence[_Head]]) -> Graph:
    names: dict[Node, tuple[str, ...]] = {}

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        if old not in groups:
            return old if args == old.args else ops.node(old.op, *args, **old.attributes)
        heads = groups[old]
        operand = args[0] if old.op == "matmul" else next(a for a in args if a.op == "matmul").args[0]
        one = _one(heads, operand)
        siblings = dict.fromkeys(n for h in heads for node in (h.product, h.end) for n in graph.names(node))
        names.update({one: tuple(siblings)})
        before = sum(h.weights.shape[1] for h in heads[: [h.end for h in heads].index(old)])
        starts = (*(0,) * (old.type.rank - 1), before)
        return ops.node("slice", one, starts=starts, steps=(1,) * old.type.rank, shape=old.type.shape)

    new = rewrite(graph, change)
    return replace(new, origin={**new.origin, **names})


def _one(heads: Sequence[_Head], operand: Node) -> Node:
    """The products of ``operand`` with all weights side by side, and what is added to them."""
    product = ops.node("matmul", operand, constant(np.concatenate([h.weights for h in heads], axis=1)))
    if all(h.end is h.product for h in heads):
        return product
    return ops.node("add", product, constant(np.concatenate([h.bias for h in heads])))


def _groups(graph: Graph) -> list[list[_Head]]:
    """Siblings that only other products read."""
    users = graph.users()
    results = results_of(graph)
    groups: dict[Node, list[_Head]] = {}
    for node in graph.operations():
        if node.op != "matmul" or node.type.dtype != "f32" or not node.type.is_fixed:
            continue
        operand, weights = node.args
        if operand.is_const or not weights.is_const or weights.type.rank != 2:
            continue
        head = _Head(node, _end(node, users))
        if head.end not in results and node not in results and _feeds_products(head.end, users):
            groups.setdefault(operand, []).append(head)
    return [heads for heads in groups.values() if len({h.product for h in heads}) > 1]


def _end(product: Node, users: Mapping[Node, Sequence[Node]]) -> Node:
    if len(users[product]) == 1:
        (reader,) = users[product]
        if reader.op == "add" and reader.type == product.type and _is_bias(_added(reader, product), product):
            return reader
    return product


def _added(add: Node, product: Node) -> Node:
    """What is added to a product."""
    return add.args[1] if add.args[0] is product else add.args[0]


def _is_bias(node: Node, product: Node) -> bool:
    """Is it a constant for each column?"""
    return node.is_const and node.type.shape[-1:] == product.type.shape[-1:] == (node.type.elements,)


def _feeds_products(node: Node, users: Mapping[Node, Sequence[Node]]) -> bool:
    """Is it read by products alone, through movement?"""
    for user in users[node]:
        is_moved = classify.is_movement(user) and len(user.args) == 1 and user.op not in ("pad", "concat")
        if not (_feeds_products(user, users) if is_moved else user.op == "matmul"):
            return False
    return bool(users[node])

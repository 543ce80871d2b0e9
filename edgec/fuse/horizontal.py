"""Sibling contractions: what multiplies one operand by several weights can do so once, by the weights side by side.

Queries, keys and values of attention are the case in point, and the heads of a detector, which look at one picture with
convolutions of their own. What follows every sibling alike (a bias, an activation) follows the one. Each result is a
slice of the wider one, which is only an index or a view in the products that read it; where anything else reads one of
them, it is left alone. Whether it pays is a choice by price: the operand is read once and one kernel starts instead of
three, but rows of results lie further apart. Products of int8 are made one on GPUs alone: on a CPU, blocks of integers
have no price for that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from edgec import ops
from edgec.fuse import classify
from edgec.fuse.block import Block, Composer
from edgec.fuse.choice import BlockCosts, Choice
from edgec.fuse.kind import kind_of
from edgec.ir.graph import Graph, Node, constant, rewrite
from edgec.ir.types import DTYPES

#: What multiplies by weights: the dimension of its result, and that of its weights, that siblings lie along.
STACKED = {"matmul": (-1, 1), "conv": (1, 0)}


@dataclass(frozen=True)
class _Head:
    """One sibling: its product, the addition of its bias if it has one, and the element-wise steps after that.

    The addition of another bias may be ``last``: where int8 has been scaled, the bias is one of floats.
    """

    product: Node
    bias: Node | None
    steps: tuple[Node, ...] = ()
    last: Node | None = None

    @property
    def base(self) -> Node:
        return self.bias or self.product

    @property
    def stepped(self) -> Node:
        return self.steps[-1] if self.steps else self.base

    @property
    def end(self) -> Node:
        return self.last or self.stepped

    @property
    def places(self) -> tuple[Node, ...]:
        """Its nodes in order, and a node again where no bias is added to it: as many as its siblings have."""
        return (self.product, self.base, *self.steps, self.end)

    @property
    def axis(self) -> int:
        return STACKED[self.product.op][0] % self.product.type.rank

    @property
    def width(self) -> int:
        return int(self.product.type.bounds[self.axis])

    def added(self, bias: Node | None, to: Node) -> np.ndarray:
        """``bias`` of each column, with the dimensions of the result from the stacked one on; or zeros."""
        shape = (self.width, *(1 for _ in self.product.type.shape[self.axis + 1 :]))
        if bias is None:
            return np.zeros(shape, DTYPES[to.type.dtype])
        return _added(bias, to).value.reshape(shape)

    @property
    def block(self) -> Block:
        nodes = tuple(dict.fromkeys(self.places))
        derived = Composer().compose(self.end, set(nodes).__contains__)
        return Block(self.end, nodes, derived, kind_of(derived))


def fuse_siblings(graph: Graph, prices: BlockCosts, gpu: bool = False) -> tuple[Graph, list[Choice]]:
    """The graph with siblings made one where that is cheaper, and the choices about them.

    On a ``gpu`` it always is: a launch costs more than rows that lie further apart.
    """
    choices: list[Choice] = []
    groups: dict[Node, Sequence[_Head]] = {}  # end of a head -> it and its siblings
    stacked: dict[Node, Node] = {}  # end of the first of them -> their weights side by side
    for heads in _groups(graph, ("f32", "i32") if gpu else ("f32",)):
        if not gpu:
            one = _one(heads, heads[0].product.args[0])
            stacked[heads[0].end] = one.product.args[1]
            variants = {"stacked": [one.block], "apart": [h.block for h in heads]}
            choices.append(prices.choose("stack", heads[0].end, variants))
        if gpu or choices[-1].taken.name == "stacked":
            groups.update((head.end, heads) for head in heads)
    return (_rebuilt(graph, groups, stacked) if groups else graph), choices


def _rebuilt(graph: Graph, groups: Mapping[Node, Sequence[_Head]], stacked: Mapping[Node, Node]) -> Graph:
    names: dict[Node, tuple[str, ...]] = {}
    new: dict[Node, Node] = {}
    wide: dict[Node, _Head] = {}  # by the end of the first sibling

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        if old in groups:
            new[old] = sliced(old, groups[old])
        else:
            new[old] = old if args == old.args else ops.node(old.op, *args, **old.attributes)
        return new[old]

    def sliced(old: Node, heads: Sequence[_Head]) -> Node:
        first = heads[0]
        if first.end not in wide:
            one = wide[first.end] = _one(heads, new[first.product.args[0]], stacked.get(first.end))
            for whole, *parts in zip(one.places, *(h.places for h in heads)):
                told = (n for p in parts for n in graph.names(p))
                names[whole] = tuple(dict.fromkeys((*names.get(whole, ()), *told)))
        starts = [0] * old.type.rank
        starts[first.axis] = sum(h.width for h in heads[: [h.end for h in heads].index(old)])
        steps = (1,) * old.type.rank
        return ops.node("slice", wide[first.end].end, starts=tuple(starts), steps=steps, shape=old.type.shape)

    rewritten = rewrite(graph, change)
    return replace(rewritten, origin={**rewritten.origin, **names})


def _one(heads: Sequence[_Head], operand: Node, weights: Node | None = None) -> _Head:
    """All heads as one: ``operand`` times all weights side by side (``weights``), and what follows each."""
    first = heads[0]
    if weights is None:
        axis = STACKED[first.product.op][1]
        weights = constant(np.concatenate([_constant(h.product.args[1]).value for h in heads], axis=axis))
        if first.product.args[1].op == "cast":
            weights = ops.node("cast", weights, **first.product.args[1].attributes)
    product = ops.node(first.product.op, operand, weights, **first.product.attributes)
    bias = None
    if any(h.bias is not None for h in heads):
        bias = ops.node("add", product, constant(np.concatenate([h.added(h.bias, h.product) for h in heads])))
    made = {first.base: bias or product}
    for k, step in enumerate(first.steps):
        args = (made.get(a) or _side_by_side(heads, k, n) for n, a in enumerate(step.args))
        made[step] = ops.node(step.op, *args, **step.attributes)
    last = None
    if any(h.last is not None for h in heads):
        biases = constant(np.concatenate([h.added(h.last, h.stepped) for h in heads]))
        last = ops.node("add", made[first.stepped], biases)
    return _Head(product, bias, tuple(made.values())[1:], last)


def _side_by_side(heads: Sequence[_Head], step: int, operand: int) -> Node:
    """The constants that a step of each head takes: one, or one for each column."""
    found = [h.steps[step].args[operand] for h in heads]
    if not _is_of_columns(found[0], heads[0].product):
        return found[0]
    behind = heads[0].product.type.rank - heads[0].axis
    return constant(np.concatenate([f.value for f in found], axis=found[0].type.rank - behind))


def _constant(weights: Node) -> Node:
    """The constant that weights are, or are converted from."""
    return weights.args[0] if weights.op == "cast" else weights


def _groups(graph: Graph, dtypes: Collection[str]) -> Iterator[list[_Head]]:
    """Siblings that only other products read."""
    users = graph.users()
    results = graph.results()
    found: dict[object, list[_Head]] = {}
    for node in graph.operations():
        if node.op not in STACKED or node.type.dtype not in dtypes or not node.type.is_fixed or node in results:
            continue
        operand, weights = node.args[0], _constant(node.args[1])
        if operand.is_const or not weights.is_const or node.attributes.get("groups", 1) != 1:
            continue
        if node.op == "matmul" and weights.type.rank != 2:
            continue
        head = _head(node, users, results)
        if head.end not in results and _feeds_products(head.end, users):
            kernel = weights.type.shape[2:] if node.op == "conv" else ()
            alike = (operand, node.op, node.attrs, weights.type.dtype, kernel, _followed(head))
            found.setdefault(alike, []).append(head)
    yield from (heads for heads in found.values() if len(heads) > 1)


def _head(product: Node, users: Mapping[Node, Sequence[Node]], results: set[Node]) -> _Head:
    """A product, its bias, and the element-wise steps after it, as long as all that follows comes through one value."""
    readers = users[product]
    bias = readers[0] if len(readers) == 1 and _is_bias(readers[0], product, product) else None
    steps: list[Node] = []
    end = bias or product

    def is_free(n: Node) -> bool:
        return _is_scalar(n) or _is_of_columns(n, product)

    while more := until_one(end, users, results, is_free, lambda n: n.type.shape == product.type.shape):
        steps += more
        end = more[-1]
    before = steps[-2] if len(steps) > 1 else bias or product
    if steps and _is_bias(steps[-1], product, before):
        return _Head(product, bias, tuple(steps[:-1]), steps[-1])
    return _Head(product, bias, tuple(steps))


def until_one(
    start: Node,
    users: Mapping[Node, Sequence[Node]],
    results: set[Node],
    is_free: Callable[[Node], bool],
    is_alike: Callable[[Node], bool],
) -> list[Node]:
    """Element-wise operators from ``start`` to the next value that all its uses flow through; none if others are.

    Each ``is_alike`` one that may be among them; their other operands ``is_free`` to be there.
    """
    found: list[Node] = []
    waiting = [] if start in results else list(dict.fromkeys(users[start]))
    inside = {start}
    while waiting:
        ready = [n for n in waiting if all(a in inside or is_free(a) for a in n.args)]
        if not ready or not classify.is_elementwise(ready[0]) or not is_alike(ready[0]):
            return []
        (node, *_) = ready
        waiting.remove(node)
        found.append(node)
        inside.add(node)
        if not waiting:
            return found
        if node in results:
            return []
        waiting += [u for u in dict.fromkeys(users[node]) if u not in waiting]
    return []


def _followed(head: _Head) -> object:
    """Key of the operators after the base of a head: equal for two heads if these are the same but for constants of
    columns."""
    known: dict[Node, object] = {head.base: 0}
    for k, step in enumerate(head.steps, 1):
        known |= {a: ("columns", a.type.dtype, a.type.rank) for a in step.args if _is_of_columns(a, head.product)}
        known[step] = k
    return tuple((s.op, s.attrs, tuple(known.get(a, a) for a in s.args)) for s in head.steps)


def _added(add: Node, to: Node) -> Node:
    """The bias that is added."""
    return add.args[1] if add.args[0] is to else add.args[0]


def _is_bias(add: Node, product: Node, to: Node) -> bool:
    """Does it add a constant for each column of a product, to it or to what follows it?"""
    if add.op != "add" or add.type != to.type or to not in add.args:
        return False
    return _is_of_columns(_added(add, to), product)


def _is_of_columns(node: Node, product: Node) -> bool:
    """Is it a constant for each column of a product?"""
    axis = STACKED[product.op][0] % product.type.rank
    behind = product.type.rank - axis
    is_long = node.is_const and node.type.rank >= behind and node.type.shape[-behind] == product.type.shape[axis]
    return is_long and node.type.elements == product.type.shape[axis]


def _is_scalar(node: Node) -> bool:
    return node.is_const and node.type.elements == 1


def _feeds_products(node: Node, users: Mapping[Node, Sequence[Node]]) -> bool:
    """Is it read by products alone, through movement?"""
    for user in users[node]:
        is_moved = classify.is_movement(user) and len(user.args) == 1 and user.op != "concat"
        if not (_feeds_products(user, users) if is_moved else user.op in STACKED):
            return False
    return bool(users[node])

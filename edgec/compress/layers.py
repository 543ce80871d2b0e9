"""Layers: sums of products by constant weights, and what their operands are stored as."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from edgec import ops
from edgec.ir.evaluate import check_demands, evaluate_node
from edgec.ir.expr import Expr
from edgec.ir.graph import PREPROCESSING, Graph, Node, placeholder
from edgec.ir.sizes import read_sizes
from edgec.ir.types import Type
from edgec.rewrite.affine import value_of
from edgec.rewrite.facts import is_known

Array = np.ndarray
Arrays = Mapping[str, np.ndarray]
#: What only moves or picks elements, so that bytes can be moved or picked instead.
_PICKING = frozenset({"reshape", "transpose", "pad", "slice"})


@dataclass(frozen=True, eq=False)
class Layer:
    """A convolution or matrix product by constant weights. ``source`` is the tensor that is stored to be multiplied:
    what is moved or picked to make the operand."""

    node: Node
    name: str
    side: int  # which operand are the weights
    source: Node
    is_part: bool = False  # one of several products of one node of the model

    @property
    def operand(self) -> Node:
        return self.node.args[1 - self.side]

    @property
    def weights(self) -> Array:
        return value_of(self.node.args[self.side])

    @property
    def summed(self) -> tuple[int, ...]:
        """Dimensions of the weights that are summed over; along the others each result has its own."""
        rank = self.node.args[self.side].type.rank
        if self.node.op == "conv":
            return tuple(range(1, rank))
        return (rank - 2,) if self.side == 1 else (rank - 1,)

    @property
    def channel(self) -> int:
        """The dimension of the result that has its own weights at each place."""
        return 1 if self.node.op == "conv" else self.node.type.rank - (1 if self.side == 1 else 2)

    @property
    def macs(self) -> int:
        """Products of one run."""
        w = self.node.args[self.side].type.shape
        terms = int(np.prod([w[d] for d in self.summed]))
        return terms * int(self.node.type.elements)

    def operand_of(self, value: Array) -> Array:
        """The operand made of a value of the source."""
        steps = []
        operand = self.operand
        while operand is not self.source:
            steps.append(operand)
            (operand,) = operand.args
        for step in reversed(steps):
            value = _of_this_size(step, (value,))
        return value

    def computed(self, x: Array, w: Array) -> Array:
        """The result for other operands."""
        return _of_this_size(self.node, (x, w) if self.side == 1 else (w, x))


def _of_this_size(n: Node, values: tuple[Array, ...]) -> Array:
    """The value of a node for operands of any sizes that it may have."""
    if not n.type.is_fixed:
        types = (Type(a.type.dtype, v.shape) for a, v in zip(n.args, values))
        n = ops.node(n.op, *(placeholder(f"x{k}", t) for k, t in enumerate(types)), **n.attributes)
    return evaluate_node(n, values)


def layers_of(graph: Graph) -> list[Layer]:
    """Every layer of f32, in the order they are computed; preprocessing has none, for its numbers are not learned."""
    found: list[Layer] = []
    prefix = graph.metadata.get(PREPROCESSING)
    taken: dict[str, int] = {}
    for n in graph.operations():
        side = _weights_of(n)
        names = graph.names(n)
        own = [name for name in names if not (prefix and name.startswith(prefix))]
        if side is not None and (own or not names):
            name = own[0] if own else f"{n.op}{len(found)}"
            taken[name] = taken.get(name, 0) + 1  # several products may come from one node
            name = name if taken[name] == 1 else f"{name}#{taken[name]}"
            found.append(Layer(n, name, side, _source(n.args[1 - side])))
    return [replace(x, is_part=True) if taken.get(x.name.partition("#")[0], 1) > 1 else x for x in found]


def _weights_of(n: Node) -> int | None:
    """Position of the constant weights among the operands of a contraction."""
    if n.op not in ("conv", "matmul") or n.type.dtype != "f32":
        return None
    found = [k for k in ((1,) if n.op == "conv" else (1, 0)) if is_known(n.args[k])]
    return found[0] if len(found) == 1 and n.args[found[0]].type.elements else None


def _source(n: Node) -> Node:
    while n.args and (
        (n.op in _PICKING and (n.op != "pad" or n.attributes["value"] == 0) and not _has_open_attributes(n))
        or (n.op == "pool" and n.attributes["combine"] == "max" and n.args[0].op != "pad")
    ):
        n = n.args[0]
    return n


def _has_open_attributes(n: Node) -> bool:
    values = (value if isinstance(value, tuple) else (value,) for _, value in n.attrs)
    return any(isinstance(v, Expr) for value in values for v in value)


class Walk:
    """A graph evaluated on several samples side by side, operator by operator; iterating goes on to the next.

    A value is forgotten after its last reader. Raises ModelError where a demand of the network is not met.
    """

    def __init__(self, graph: Graph, samples: Iterable[Arrays]) -> None:
        self.graph = graph
        self.samples = list(samples)
        self.values: dict[Node, list[Array]] = {}

    def __getitem__(self, n: Node) -> list[Array]:
        """The value of a node for each sample, while it is remembered."""
        return self.values[n]

    def __iter__(self) -> Iterator[Node]:
        graph, values = self.graph, self.values
        left = {n: len(u) for n, u in graph.users().items()}
        kept = {n for _, n in (*graph.outputs, *graph.demands)}
        known: list[dict[Expr, int]] = [{} for _ in self.samples]
        for n in graph.inputs:
            for sizes, sample in zip(known, self.samples):
                read_sizes(n.attributes["name"], n.type, sample[n.attributes["name"]].shape, sizes)
        computed = {n: s for s, n in graph.sizes}
        for n in graph.nodes():
            if n.op == "input":
                values[n] = [np.asarray(sample[n.attributes["name"]]) for sample in self.samples]
            elif n.op == "const":
                values[n] = [n.value] * len(self.samples)
            elif is_known(n):
                values[n] = [value_of(n)] * len(self.samples)
            else:
                values[n] = [evaluate_node(n, [values[a][k] for a in n.args], sizes) for k, sizes in enumerate(known)]
            if n in computed:
                for sizes, value in zip(known, values[n]):
                    sizes[computed[n]] = int(value.reshape(()))
            yield n
            for a in dict.fromkeys(n.args):
                left[a] -= 1
                if not left[a] and a not in kept:
                    del values[a]
        for k in range(len(self.samples)):
            check_demands((message, bool(values[n][k])) for message, n in graph.demands)

    def outputs(self) -> list[dict[str, Array]]:
        """Outputs of the graph by name, for each sample; valid after the last operator."""
        return [{name: self.values[n][k] for name, n in self.graph.outputs} for k in range(len(self.samples))]


def results(graph: Graph, samples: Iterable[Arrays]) -> list[dict[str, Array]]:
    """Outputs by name for each sample."""
    walk = Walk(graph, samples)
    for _ in walk:
        pass
    return walk.outputs()

"""Parameters that retraining changes: the weights of layers, and what is added to the results of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from edgec import ops
from edgec.compress.layers import Layer, layers_of
from edgec.ir.graph import Graph, Node, constant, rewrite
from edgec.rewrite.affine import value_of
from edgec.rewrite.facts import is_static

Array = np.ndarray


@dataclass(frozen=True)
class Parameter:
    """A constant of a graph: the weights of a layer, or its bias."""

    node: Node
    is_bias: bool = False

    @property
    def value(self) -> Array:
        return np.asarray(value_of(self.node), np.float32)


def parameters(graph: Graph) -> dict[str, Parameter]:
    """The parameters in order, by the name of the layer, and for its bias that name with a zero byte behind it.

    A constant that several layers read is that of the first.
    """
    found: dict[Node, tuple[str, Parameter]] = {}
    for layer in layers_of(graph):
        weights, bias = layer.node.args[layer.side], _bias(graph, layer)
        found.setdefault(weights, (layer.name, Parameter(weights)))
        if bias is not None:
            found.setdefault(bias, (f"{layer.name}\0", Parameter(bias, is_bias=True)))
    return dict(found.values())


def result(graph: Graph, layer: Layer) -> Node:
    """The result of a layer with its bias, where it has one."""
    users = graph.users()[layer.node]
    if len(users) == 1 and users[0].op in ("add", "sub") and users[0].type == layer.node.type:
        other = next((a for a in users[0].args if a is not layer.node), None)
        if other is not None and is_static(other):
            return users[0]
    return layer.node


def _bias(graph: Graph, layer: Layer) -> Node | None:
    """The bias of a layer, which is added to its result: floats with one extent at most that is not 1."""
    added = result(graph, layer)
    if added is layer.node:
        return None
    bias = next(a for a in added.args if a is not layer.node)
    return bias if bias.type.dtype == "f32" and bias.type.elements == max(bias.type.shape, default=1) else None


def with_parameters(graph: Graph, values: Mapping[str, Array]) -> Graph:
    """The graph with other values for its parameters, by name."""
    new = {p.node: constant(np.asarray(values[name], np.float32)) for name, p in parameters(graph).items()}

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        if old in new:
            return new[old]
        return old if args == old.args else ops.node(old.op, *args, **old.attributes)

    return rewrite(graph, change)

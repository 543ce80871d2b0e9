"""Caches in one tensor, layer above layer (or keys above values), as inputs and outputs of their own."""

from __future__ import annotations

from dataclasses import replace

from edgec import ops
from edgec.frontend.values import Value, check_table, concat
from edgec.ir.graph import Graph, Node, placeholder, rewrite
from edgec.ir.types import Type

#: Dimensions of a cache of one layer: texts, heads, tokens, features.
RANK = 4


def unstacked(graph: Graph) -> Graph:
    """The graph with an input for each layer of a cache of rank 5, and an output for each layer of a stack."""
    layers = {n: _layers(n) for n in graph.inputs if len(n.type.shape) == RANK + 1}
    if not layers:
        return graph

    def change(node: Node, args: tuple[Node, ...]) -> Node:
        if node in layers:
            return concat([Value(n).unsqueeze(0) for n in layers[node]], 0).node
        if node.op == "slice" and node.args[0] in layers and (found := _layer(node)) is not None:
            return Value(layers[node.args[0]][found]).unsqueeze(0).node
        if node.op == "reshape":
            inner = _inner(args[0])
            return inner if inner.type == node.type else ops.node("reshape", inner, **node.attributes)
        return node if args == node.args else ops.node(node.op, *args, **node.attributes)

    made = rewrite(graph, change)
    outputs: list[tuple[str, Node]] = []
    for name, node in made.outputs:
        parts = _parts(node)
        outputs += [(f"{name}[{k}]", part) for k, part in enumerate(parts)] if parts else [(name, node)]
    inputs = tuple(n for given in graph.inputs for n in layers.get(given, (given,)))
    return replace(made, inputs=inputs, outputs=tuple(outputs))


def _layers(cache: Node) -> tuple[Node, ...]:
    """An input for each layer."""
    kind, name = cache.type, cache.attributes["name"]
    check_table(1000, int(kind.shape[0]))  # every layer is a node
    return tuple(placeholder(f"{name}[{k}]", Type(kind.dtype, kind.shape[1:])) for k in range(int(kind.shape[0])))


def _layer(part: Node) -> int | None:
    """The layer that a slice of a stack takes; None where it takes anything else."""
    first, *others = part.attributes["starts"]
    is_one = part.type.shape == (1, *part.args[0].type.shape[1:]) and isinstance(first, int)
    return first if is_one and not any(others) and set(part.attributes["steps"]) == {1} else None


def _inner(node: Node) -> Node:
    """The value before any reshapes."""
    return _inner(node.args[0]) if node.op == "reshape" else node


def _parts(output: Node) -> list[Node]:
    """The layers that are stacked in an output; none where it is no stack."""
    shape = output.type.shape
    if output.op != "concat" or output.attributes["axis"] != 0 or len(shape) != RANK + 1:
        return []
    parts = [_inner(n) for n in output.args]
    return parts if all(n.type.shape == shape[1:] for n in parts) else []

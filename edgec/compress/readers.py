"""Readers of a layer's operand: layers only, or others too, and whether channels stay separate on the way."""

from __future__ import annotations

from dataclasses import dataclass

from edgec.compress.layers import Layer, layers_of
from edgec.ir.graph import Graph, Node


@dataclass(frozen=True)
class Readers:
    """Layers of one ``kind`` ("conv" or "matmul") behind a tensor, whose channels are dimension 1 (the last, for a
    matrix product) of it and of their operands; ``is_alone``: nobody else reads it."""

    layers: tuple[Layer, ...]
    kind: str
    is_alone: bool


def readers_of(graph: Graph) -> dict[Node, Readers]:
    """The readers of every tensor whose channels are those of all the layers behind it."""
    users = graph.users()
    shown = {n for _, n in (*graph.outputs, *graph.demands, *graph.sizes)}
    layers = {layer.node: layer for layer in layers_of(graph)}
    behind: dict[Node, list[Layer]] = {}
    for layer in layers.values():
        behind.setdefault(layer.source, []).append(layer)
    found = {}
    for source, own in behind.items():
        reached: list[Layer] = []
        is_alone = source not in shown
        stack = [source]
        while stack:
            n = stack.pop()
            for u in users[n]:
                reader = layers.get(u)
                if reader is not None and reader.side == 1 and reader.operand is n:
                    reached.append(reader)
                elif _keeps_channels(u):
                    stack.append(u)
                    is_alone = is_alone and u not in shown
                else:
                    is_alone = False
        kinds = {layer.node.op for layer in own}
        if len(kinds) == 1 and set(reached) == set(own):
            ordered = tuple(sorted(own, key=lambda layer: layer.name))
            found[source] = Readers(ordered, kinds.pop(), is_alone)
    return found


def _keeps_channels(n: Node) -> bool:
    """Does it move or pick elements inside the channels, which stay dimension 1 (or the last, of a reshape)?"""
    if n.op == "reshape":
        return bool(n.type.rank and n.args[0].type.rank) and n.type.shape[-1] == n.args[0].type.shape[-1]
    if n.op == "pad":
        channels = slice(1, 2)
        return n.attributes["value"] == 0 and not any(
            n.attributes["before"][channels] + n.attributes["after"][channels]
        )
    return n.op == "pool" and n.attributes["combine"] == "max" and n.args[0].op != "pad"

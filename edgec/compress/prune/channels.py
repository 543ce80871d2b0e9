"""Channel pruning that removes: whole channels leave every tensor they are part of, and the network gets smaller.

Every channel that a convolution or product makes is an atom. Atoms follow the tensors (`labels`): what adds two tensors
ties their channels together, a concatenation puts them side by side, a depthwise convolution hands them on. What is
tied goes or stays as one; what cannot be followed, or is an output of the network, stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from edgec import ops
from edgec.compress.layers import Arrays, Layer, Walk, layers_of
from edgec.compress.prune.choose import Chosen
from edgec.compress.prune.labels import Along, Labels, labelled
from edgec.compress.prune.layerwise import Plan, pruned
from edgec.compress.prune.operands import as_weights, matrix, prunable, taps
from edgec.compress.prune.scheme import Scheme
from edgec.errors import UsageError
from edgec.ir.graph import Graph, Node, constant, rewrite
from edgec.rewrite.affine import value_of
from edgec.rewrite.facts import is_static

Array = np.ndarray
#: Layers keep a multiple of so many channels, where they have many.
MULTIPLE = 8
#: A layer before and after: its name, the shape of its weights now, the share of them that is gone.
Removed = tuple[str, tuple[int, ...], float]


def without_channels(graph: Graph, share: float, data: Sequence[Arrays]) -> tuple[Graph, list[Removed]]:
    """The network without about ``share`` of its channels, those that add the least to what reads them.

    With data, readers are solved anew for what is left to them. Raises UsageError where no channel can go.
    """
    if graph.sizes or not all(n.type.is_fixed for n in graph.nodes()):
        raise UsageError("channels of a network with open dimensions are not removed", hint="fix them with --shape")
    found = labelled(graph)
    layers = layers_of(graph)
    stays = _chosen(graph, layers, found, share, data)
    if all(stays.values()):
        raise UsageError("no channel can be removed", hint="all of them are outputs, or too few")
    new: dict[Layer, Chosen] = {}
    if data:
        new = _repaired(graph, layers, found, stays, data)
    smaller, made = _rebuilt(graph, layers, found, stays, new)
    removed = []
    for layer in layers:
        now = made[layer.node].args[layer.side].type
        shape = tuple(int(n) for n in now.shape)
        removed.append((layer.name, shape, 1 - now.elements / layer.weights.size))
    return smaller, removed


def _chosen(
    graph: Graph, layers: Sequence[Layer], found: Labels, share: float, data: Sequence[Arrays]
) -> dict[int, bool]:
    """Groups of channels that stay, by their root: among those of the same layers, the least important are removed."""
    scores: dict[int, float] = {}
    makers: dict[int, set[Node]] = {}
    squares = _squares(graph, layers, data)
    for layer in layers:
        source = found.of(layer.operand)
        if source is not None and _reads_all(layer, source):
            each = (matrix(layer).astype(np.float64) ** 2 * squares[layer]).sum(axis=0)
            by_channel = each.reshape(len(source.atoms), -1).sum(axis=1)
            for atom, score in zip(source.atoms, by_channel / max(float(by_channel.mean()), 1e-30)):
                root = found.groups.find(int(atom))
                scores[root] = scores.get(root, 0.0) + float(score)
        made = found.of(layer.node)
        if made is not None:
            for atom in made.atoms:
                makers.setdefault(found.groups.find(int(atom)), set()).add(layer.node)
    stays = dict.fromkeys(makers, True)
    together: dict[frozenset[Node], list[int]] = {}
    for root, nodes in makers.items():
        if not found.groups.is_frozen(root):
            together.setdefault(frozenset(nodes), []).append(root)
    for roots in together.values():
        keep = max(round(len(roots) * (1 - share)), 1)
        if len(roots) >= 2 * MULTIPLE:
            keep = min(-(-keep // MULTIPLE) * MULTIPLE, len(roots))
        for root in sorted(roots, key=lambda r: scores.get(r, 0.0))[: len(roots) - keep]:
            stays[root] = False
    return stays


def _squares(graph: Graph, layers: Sequence[Layer], data: Sequence[Arrays]) -> dict[Layer, Array | float]:
    """The mean square of every column's operand; 1 without data."""
    found: dict[Layer, Array | float] = dict.fromkeys(layers, 1.0)
    if not data:
        return found
    nodes = {layer.node: layer for layer in layers if prunable(layer)}
    walk = Walk(graph, data)
    for n in walk:
        if n in nodes:
            layer = nodes[n]
            axis = _summed_axis(layer)
            values = [
                np.square(np.moveaxis(x, axis, 0).reshape(x.shape[axis], -1)).mean(axis=1) for x in walk[layer.operand]
            ]
            found[layer] = np.mean(values, axis=0).repeat(taps(layer))
    return found


def _summed_axis(layer: Layer) -> int:
    return 1 if layer.node.op == "conv" else int(layer.operand.type.rank) - 1


def _reads_all(layer: Layer, source: Along) -> bool:
    """Is every result a sum over all channels?"""
    grouped = layer.node.op == "conv" and layer.node.attributes["groups"] > 1
    return source.axis == _summed_axis(layer) and not grouped


def _repaired(
    graph: Graph, layers: Sequence[Layer], found: Labels, stays: Mapping[int, bool], data: Sequence[Arrays]
) -> dict[Layer, Chosen]:
    """Layers that lose inputs, solved for the inputs they keep."""
    plans = {}
    for layer in layers:
        source = found.of(layer.operand)
        if source is None or not prunable(layer) or not _reads_all(layer, source):
            continue
        columns = found.kept(source.atoms, stays).repeat(taps(layer))
        if not columns.all():
            plans[layer] = Plan(Scheme("mask", len(matrix(layer))), 0.0, columns[None])
    return pruned(graph, plans, data, "magnitude")[0] if plans else {}


def _rebuilt(
    graph: Graph, layers: Sequence[Layer], found: Labels, stays: Mapping[int, bool], new: Mapping[Layer, Chosen]
) -> tuple[Graph, dict[Node, Node]]:
    """The same operators on what is left."""
    by_node = {layer.node: layer for layer in layers}
    made: dict[Node, Node] = {}

    def change(n: Node, operands: tuple[Node, ...]) -> Node:
        made[n] = changed(n, list(operands))
        return made[n]

    def changed(n: Node, args: list[Node]) -> Node:
        if n.op == "input" or is_static(n):
            return n
        attributes = dict(n.attributes)
        own = found.of(n)
        keep = None if own is None else found.kept(own.atoms, stays)
        if n in by_node:
            layer = by_node[n]
            args[layer.side] = constant(_weights(layer, found, stays, keep, new.get(layer)))
            if n.op == "conv" and attributes["groups"] > 1 and keep is not None:
                attributes["groups"] = attributes["groups"] * int(keep.sum()) // len(keep)
        elif own is not None and keep is not None and not keep.all():
            args = [_cut(a, b, n, own.axis, keep) for a, b in zip(args, n.args)]
            if n.op in ("reshape", "broadcast", "slice"):
                attributes["shape"] = _with(attributes["shape"], own.axis, int(keep.sum()))
            if n.op == "slice":
                source = found.of(n.args[0])
                assert source is not None
                before = found.kept(source.atoms, stays)[: attributes["starts"][source.axis]]
                attributes["starts"] = _with(attributes["starts"], source.axis, int(before.sum()))
        smaller = ops.node(n.op, *args, **attributes)
        if n in by_node and by_node[n] in new and new[by_node[n]].shift is not None:
            shift = np.asarray(new[by_node[n]].shift, np.float32)
            shape = [1] * n.type.rank
            shape[by_node[n].channel] = -1
            smaller = ops.node("add", smaller, constant((shift if keep is None else shift[keep]).reshape(shape)))
        return smaller

    rewritten = rewrite(graph, change)
    nodes = {n: _product(made[n]) if n in by_node else made[n] for n in made}
    return rewritten, nodes


def _product(n: Node) -> Node:
    """The product below what was added to it."""
    return n.args[0] if n.op == "add" else n


def _weights(layer: Layer, found: Labels, stays: Mapping[int, bool], keep: Array | None, new: Chosen | None) -> Array:
    w = layer.weights if new is None else as_weights(layer, new.matrix)
    outputs, inputs = (0, 1) if layer.node.op == "conv" else (w.ndim - 1, w.ndim - 2)
    if keep is not None:
        w = w.compress(keep, axis=outputs)
    source = found.of(layer.operand)
    if source is not None and _reads_all(layer, source):
        w = w.compress(found.kept(source.atoms, stays), axis=inputs)
    return w


def _cut(arg: Node, old: Node, n: Node, axis: int, keep: Array) -> Node:
    """A constant operand along the channels of an element-wise result, without those that are gone."""
    if not is_static(old) or n.op in ("pad", "concat"):
        return arg
    place = axis - (n.type.rank - old.type.rank)
    if place < 0 or old.type.shape[place] == 1:
        return arg
    return constant(np.ascontiguousarray(value_of(old).compress(keep, axis=place)))


def _with(values: Sequence[int], place: int, value: int) -> tuple[int, ...]:
    return (*values[:place], value, *values[place + 1 :])

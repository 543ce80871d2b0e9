"""Moving a scale across a tensor: conv(x, w) = conv(x/s, w*s), with 1/s folded into the operator that computes x.

The equality is that of two proved rules, `scale_the_weights_before` read from right to left and `scale_the_weights`
(and of min(x, b)*s = min(x*s, b*s) for positive s). The network remains the same function; what changes is the error of
int8 with one scale for all of x. The weights before x have one scale per channel, so their error does not change. An
operator that cannot absorb 1/s (a gelu, a normalization that a residual reads too) is followed by a product, which
joins the rounding to int8: one factor per channel in place of one for all.

`equalize` and `smooth` choose s by different papers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from edgec import ops
from edgec.compress import equalize, smooth
from edgec.compress.calibration import BEST, narrowed, nearest, noise, observed, weight_scale
from edgec.compress.layers import Arrays, Layer, Walk
from edgec.compress.readers import Readers, readers_of
from edgec.ir.graph import Graph, Node, constant, rewrite
from edgec.rewrite.facts import is_static
from edgec.rewrite.scaling import scaled

Array = np.ndarray
#: Number of samples to compute scales from and to test them on, and the least fraction of noise that they must remove.
FITTED, JUDGED, WORTH = 6, 2, 0.1
#: By the name of a correction: from what each channel of a tensor and of the weights that meet it reach, scales to try.
WAYS: Mapping[str, Callable[[Array, Array], list[Array]]] = {"equalize": equalize.scales, "smooth": smooth.scales}


@dataclass(frozen=True)
class Moved:
    """The network with other scales: by the name of a layer that reads a scaled tensor, the way they were found."""

    graph: Graph
    taken: dict[str, str]


def rescaled(graph: Graph, samples: Sequence[Arrays], observer: str, allowed: Collection[str]) -> Moved:
    """The same function, with the scales of tensors moved into weights where that makes products of bytes better."""
    ways = [name for name in WAYS if name in allowed]
    readers = {s: own for s, own in readers_of(graph).items() if _is_open(s, own)}
    if not ways or not readers:
        return Moved(graph, {})
    chosen: dict[Node, Array] = {}
    taken: dict[str, str] = {}
    walk = Walk(graph, samples[: FITTED + JUDGED])
    for n in walk:
        if n not in readers:
            continue
        found = _best(graph, n, readers[n].layers, walk[n], observer, ways)
        if found is not None:
            way, chosen[n] = found
            taken.update((layer.name, way) for layer in readers[n].layers)
    return Moved(_applied(graph, readers, chosen), taken) if chosen else Moved(graph, {})


def _is_open(source: Node, own: Readers) -> bool:
    """Can a tensor have scales? Parts that are put together are rounded before, each by one number."""
    return own.kind == "matmul" or (own.is_alone and source.op not in ("input", "concat"))


def _axis(source: Node, own: Sequence[Layer]) -> int:
    return 1 if own[0].node.op == "conv" else source.type.rank - 1


def _shape(source: Node, own: Sequence[Layer]) -> tuple[int, ...]:
    axis = _axis(source, own)
    return tuple(int(n) if d == axis else 1 for d, n in enumerate(source.type.shape))


def _ones(source: Node, own: Sequence[Layer]) -> Array:
    """Scales that are no two alike, to see whether any can be moved."""
    shape = _shape(source, own)
    return (1 + np.arange(np.prod(shape), dtype=np.float32) / 64).reshape(shape)


def _best(
    graph: Graph, source: Node, own: Sequence[Layer], values: Sequence[Array], observer: str, ways: Sequence[str]
) -> tuple[str, Array] | None:
    """The way, and the scales, with the least noise in the layers that read ``source``; None to leave it."""
    axis = _axis(source, own)
    around = tuple(d for d in range(values[0].ndim) if d != axis)
    reached = np.max([np.abs(v).max(axis=around) for v in values[:FITTED]], axis=0).astype(np.float64)
    values = values[-JUDGED:]
    weights = np.max([_reach_of_weights(layer) for layer in own], axis=0)
    shape = _shape(source, own)
    exact = {x: [x.computed(x.operand_of(v), x.weights) for v in values] for x in own}

    def error(s: Array | None) -> float:
        x = [v if s is None else (v / s).astype(np.float32) for v in values]
        pair = observed(graph, source, x, "minmax" if observer == BEST else observer)
        total = 0.0
        for layer in own:
            w = layer.weights if s is None else _widened(layer, s)
            own_scale = weight_scale(layer) if s is None else _scale(w, layer.summed)
            q = nearest(layer, own_scale) if s is None else np.clip(np.rint(w / own_scale), -127, 127)
            narrow = (q * own_scale).astype(np.float32)
            got = [layer.computed(narrowed(layer.operand_of(v), *pair), narrow) for v in x]
            total += noise(exact[layer], got)
        return total

    least = (1 - WORTH) * error(None)
    best = None
    for way in ways:
        for tried in WAYS[way](reached, weights):
            s = tried.astype(np.float32).reshape(shape)
            now = error(s)
            if now < least:
                least, best = now, (way, s)
    return best


def _scale(w: Array, summed: tuple[int, ...]) -> Array:
    scale = (np.abs(w).max(axis=summed, keepdims=True) / 127).astype(np.float32)
    return np.where(scale > 0, scale, np.float32(1))


def _reach_of_weights(layer: Layer) -> Array:
    """The largest weight that each channel of the operand meets."""
    w = np.abs(layer.weights.astype(np.float64))
    if layer.node.op == "matmul":
        return np.asarray(w.max(axis=tuple(d for d in range(w.ndim) if d != w.ndim - 2)))
    groups = layer.node.attributes.get("groups", 1)
    parted = w.reshape(groups, w.shape[0] // groups, w.shape[1], -1)
    return np.asarray(parted.max(axis=(1, 3)).reshape(-1))


def _widened(layer: Layer, s: Array) -> Array:
    """The weights, each times the scale of the channel that it meets."""
    w, flat = layer.weights, s.reshape(-1)
    if layer.node.op == "matmul":
        return np.asarray(w * flat[:, None])
    groups = layer.node.attributes.get("groups", 1)
    parted = w.reshape(groups, w.shape[0] // groups, w.shape[1], *w.shape[2:])
    along = flat.reshape(groups, 1, w.shape[1], *(1,) * (w.ndim - 2))
    return np.asarray((parted * along).reshape(w.shape), np.float32)


class _Users:
    """Numbers of readers in a graph under construction: the tensor that takes a scale counts as read once."""

    def __init__(self, known: dict[Node, int], top: Node) -> None:
        self.known = known
        self.top = top

    def uses(self, node: Node) -> int:
        return 1 if node is self.top else self.known.get(node, 1)


def _carried(source: Node, s: Array, graph: Graph, known: dict[Node, int] | None = None) -> Node | None:
    """``source`` divided by ``s`` without a division; None where something on the way does not let a scale through."""
    if known is None:
        known = {n: len(u) for n, u in graph.users().items()}
    factor = _inverse(s)
    if source.op == "min" and is_static(source.args[1]) and source.args[0].type.shape == source.type.shape:
        x, bound = source.args
        if known.get(x, 1) > 1:
            return None
        inner = _carried(x, s, graph, known)
        return None if inner is None else ops.node("min", inner, ops.node("mul", bound, factor))
    found = scaled(source, factor, _Users(known, source))
    return found if isinstance(found, Node) else None


def _inverse(s: Array) -> Node:
    return constant((1 / s).astype(np.float32))


def _applied(graph: Graph, readers: Mapping[Node, Readers], chosen: Mapping[Node, Array]) -> Graph:
    """The graph with the scales of ``chosen`` tensors moved.

    Where what makes a tensor cannot take them it is divided, in one step with the scale that it is rounded by; where
    others read it too, only for the layers.
    """
    users = {n: len(u) for n, u in graph.users().items()}
    by_node = {layer.node: (layer, chosen[s]) for s, own in readers.items() if s in chosen for layer in own.layers}
    divided: set[Node] = set()
    known: dict[Node, int] = {}
    origin: dict[Node, tuple[str, ...]] = {}

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        given = list(args)
        if old in by_node:
            layer, s = by_node[old]
            given[layer.side] = constant(_widened(layer, s))
            if layer.source in divided:  # of a matrix product
                given[0] = ops.node("mul", given[0], _inverse(s.reshape(-1)))
        made = old if tuple(given) == old.args else ops.node(old.op, *given, **old.attributes)
        known[made] = users[old]
        if old in graph.origin:
            origin[made] = graph.origin[old]
        if old in chosen:
            carried = _carried(made, chosen[old], graph, known) if readers[old].is_alone else None
            if carried is not None:
                _name_alike(made, carried, origin)
                made = carried
            elif readers[old].is_alone:
                made = ops.node("mul", made, _inverse(chosen[old]))
            else:
                divided.add(old)
        return made

    done = rewrite(graph, change)
    return replace(done, origin={**origin, **done.origin})


def _name_alike(old: Node, new: Node, origin: dict[Node, tuple[str, ...]]) -> None:
    """Names for the nodes that took the place of others."""
    while old is not new and old.op == new.op:
        if old in origin:
            origin[new] = origin[old]
        changed = [(a, b) for a, b in zip(old.args, new.args) if a is not b and not is_static(b)]
        for a, b in changed[1:]:
            _name_alike(a, b, origin)
        if not changed:
            break
        old, new = changed[0]

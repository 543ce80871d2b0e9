"""Pruning a network layer by layer, each on what the pruned layers before it give it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from edgec import ops
from edgec.compress.layers import Arrays, Layer, Walk
from edgec.compress.prune.choose import Chosen, Statistics, chosen, repaired
from edgec.compress.prune.operands import as_weights, matrix, rows, taps
from edgec.compress.prune.scheme import Scheme
from edgec.ir.evaluate import evaluate_node
from edgec.ir.graph import Graph, Node, constant, rewrite

Array = np.ndarray


@dataclass(frozen=True)
class Plan:
    """The pruning of one layer: its scheme, and a fraction of zeros or a mask [panels, columns] of what stays."""

    scheme: Scheme
    sparsity: float
    mask: Array | None = None


def spread(layers: Sequence[Layer], scheme: Scheme, sparsity: float) -> dict[Layer, Plan]:
    """Plans by which all layers together have a share of zeros, small ones fewer of them.

    A layer keeps in proportion to the sum of its extents, not to their product (Erdos-Renyi-Kernel: Evci et al.,
    "Rigging the lottery", 2020): first and last layers are small, and what they lose is lost for all others.
    """
    sizes = {layer: layer.weights.size for layer in layers}
    wanted = {layer: float(sum(layer.weights.shape)) for layer in layers}
    left = (1 - sparsity) * sum(sizes.values())
    whole: set[Layer] = set()
    while True:  # what is kept whole leaves less for the others
        others = sum(wanted[layer] for layer in layers if layer not in whole)
        each = (left - sum(sizes[layer] for layer in whole)) / max(others, 1e-30)
        over = {layer for layer in layers if layer not in whole and each * wanted[layer] >= sizes[layer]}
        if not over:
            break
        whole |= over
    return {x: Plan(scheme, 0.0 if x in whole else 1 - each * wanted[x] / sizes[x]) for x in layers}


def replaced(graph: Graph, new: Mapping[Layer, Chosen]) -> Graph:
    """The graph with other weights; what is to be added to a layer's outputs is an addition of its own behind it."""
    layers = {layer.node: layer for layer in new}
    made: dict[Node, Node] = {}

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        if old not in layers:
            return old if args == old.args else ops.node(old.op, *args, **old.attributes)
        layer = layers[old]
        weights, shift = constant(as_weights(layer, new[layer].matrix)), new[layer].shift
        made[old] = ops.node(old.op, *_with_weights(args, layer.side, weights), **old.attributes)
        if shift is not None:
            shape = [1] * old.type.rank
            shape[layer.channel] = -1
            made[old] = ops.node("add", made[old], constant(shift.astype(np.float32).reshape(shape)))
        return made[old]

    changed = rewrite(graph, change)
    origin = dict(changed.origin)
    for n, layer in layers.items():  # so that whoever schedules it can say of which layer it speaks
        origin.setdefault(made[n], (layer.name,))
    return replace(changed, origin=origin)


def _with_weights(args: tuple[Node, ...], side: int, weights: Node) -> tuple[Node, ...]:
    return (*args[:side], weights, *args[side + 1 :])


def by_magnitude(layer: Layer, plan: Plan) -> Chosen:
    w = matrix(layer)
    if plan.mask is not None:
        return repaired(w, plan.mask, plan.scheme, None)
    return chosen(w, taps(layer), plan.scheme, plan.sparsity, "magnitude", None)


def pruned(
    graph: Graph, plans: Mapping[Layer, Plan], samples: Iterable[Arrays], method: str, repair: bool = True
) -> tuple[dict[Layer, Chosen], dict[Layer, float]]:
    """New weights of every layer that has a plan, and the error of its results: mean square, as a part of theirs.

    The dense network and the pruned one are evaluated side by side: a layer's operands are what the pruned layers
    before it give, and what its results should come near to are the dense ones.
    """
    walk = Walk(graph, samples)
    count = len(walk.samples)
    layers = {layer.node: layer for layer in plans}
    found: dict[Layer, Chosen] = {}
    errors: dict[Layer, float] = {}
    pruned: dict[Node, list[Array]] = {}  # where it differs from the dense network
    left = {n: len(u) for n, u in graph.users().items()}
    for n in walk:
        if n in layers:
            layer = layers[n]
            operand = layer.operand
            xs, wanted = pruned.get(operand, walk[operand]), walk[n]
            x, y = rows(layer, xs, wanted)
            new = _of_layer(layer, plans[layer], method, Statistics.of(x, y, matrix(layer)), repair)
            got = x @ new.matrix.T + (0 if new.shift is None else new.shift)
            errors[layer] = float(np.square(y - got).mean() / max(float(y.var(axis=0).mean()), 1e-30))
            found[layer] = new
            pruned[n] = [_result(layer, a, new) for a in xs]
        elif any(a in pruned for a in n.args):
            args = [pruned.get(a) or walk[a] for a in n.args]
            pruned[n] = [evaluate_node(n, [a[k] for a in args]) for k in range(count)]
        for a in dict.fromkeys(n.args):
            left[a] -= 1
            if not left[a]:
                pruned.pop(a, None)
    return found, errors


def _of_layer(layer: Layer, plan: Plan, method: str, statistics: Statistics, repair: bool) -> Chosen:
    if plan.mask is not None:
        return repaired(matrix(layer), plan.mask, plan.scheme, statistics if repair else None)
    return chosen(matrix(layer), taps(layer), plan.scheme, plan.sparsity, method, statistics, repair)


def _result(layer: Layer, x: Array, new: Chosen) -> Array:
    y = layer.computed(x, as_weights(layer, new.matrix))
    if new.shift is None:
        return y
    shape = [1] * y.ndim
    shape[layer.channel] = -1
    return np.asarray(y + new.shift.astype(np.float32).reshape(shape))

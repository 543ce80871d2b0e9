"""Shares of zeros of the layers, so that all together have the share that is asked for, at the least error.

Every layer is pruned by itself at a few levels, by half of the samples, and its error is taken on the others: mean
square, as a part of the results'. What a level costs is that over what is left of the results. Steps from level to
level are taken in the order of cost for each weight that becomes zero, until there are enough zeros: layers of many
weights, and those whose inputs say much the same, lose more than narrow ones.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from edgec.compress.layers import Arrays, Layer, Walk
from edgec.compress.prune.choose import Statistics, chosen
from edgec.compress.prune.layerwise import Plan
from edgec.compress.prune.operands import matrix, rows, taps
from edgec.compress.prune.scheme import Scheme
from edgec.ir.graph import Graph

#: Shares of zeros that a layer may get. With fewer than the first next to no kernel gains.
LEVELS = (0.3, 0.4, 0.5, 0.65, 0.8, 0.9, 0.95)
#: Samples that costs are taken from.
SAMPLES = 48
#: The least that is taken to be left of a layer's results.
LEFT = 1e-3
#: What pruning a layer to a level costs, by layer and level.
Costs = Mapping[Layer, Mapping[float, float]]


def costs(graph: Graph, layers: Sequence[Layer], scheme: Scheme, method: str, data: Sequence[Arrays]) -> Costs:
    """The cost of every level for every layer; ``data`` are two samples or more. Weights are chosen by `wanda`, which
    needs no rounds, in place of `obs`."""
    walk, quick = Walk(graph, data[:SAMPLES]), "wanda" if method == "obs" else method
    nodes = {layer.node: layer for layer in layers}
    found: dict[Layer, dict[float, float]] = {}
    for n in walk:
        if n not in nodes:
            continue
        layer = nodes[n]
        w, xs, ys = matrix(layer), walk[layer.operand], walk[n]
        fitted = Statistics.of(*rows(layer, xs[::2], ys[::2]), w)
        x, y = rows(layer, xs[1::2], ys[1::2])
        spread = max(float(y.var(axis=0).mean()), 1e-30)
        found[layer] = {}
        for level in LEVELS:
            new = chosen(w, taps(layer), scheme, level, quick, fitted)
            got = x @ new.matrix.T + (0 if new.shift is None else new.shift)
            error = float(np.square(y - got).mean()) / spread
            found[layer][level] = error / max(1 - error, LEFT)
    return found


def allotted(costs: Costs, scheme: Scheme, sparsity: float, among: Collection[Layer]) -> dict[Layer, Plan]:
    """Plans of the layers ``among`` those with ``costs`` that lose any, so that ``sparsity`` of the weights of all are
    zeros; fewer where the highest level of each comes to less."""
    sizes = {layer: layer.weights.size for layer in costs}
    left = sparsity * sum(sizes.values())
    now = dict.fromkeys((layer for layer in costs if layer in among), 0.0)
    while left >= 1:
        steps = [
            ((cost - costs[layer].get(at, 0.0)) / ((level - at) * sizes[layer]), k, level)
            for k, (layer, at) in enumerate(now.items())
            for level, cost in costs[layer].items()
            if level > at
        ]
        if not steps:
            break
        _, k, level = min(steps)
        layer = list(now)[k]
        part = min(level, max(now[layer] + left / sizes[layer], LEVELS[0]))
        left -= (part - now[layer]) * sizes[layer]
        now[layer] = part if part < level else level
    return {layer: Plan(scheme, share) for layer, share in now.items() if share}

"""Contribution of each layer to the error of the outputs.

Where that is cheap enough, every layer is put into bytes alone, behind cached values of floats, and the rest of the
network computed again: what arrives at the outputs is what it adds. In larger networks the noise of the layer itself
stands for it, which one walk over the data has measured (`calibration`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from edgec.compress.calibration import Calibration, narrowed, noise
from edgec.compress.layers import Arrays, Layer, Walk
from edgec.ir.evaluate import evaluate_node
from edgec.ir.graph import Graph, Node

Array = np.ndarray
#: Samples that layers are measured on alone, and how many products all that may take.
SAMPLES, PRODUCTS = 2, 1 << 33

Errors = Mapping[Layer, float]


def added(graph: Graph, layers: Sequence[Layer], samples: Sequence[Arrays], found: Calibration) -> tuple[Errors, str]:
    """The noise over the signal that each layer brings, and where that was measured: "outputs" or "layer"."""
    used = samples[:SAMPLES]
    if len(layers) * sum(layer.macs for layer in layers) * len(used) > PRODUCTS or not all(
        n.type.is_fixed for n in graph.nodes()
    ):
        return {layer: found.numbers[layer].noise for layer in layers}, "layer"
    return dict(_alone(graph, layers, used, found)), "outputs"


def _alone(
    graph: Graph, layers: Sequence[Layer], samples: Sequence[Arrays], found: Calibration
) -> Iterable[tuple[Layer, float]]:
    remembered = [_everything(graph, sample) for sample in samples]
    order = graph.nodes()
    for layer in layers:
        numbers = found.numbers[layer]
        weights = (numbers.integers.astype(np.float32) * numbers.scale).astype(np.float32)
        wanted: list[Array] = []
        got: list[Array] = []
        for values in remembered:
            y = layer.computed(narrowed(values[layer.operand], *found.ranges[layer.source]), weights)
            y = y if numbers.shift is None else y + numbers.shift
            changed = _again(order, values, layer.node, y)
            for _, n in graph.outputs:
                if values[n].dtype.kind == "f":
                    wanted.append(values[n])
                    got.append(changed(n))
        yield layer, noise(wanted, got)


def _everything(graph: Graph, sample: Arrays) -> dict[Node, Array]:
    walk = Walk(graph, [sample])
    return {n: walk[n][0] for n in walk}


def _again(order: Sequence[Node], values: Mapping[Node, Array], at: Node, y: Array) -> Callable[[Node], Array]:
    """Values when one node's is another: computed again only where that is felt."""
    new = {at: y}
    for n in order:
        if n is not at and any(a in new for a in n.args):
            new[n] = evaluate_node(n, [new.get(a, values[a]) for a in n.args])
    return lambda n: new.get(n, values[n])

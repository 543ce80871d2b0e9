"""Quantization to 8 bits, as pairs of quantizing and dequantizing around what is multiplied; laws do the rest.

Weights get a scale a channel and no zero point; what they are multiplied by is stored as bytes with one scale and
one zero point, by the range that an observer finds in calibration data. The pairs are ordinary operators: products
of bytes are what the laws of quantized arithmetic make of them.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from edgec import ops
from edgec.compress.calibration import Calibration
from edgec.compress.layers import Layer, layers_of
from edgec.compress.readers import readers_of
from edgec.compress.scales import remade
from edgec.ir.graph import Graph, Node, constant


def quantized(graph: Graph, chosen: Collection[Layer], found: Calibration) -> Graph:
    """``graph`` with the ``chosen`` layers on bytes.

    A tensor that only layers in bytes multiply is stored as bytes for everyone who reads it, which saves most of what
    a residual moves. One that a layer in floats reads too stays as it is for all but those; so does one that matrix
    products read and others too: what runs through a transformer is small, and would be rounded again in every block.
    """
    layers = {layer.node: layer for layer in chosen}
    both = {layer.source for layer in layers_of(graph) if layer.node not in layers}
    both |= {source for source, own in readers_of(graph).items() if own.kind == "matmul" and not own.is_alone}
    stored = {layer.source for layer in chosen} - both
    new: dict[Node, Node] = {}
    seen: dict[Node, Node] = {}  # as readers see it: quantized where it is to be
    for n in graph.nodes():
        args = [seen[a] for a in n.args]
        layer = layers.get(n)
        if layer is not None:
            args[layer.side] = _weights(layer, found)
            if layer.source in both:
                args[1 - layer.side] = _through(layer.operand, layer.source, found, new)
        new[n] = n if tuple(args) == n.args else ops.node(n.op, *args, **n.attributes)
        if layer is not None and (shift := found.numbers[layer].shift) is not None:
            new[n] = ops.node("add", new[n], constant(shift))
        seen[n] = _pair(new[n], *found.ranges[n]) if n in stored else new[n]
    return remade(graph, new)


def _through(operand: Node, source: Node, found: Calibration, new: dict[Node, Node]) -> Node:
    """The operand made of the quantized source, for one reader alone."""
    if operand is source:
        return _pair(new[source], *found.ranges[source])
    return ops.node(operand.op, _through(operand.args[0], source, found, new), **operand.attributes)


def _pair(x: Node, scale: float, zero: int) -> Node:
    """x quantized to bytes and back."""
    s, z = (constant(np.array(v, np.float32)) for v in (scale, zero))
    y = ops.node("add", ops.node("round", ops.node("div", x, s)), z)
    low, high = (constant(np.array(v, np.float32)) for v in (0, 255))
    q = ops.node("cast", ops.node("min", ops.node("max", y, low), high), to="u8")
    return ops.node("mul", ops.node("sub", ops.node("cast", q, to="f32"), z), s)


def _weights(layer: Layer, found: Calibration) -> Node:
    """The weights as bytes with a scale for each channel of the result."""
    numbers = found.numbers[layer]
    return ops.node("mul", ops.node("cast", constant(numbers.integers), to="f32"), constant(numbers.scale))

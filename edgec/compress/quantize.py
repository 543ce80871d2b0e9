"""Quantization to 8 bits, as pairs of quantizing and dequantizing around what is multiplied; rules do the rest.

Weights get a scale a channel and no zero point; what they are multiplied by is stored as bytes with one scale and
one zero point, by the range that an observer finds in calibration data. The pairs are ordinary operators: products
of bytes are what the rules of quantized arithmetic make of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np

from edgec import ops
from edgec.compress.calibration import Calibration
from edgec.compress.layers import Layer, layers_of
from edgec.compress.readers import readers_of
from edgec.ir.graph import Graph, Node, constant, rewrite


def quantized(
    graph: Graph,
    chosen: Collection[Layer],
    found: Calibration,
    halves: Collection[Layer] = (),
    pair: Callable[[Node, float, int], Node] | None = None,
    weights: Callable[[Layer, Calibration], Node] | None = None,
) -> Graph:
    """``graph`` with the ``chosen`` layers on bytes, and with what ``halves`` multiply rounded to bf16.

    ``pair`` and ``weights`` make the rounded operand and weights of a layer in place of bytes.

    A tensor that only layers in bytes multiply is stored as bytes for everyone who reads it, which saves most of what
    a residual moves. One that a layer in floats reads too stays as it is for all but those; so does one that matrix
    products read and others too: what runs through a transformer is small, and would be rounded again in every block.
    """
    pair, weights = pair or _pair, weights or _weights
    layers = {layer.node: layer for layer in chosen}
    both = {layer.source for layer in layers_of(graph) if layer.node not in layers}
    both |= {source for source, own in readers_of(graph).items() if own.kind == "matmul" and not own.is_alone}
    stored = {layer.source for layer in chosen} - both
    rounded = {layer.node for layer in halves}
    made: dict[Node, Node] = {}

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        given = [pair(a, *found.ranges[o]) if o in stored else a for o, a in zip(old.args, args)]
        layer = layers.get(old)
        if layer is not None:
            given[layer.side] = weights(layer, found)
            if layer.source in both:
                given[1 - layer.side] = _through(layer.operand, layer.source, found, made, pair)
        elif old in rounded:
            given = [_half(a) for a in given]
        new = old if tuple(given) == old.args else ops.node(old.op, *given, **old.attributes)
        if layer is not None and (shift := found.numbers[layer].shift) is not None:
            new = ops.node("add", new, constant(shift))
        made[old] = new
        return new

    return rewrite(graph, change)


def _through(
    operand: Node, source: Node, found: Calibration, made: dict[Node, Node], pair: Callable[[Node, float, int], Node]
) -> Node:
    """The operand made of the quantized source, for one reader alone."""
    if operand is source:
        return pair(made[source], *found.ranges[source])
    return ops.node(operand.op, _through(operand.args[0], source, found, made, pair), **operand.attributes)


def _pair(x: Node, scale: float, zero: int) -> Node:
    """x quantized to bytes and back; a product by the inverse of the scale costs less than a quotient."""
    s, z, inverse = (constant(np.array(v, np.float32)) for v in (scale, zero, 1 / np.float64(np.float32(scale))))
    y = ops.node("add", ops.node("round", ops.node("mul", x, inverse)), z)
    low, high = (constant(np.array(v, np.float32)) for v in (0, 255))
    q = ops.node("cast", ops.node("min", ops.node("max", y, low), high), to="u8")
    return ops.node("mul", ops.node("sub", ops.node("cast", q, to="f32"), z), s)


def _half(x: Node) -> Node:
    """x with the digits that bf16 has."""
    return ops.node("cast", ops.node("cast", x, to="bf16"), to="f32")


def _weights(layer: Layer, found: Calibration) -> Node:
    """The weights as bytes with a scale for each channel of the result."""
    numbers = found.numbers[layer]
    return ops.node("mul", ops.node("cast", constant(numbers.integers), to="f32"), constant(numbers.scale))

"""Weights as bytes at build time, operands as bytes when the network runs: nothing has to be known of data before.

Each row of a matrix product (each picture of a convolution) has the scale that its own largest value asks for, so
an outlier costs its own row only (Yao et al. 2022, token-wise quantization). The price is a look at the operand first.
An operand that is never negative (after a ReLU, say) has all 256 levels for what it can be.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from edgec import ops
from edgec.compress.calibration import nearest, weight_scale
from edgec.compress.layers import Layer
from edgec.ir.graph import Graph, Node, constant, rewrite
from edgec.rewrite.facts import least

#: The least step, so that rows of zeros are divided by something.
_LEAST = 2.0**-100


def dynamic(graph: Graph, chosen: Collection[Layer]) -> Graph:
    """``graph`` with the ``chosen`` layers on bytes whose scales are found at run time."""
    layers = {layer.node: layer for layer in chosen}

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        layer = layers.get(old)
        if layer is not None:
            return _product(layer, args[1 - layer.side])
        return old if args == old.args else ops.node(old.op, *args, **old.attributes)

    return rewrite(graph, change)


def _product(layer: Layer, x: Node) -> Node:
    own = weight_scale(layer)
    weights = ops.node("cast", constant(nearest(layer, own).astype(np.int8)), to="i32")
    chain = []
    if layer.node.op == "conv":  # what is padded is looked at without the zeros, and stored so
        while x.op == "pad" and x.attributes["value"] == 0:
            chain.append(x)
            (x,) = x.args
    axes = _shared_by(layer, x.type.rank)
    # Bytes without a sign, as machines multiply them by bytes with one: 128 more, where an operand may be negative.
    middle = 0 if least(x) >= 0 else 128
    magnitude = ops.node("abs", x) if middle else x
    size = ops.node("reduce", magnitude, combine="max", axes=axes)
    kept = tuple(1 if d in axes else n for d, n in enumerate(x.type.shape))
    size = ops.node("reshape", size, shape=kept) if size.type.shape != kept else size
    scale = ops.node("max", ops.node("mul", size, _number(1 / (255 - middle))), _number(_LEAST))
    level = ops.node("round", ops.node("div", x, scale))
    level = ops.node("add", level, _number(middle)) if middle else level
    q = ops.node("cast", ops.node("min", ops.node("max", level, _number(middle and 1)), _number(255)), to="u8")
    for pad in reversed(chain):
        q = ops.node("pad", q, **{**pad.attributes, "value": middle})
    centered = ops.node("cast", q, to="i32")
    centered = ops.node("sub", centered, constant(np.array(middle, np.int32))) if middle else centered
    operands = (centered, weights) if layer.side == 1 else (weights, centered)
    total = ops.node("cast", ops.node(layer.node.op, *operands, **layer.node.attributes), to="f32")
    rank = layer.node.type.rank
    shape = [1] * rank
    shape[layer.channel] = int(layer.node.type.shape[layer.channel])
    columns = own if layer.node.op == "matmul" else own.reshape(shape)
    return ops.node("mul", ops.node("mul", total, scale), constant(np.ascontiguousarray(columns)))


def _number(value: float) -> Node:
    return constant(np.array(value, np.float32))


def _shared_by(layer: Layer, rank: int) -> tuple[int, ...]:
    """Dimensions of the operand that share a scale: what is summed, and the places of a picture."""
    if layer.node.op == "conv":
        return tuple(range(1, rank))
    return (rank - 1,) if layer.side == 1 else (rank - 2,)

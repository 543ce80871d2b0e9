"""Weights of four bits, in groups along the sum: rounded where they stand, as floats that few values are taken by.

The schedule finds such weights by their values, and keeps them as codes with a scale a group.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from edgec import ops
from edgec.compress.layers import Layer
from edgec.ir.graph import Graph, Node, constant, rewrite

#: Shares of the range of a group that its sixteen values may cover; what loses least is taken.
SHARES = (1.0, 0.93, 0.86, 0.79)


def may_be_four_bits(layer: Layer, group: int) -> bool:
    """Is it a matrix product whose sum consists of whole groups?"""
    shape = layer.node.args[layer.side].type.shape
    return layer.node.op == "matmul" and int(shape[layer.summed[0]]) % group == 0


def four_bits(graph: Graph, chosen: Collection[Layer], group: int) -> Graph:
    """``graph`` with the weights of the ``chosen`` layers at the nearest of sixteen values a group."""
    layers = {layer.node: layer for layer in chosen}

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        layer = layers.get(old)
        if layer is not None:
            own = constant(rounded(layer.weights, layer.summed[0], group))
            args = (*args[: layer.side], own, *args[layer.side + 1 :])
        return old if args == old.args else ops.node(old.op, *args, **old.attributes)

    return rewrite(graph, change)


def rounded(weights: np.ndarray, axis: int, group: int) -> np.ndarray:
    """The nearest of -8..7 scales, for each group of so many elements along a dimension.

    The element of largest magnitude is -8 scales, or near it where a smaller scale loses less in the mean square.
    """
    w = np.moveaxis(weights, axis, -1)
    v = w.reshape(*w.shape[:-1], -1, group).astype(np.float32)
    far = np.take_along_axis(v, np.abs(v).argmax(-1)[..., None], -1)
    best = np.zeros_like(v)
    least = np.full(far.shape, np.inf, np.float32)
    for share in SHARES:
        scale = far * np.float32(-share / 8)
        scale[scale == 0] = 1
        near = np.clip(np.rint(v / scale), -8, 7) * scale
        error = np.square(near - v).sum(-1, keepdims=True)
        best = np.where(error < least, near, best)
        least = np.minimum(error, least)
    return np.ascontiguousarray(np.moveaxis(best.reshape(w.shape), -1, axis))

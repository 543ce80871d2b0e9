"""Weights of four bits: codes with a scale for each group along the sum."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from edgec import ops
from edgec.compress.layers import Layer
from edgec.ir.graph import Graph, Node, constant, rewrite
from edgec.ir.types import DTYPES

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
            codes, scale = coded(layer.weights, layer.summed[0], group)
            own = ops.node("dequantize", constant(codes), constant(scale), axis=layer.summed[0], block=group)
            args = (*args[: layer.side], own, *args[layer.side + 1 :])
        return old if args == old.args else ops.node(old.op, *args, **old.attributes)

    return rewrite(graph, change)


def coded(weights: np.ndarray, axis: int, group: int) -> tuple[np.ndarray, np.ndarray]:
    """(codes -8..7, scales in fp32) of weights, for each group of so many elements along a dimension.

    The element of largest magnitude is -8 scales, or near it where a smaller scale loses less in the mean square.
    """
    w = np.moveaxis(weights, axis, -1)
    v = w.reshape(*w.shape[:-1], -1, group).astype(np.float32)
    far = np.take_along_axis(v, np.abs(v).argmax(-1)[..., None], -1)
    codes, scales = np.zeros(v.shape, np.int8), np.ones_like(far)
    least = np.full(far.shape, np.inf, np.float32)
    for share in SHARES:
        scale = far * np.float32(-share / 8)
        scale[scale == 0] = 1
        near = np.clip(np.rint(v / scale), -8, 7)
        error = np.square(near * scale - v).sum(-1, keepdims=True)
        codes = np.where(error < least, near.astype(np.int8), codes)
        scales = np.where(error < least, scale, scales)
        least = np.minimum(error, least)
    found = (np.moveaxis(x, -1, axis) for x in (codes.reshape(w.shape).astype(DTYPES["i4"]), scales[..., 0]))
    whole, factors = map(np.ascontiguousarray, found)
    return whole, factors


def rounded(weights: np.ndarray, axis: int, group: int) -> np.ndarray:
    """Weights as their codes and scales have them."""
    codes, scales = coded(weights, axis, group)
    result: np.ndarray = codes.astype(np.float32) * np.repeat(scales, group, axis)
    return result

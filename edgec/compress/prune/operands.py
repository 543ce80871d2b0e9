"""Layers as matrices: weights [outputs, columns], and rows of what they are multiplied with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgec.compress.layers import Layer, layers_of
from edgec.ir.graph import Graph, Node

Array = np.ndarray
#: Rows of calibration data that statistics are made of.
ROWS = 8192
#: Layers with fewer outputs or columns than this are left as they are: they cost little and decide much.
FEWEST = 8


def prunable(layer: Layer) -> bool:
    """Is it a plain convolution, or a product by one matrix to the right, and not a small one?"""
    w = layer.weights
    if layer.node.op == "conv":
        plain = layer.node.attributes["groups"] == 1
    else:
        plain = layer.side == 1 and w.ndim == 2
    return bool(plain and min(matrix(layer).shape) >= FEWEST)


def candidates(graph: Graph) -> list[Layer]:
    """The layers that may be pruned: all that are `prunable` but the last ones, whose results no other layer reads, as
    an error there is one of the answers; these too where there are no others."""
    found = layers_of(graph)
    read: set[Node] = set()  # what a layer's result is made of
    for layer in found:
        stack = list(layer.node.args)
        while stack:
            n = stack.pop()
            if n not in read:
                read.add(n)
                stack += n.args
    able = [layer for layer in found if prunable(layer)]
    return [layer for layer in able if layer.node in read] or able


def matrix(layer: Layer) -> Array:
    """[outputs, columns], columns ordered by input, then tap."""
    w = layer.weights
    return w.reshape(w.shape[0], -1) if layer.node.op == "conv" else w.T


def taps(layer: Layer) -> int:
    return int(np.prod(layer.weights.shape[2:])) if layer.node.op == "conv" else 1


def as_weights(layer: Layer, m: Array) -> Array:
    """The matrix in the layout of the layer's weights."""
    m = m.astype(np.float32)
    return m.reshape(layer.weights.shape) if layer.node.op == "conv" else np.ascontiguousarray(m.T)


def rows(layer: Layer, xs: Sequence[Array], ys: Sequence[Array], most: int = ROWS) -> tuple[Array, Array]:
    """([rows, columns], [rows, outputs]): of some places of the result, what they are sums of, and what they are."""
    each = max(1, most // max(len(xs), 1))
    pairs = [_of_one(layer, x, y, each, k) for k, (x, y) in enumerate(zip(xs, ys))]
    return np.concatenate([a for a, _ in pairs]), np.concatenate([b for _, b in pairs])


def _of_one(layer: Layer, x: Array, y: Array, most: int, seed: int) -> tuple[Array, Array]:
    if layer.node.op != "conv":
        flat, result = x.reshape(-1, x.shape[-1]), y.reshape(-1, y.shape[-1])
        picked = _some(len(flat), most, seed)
        return flat[picked], result[picked]
    attributes = layer.node.attributes
    kernel, strides, dilations = layer.weights.shape[2:], attributes["strides"], attributes["dilations"]
    space = y.shape[2:]
    picked = _some(y.shape[0] * int(np.prod(space)), most, seed)
    n, *places = np.unravel_index(picked, (y.shape[0], *space))
    inside = np.indices(kernel).reshape(len(kernel), -1)
    at = [p[:, None] * s + d * i for p, s, d, i in zip(places, strides, dilations, inside)]
    values = np.moveaxis(x, 1, -1)[(n[:, None], *at)]  # [rows, taps, channels]
    return values.transpose(0, 2, 1).reshape(len(picked), -1), np.moveaxis(y, 1, -1)[(n, *places)]


def _some(count: int, most: int, seed: int) -> Array:
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng(seed).choice(count, most, replace=False))

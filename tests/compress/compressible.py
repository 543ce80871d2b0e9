"""Small networks to compress: one whose layer cannot be bytes, and one whose outliers can be moved away."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from edgec import ops
from edgec.ir.graph import Graph, Node, constant, placeholder
from edgec.ir.types import Type
from edgec.rewrite import simplify

PLAIN = {"strides": (1, 1), "dilations": (1, 1)}


def _conv(x: Node, outputs: int, random: np.random.Generator, scale: np.ndarray | float = 1.0) -> Node:
    """A convolution of 3 x 3 with a bias; ``scale`` is that of each input channel's weights."""
    inputs = x.type.shape[1]
    w = random.standard_normal((outputs, inputs, 3, 3)) / np.sqrt(9 * inputs) * np.reshape(scale, (1, -1, 1, 1))
    padded = ops.node("pad", x, before=(0, 0, 1, 1), after=(0, 0, 1, 1), value=0.0)
    bias = constant(random.standard_normal((1, outputs, 1, 1)).astype(np.float32) * 0.1)
    return ops.node("add", ops.node("conv", padded, constant(w.astype(np.float32)), **PLAIN), bias)


def _rectified(x: Node) -> Node:
    return ops.node("max", x, constant(np.zeros((), np.float32)))


def hostile(channels: int = 8) -> tuple[Graph, str]:
    """(network, the layer that cannot be bytes): of what it reads, one channel is a thousand times the others, and
    its weights are as much smaller. A tanh before it keeps that from being moved away."""
    random = np.random.default_rng(3)
    x = placeholder("x", Type("f32", (1, 4, 12, 12)))
    y = _rectified(_conv(x, channels, random))
    y = ops.node("tanh", _conv(y, channels, random))
    large = np.ones((1, channels, 1, 1), np.float32)
    large[0, 2] = 1000.0
    y = ops.node("mul", y, constant(large))
    y = ops.node("add", y, ops.node("mul", ops.node("tanh", y), constant(np.array(1e-3, np.float32))))
    bad = _conv(y, channels, random, 1 / large)
    y = _rectified(_conv(_rectified(bad), channels, random))
    y = ops.node("reshape", ops.node("reduce", y, combine="add", axes=(2, 3)), shape=(1, channels))
    w = constant(random.standard_normal((channels, 5)).astype(np.float32))
    graph, _ = simplify(Graph((x,), (("y", ops.node("matmul", y, w)),)))
    convolutions = [n for n in graph.operations() if n.op == "conv"]
    origin = {n: (name,) for n, name in zip(convolutions, ("first", "second", "hostile", "fourth"))}
    return Graph(graph.inputs, graph.outputs, graph.name, origin), "hostile"


def uneven(channels: int = 8) -> Graph:
    """Rectified channels of very different sizes, with weights that make up for it: the scales can be moved."""
    random = np.random.default_rng(4)
    x = placeholder("x", Type("f32", (1, 4, 12, 12)))
    large = np.float32(2.0) ** np.arange(channels)
    w = random.standard_normal((channels, 4, 3, 3)) * large.reshape(-1, 1, 1, 1) / 6
    y = _rectified(ops.node("conv", x, constant(w.astype(np.float32)), **PLAIN))
    y = _rectified(_conv(y, channels, random, 1 / large))
    y = _conv(y, 5, random)
    return simplify(Graph((x,), (("y", y),)))[0]


def data(graph: Graph, folder: Path, count: int = 8) -> Path:
    """Calibration data: standard normal inputs, which is what the weights were made for."""
    random = np.random.default_rng(5)
    (x,) = graph.inputs
    path = folder / "data.npz"
    np.savez(path, x=random.standard_normal((count, *x.type.shape)).astype(np.float32))
    return path

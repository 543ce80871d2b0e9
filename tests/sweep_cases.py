"""Gradients of weights of depthwise convolutions: long sums of few results, around the edges of tiles and vectors."""

from __future__ import annotations

from collections.abc import Iterator

from small_graphs import Named, conv, graph, pad, relu, value, weights

from edgec import ops
from edgec.differentiate.gradient import gradients
from edgec.ir.graph import Node


def of_taps(x: Node, g: Node, stride: int | tuple[int, ...] = 1, dilation: int = 1) -> Node:
    """The gradient of a depthwise convolution's weights, where ``g`` is that of its result."""
    channels, strides = x.type.shape[1], stride if isinstance(stride, tuple) else (stride,) * (x.type.rank - 2)
    sizes = zip(x.type.shape[2:], g.type.shape[2:], strides)
    w = value("w", channels, 1, *((n - (pixels - 1) * s - 1) // dilation + 1 for n, pixels, s in sizes))
    (found,) = gradients(conv(x, w, strides, dilation, channels), [w], seed=g)
    assert found is not None
    return found


def sweeps() -> Iterator[Named]:
    for c in (4, 16, 17, 24, 40, 64, 87):
        yield f"taps of {c} channels", graph(of_taps(pad(value("x", 1, c, 7, 9), 1, 1), value("g", 1, c, 7, 9)))
    for batch, kernel, rows, columns, stride, dilation in (
        (2, 3, 6, 11, 1, 1), (3, 3, 5, 7, 2, 1), (1, 3, 8, 9, 1, 2), (2, 5, 9, 10, 1, 1), (1, 7, 13, 11, 1, 1),
        (1, 2, 3, 17, 3, 1), (2, 4, 40, 30, 1, 1), (2, 3, 2, 400, 1, 1),
    ):  # fmt: skip
        space = [(n - 1) * stride + (kernel - 1) * dilation + 1 for n in (rows, columns)]
        operands = value("x", batch, 20, *space), value("g", batch, 20, rows, columns)
        name = f"{kernel}x{kernel} taps by {stride} dilated {dilation} of {batch} x {rows} x {columns}"
        yield name, graph(of_taps(*operands, stride, dilation))
    yield "taps by 2 and 1", graph(of_taps(value("x", 1, 9, 15, 9), value("g", 1, 9, 7, 7), (2, 1)))
    yield "taps of a line", graph(of_taps(value("x", 2, 33, 54), value("g", 2, 33, 50)))
    yield "taps of a room", graph(of_taps(value("x", 1, 19, 4, 5, 6), value("g", 1, 19, 3, 4, 4)))
    slopes = of_taps(
        relu(pad(value("x", 1, 21, 8, 8), 1, 1)), ops.node("mul", value("g", 1, 21, 8, 8), value("h", 1, 21, 8, 8))
    )
    moment = ops.node("add", ops.node("mul", value("m", 1, 21, 3, 3), weights(1, 1, 1, 1)), slopes)
    yield "taps into a moment", graph(ops.node("mul", moment, value("s", 1, 21, 1, 1)))
    twice = conv(pad(value("x", 1, 8, 6, 6), 1, 1), weights(8, 1, 3, 3), groups=8)
    yield "taps of what a window made", graph(of_taps(pad(twice, 1, 1), twice))
    for c, kernel in ((37, 7), (64, 5), (48, 2)):  # several tiles of taps, or vectors of a task
        wide = conv(value("x", 1, 40, 12 + kernel, 11 + kernel), weights(c, 40, 1, 1))
        deep = conv(value("y", 1, 40, 13, 12), weights(c, 40, 1, 1))
        yield f"{kernel}x{kernel} taps of {c} channels", graph(of_taps(wide, deep))

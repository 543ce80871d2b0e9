"""Winograd's method by weights that no build knows: given ones, in any layout, and those of gradients."""

from __future__ import annotations

from collections.abc import Iterator

from small_graphs import Named, conv, graph, number, pad, pool, relu, silu, transpose, value, weights

from edgec import ops
from edgec.differentiate.gradient import gradients
from edgec.ir.graph import Node

#: The order of output channels, input channels and taps in given weights, and back.
LAYOUTS = {"oihw": (0, 1, 2, 3), "iohw": (1, 0, 2, 3), "hwio": (3, 2, 0, 1), "oiwh": (0, 1, 3, 2), "hiwo": (3, 1, 0, 2)}


def image(channels: int, *space: int, batch: int = 1) -> Node:
    """A value of a network, which may lie as its reader likes it."""
    return relu(conv(value("x", batch, 4, *space), weights(channels, 4, *(1 for _ in space))))


def given(layout: str, outputs: int, channels: int) -> Node:
    sizes = {"o": outputs, "i": channels, "h": 3, "w": 3}
    return transpose(value("w", *(sizes[axis] for axis in layout)), *LAYOUTS[layout])


def of_input(x: Node, w: Node, g: Node) -> Node:
    """The gradient of the input of a convolution, where ``g`` is that of its result."""
    (found,) = gradients(conv(x, w), [x], seed=g)
    assert found is not None
    return found


def winograds_at_run() -> Iterator[Named]:
    for layout in LAYOUTS:
        for c, o, h, w in ((24, 33, 7, 9), (32, 130, 6, 27)):
            y = ops.node("add", conv(pad(image(c, h, w), 1, 1), given(layout, o, c)), weights(o, 1, 1))
            yield f"given {layout} {c}->{o} {h}x{w}", graph(conv(silu(y), weights(5, o, 1, 1)))
    for c, o, h, w, batch in ((16, 16, 19, 26, 2), (64, 40, 4, 5, 1), (300, 24, 7, 7, 1), (33, 64, 30, 30, 1)):
        y = conv(pad(image(c, h, w, batch=batch), 1, 1), value("w", o, c, 3, 3))
        yield f"given of {batch} {c}->{o} {h}x{w}", graph(relu(y))
    for c, o, h, w, batch in ((24, 33, 7, 9, 2), (48, 20, 13, 10, 1), (128, 64, 14, 14, 1)):
        g = image(o, h, w, batch=batch)
        found = of_input(value("y", batch, c, h + 2, w + 2), value("w", o, c, 3, 3), g)
        yield f"gradient of {batch} {c}<-{o} {h}x{w}", graph(relu(found))
    x = image(32, 9, 14, batch=2)
    y = ops.node("add", conv(pad(x, 1, 1), value("w", 32, 32, 3, 3)), x)
    yield "given, residual in place", graph(conv(relu(y), weights(7, 32, 1, 1)))
    y = ops.node("reshape", conv(pad(image(48, 9, 9), 1, 1), value("w", 64, 48, 3, 3)), shape=(1, 2, 32, 9, 9))
    held = ops.node("lt", number(0), ops.node("reshape", image(64, 9, 9), shape=(1, 2, 32, 9, 9)))
    chosen = ops.node("select", held, y, number(0))
    yield "given, masked", graph(chosen)
    y = conv(pad(image(48, 16, 16), 1, 1), value("w", 32, 48, 3, 3))
    yield "given, pooled", graph(pool(relu(y), "max", (2, 2), 2))
    yield "given 5x5", graph(conv(image(32, 13, 12), value("w", 32, 32, 5, 5)))
    yield "given 2x2", graph(conv(image(64, 12, 11), value("w", 64, 64, 2, 2)))
    yield "given 1x3", graph(conv(image(48, 5, 23, batch=3), value("w", 64, 48, 1, 3)))
    yield "given 1-d", graph(conv(pad(image(128, 357), 1), value("w", 64, 128, 3)))
    yield "given 3-d", graph(conv(pad(image(24, 3, 9, 8), 1, 1, 1), value("w", 40, 24, 3, 3, 3)))
    both = value("w", 48, 48, 3, 3)
    y = relu(conv(pad(image(48, 12, 12), 1, 1), both))
    yield "given to two", graph(conv(pad(y, 1, 1), both))
    yield "given in groups", graph(conv(pad(image(32, 10, 11), 1, 1), value("w", 32, 16, 3, 3), groups=2))

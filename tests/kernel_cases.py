"""Small graphs for every kernel template: sizes around vector and tile edges, and all that fuses into a kernel."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
from attention_cases import attentions
from chance import RANDOM
from integer_cases import byte_convolutions, byte_products, depthwise, lanes, reductions
from procedure_cases import recurring, scanning, scattering, selection, sorting
from small_graphs import (
    clip,
    conv,
    gelu,
    graph,
    layernorm,
    leaky,
    mean,
    number,
    pad,
    pool,
    relu,
    silu,
    softmax,
    total,
    transpose,
    value,
    weights,
)  # fmt: skip
from sparse_cases import sparse

from edgec import ops
from edgec.ir.functions import FUNCTIONS
from edgec.ir.graph import Graph, Node, constant
from edgec.ir.types import DTYPES

#: Around the vectors of 4, 8 and 16 floats that the targets have, and around tiles of several of them.
SIZES = (1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 53)

Named = tuple[str, Graph]


def contractions() -> Iterator[Named]:
    for m, k, n in (
        (1, 1, 1), (1, 5, 17), (1, 64, 33), (2, 3, 1), (5, 1, 5), (13, 7, 3), (4, 9, 4), (9, 16, 8), (3, 33, 16),
        (31, 5, 15), (33, 8, 53), (17, 2, 31), (64, 3, 130), (7, 300, 9), (2, 40, 260),
    ):  # fmt: skip
        size = f"{m}x{k}x{n}"
        yield f"matmul {size}", graph(ops.node("matmul", value("a", m, k), weights(k, n)))
        yield f"matmul both dynamic {size}", graph(ops.node("matmul", value("a", m, k), value("b", k, n)))
    for m, k, n in ((1, 9, 5), (5, 17, 18), (33, 4, 35)):
        size = f"{m}x{k}x{n}"
        a, b = value("a", m, k), value("b", k, n)
        at, bt = transpose(value("a", k, m), 1, 0), transpose(value("b", n, k), 1, 0)
        yield f"matmul constant left {size}", graph(ops.node("matmul", weights(m, k), b))
        yield f"matmul left turned {size}", graph(ops.node("matmul", at, b))
        yield f"matmul right turned {size}", graph(ops.node("matmul", a, bt))
        yield f"matmul both turned {size}", graph(ops.node("matmul", at, bt))
        yield f"matmul result turned {size}", graph(transpose(ops.node("matmul", a, weights(k, n)), 1, 0))
        yield f"matmul by itself {size}", graph(ops.node("matmul", a, transpose(a, 1, 0)))
    yield "matmul large", graph(relu(ops.node("matmul", value("a", 300, 40), weights(40, 200))))
    yield "matmul large both dynamic", graph(ops.node("matmul", value("a", 130, 70), value("b", 70, 150)))
    # A panel of these does not fit where panels are packed at run time.
    long, turned = value("a", 2, 12000), transpose(value("b", 40, 12000), 1, 0)
    yield "matmul too long to pack", graph(ops.node("mul", ops.node("matmul", long, turned), number(0.01)))
    yield "matmul batches", graph(ops.node("matmul", value("a", 2, 1, 5, 6), value("b", 3, 6, 19)))
    yield "matmul batch of constants", graph(ops.node("matmul", value("a", 4, 3, 7), weights(4, 7, 18)))
    yield "matmul one matrix for a batch", graph(ops.node("matmul", value("a", 2, 3, 5, 7), weights(7, 17)))
    yield "matmul vectors of a batch", graph(ops.node("matmul", value("a", 6, 1, 8), value("b", 6, 8, 1)))
    x = value("x", 1, 6, 24)
    # Scores are of the size of one: a softmax of larger ones makes much of what halves round off.
    heads = [
        ops.node("reshape", ops.node("matmul", x, weights(24, 24, scale=0.2)), shape=(1, 6, 3, 8)) for _ in range(3)
    ]
    heads = [transpose(head, 0, 2, 1, 3) for head in heads]
    scores = ops.node("mul", ops.node("matmul", heads[0], transpose(heads[1], 0, 1, 3, 2)), number(8**-0.5))
    mixed = transpose(ops.node("matmul", softmax(scores, 3), heads[2]), 0, 2, 1, 3)
    yield "attention", graph(ops.node("matmul", ops.node("reshape", mixed, shape=(1, 6, 24)), weights(24, 24)))
    sliced = ops.node("slice", value("a", 9, 20), starts=(8, 3), steps=(-2, 1), shape=(5, 16))
    yield "matmul of a slice", graph(ops.node("matmul", sliced, weights(16, 10)))
    parts = ops.node("concat", value("a", 4, 6), value("b", 4, 11), axis=1)
    yield "matmul of a concatenation", graph(ops.node("matmul", parts, weights(17, 12)))
    wide = ops.node("matmul", value("a", 3, 5, dtype="f64"), value("b", 5, 9, dtype="f64"))
    whole = ops.node("matmul", value("c", 3, 5, dtype="i32"), value("d", 5, 9, dtype="i32"))
    yield "matmul of other types", graph(wide, whole)


def convolutions() -> Iterator[Named]:
    for c, o, k, s in (
        (1, 1, 1, 1),
        (3, 8, 3, 2),
        (4, 17, 1, 1),
        (16, 5, 3, 1),
        (17, 16, 1, 2),
        (8, 33, 2, 1),
        (3, 4, 5, 3),
    ):
        yield f"conv {c}->{o} {k}x{k} by {s}", graph(conv(value("x", 1, c, 9, 11), weights(o, c, k, k), s))
    yield "conv padded", graph(conv(pad(value("x", 2, 5, 7, 8), 1, 1), weights(9, 5, 3, 3)))
    yield "conv padded unevenly", graph(conv(pad(value("x", 1, 4, 6, 9), (0, 1), (2, 1)), weights(6, 4, 2, 4), (2, 1)))
    yield "conv dilated", graph(conv(value("x", 1, 4, 11, 12), weights(7, 4, 3, 3), 1, 2))
    yield "conv wide and narrow", graph(conv(value("x", 1, 3, 5, 40), weights(8, 3, 1, 5), (1, 2)))
    yield "conv of one pixel", graph(conv(value("x", 1, 24, 3, 3), weights(18, 24, 3, 3)))
    yield (
        "conv 1-d",
        graph(conv(value("x", 2, 5, 40), weights(6, 5, 4), 3), conv(value("y", 1, 1, 19), weights(1, 1, 3))),
    )
    # Padding ends in the middle of what lies side by side.
    for size, k, step, room in ((29, 4, 4, 3), (6, 4, 4, 2), (5, 2, 2, 1)):
        image = conv(pad(value("y", 1, 1, 4, size), 0, (0, room)), weights(8, 1, 1, k), (2, step))
        line = conv(pad(value("x", 1, 1, size), (0, room)), weights(8, 1, k), step)
        yield f"conv of one channel, {size} in steps of {step}", graph(line, image)
    yield "conv 3-d", graph(conv(value("x", 1, 3, 5, 6, 7), weights(5, 3, 2, 3, 2), (1, 2, 1)))
    yield "conv dynamic weights", graph(conv(value("x", 1, 4, 6, 6), value("w", 5, 4, 3, 3)))
    yield "conv constant image", graph(conv(weights(1, 4, 6, 6), value("w", 5, 4, 3, 3)))
    yield "conv in groups", graph(conv(value("x", 1, 12, 6, 7), weights(10, 6, 3, 3), groups=2))
    yield "conv in many groups", graph(conv(value("x", 2, 12, 5, 5), weights(16, 3, 2, 2), groups=4))
    yield "conv batch of 3", graph(conv(value("x", 3, 2, 6, 5), weights(3, 2, 2, 3)))
    x = conv(pad(value("x", 1, 3, 12, 12), 1, 1), weights(8, 3, 3, 3), 2)
    x = clip(ops.node("add", x, weights(8, 1, 1)))
    x = clip(ops.node("add", conv(pad(x, 1, 1), weights(8, 1, 3, 3), groups=8), weights(8, 1, 1)))
    x = ops.node("add", conv(x, weights(20, 8, 1, 1)), weights(20, 1, 1))
    yield "conv separable", graph(ops.node("reshape", mean(x, 2, 3), shape=(1, 20)))


def columns() -> Iterator[Named]:
    """Reductions that lanes run across, and what uses them: one kernel."""
    for shape, axis in (((3, 16, 4, 37), 1), ((5, 7, 64), 1), ((1, 33, 2, 16), 1), ((2, 9, 8, 5, 19), 2), ((6, 21), 0)):
        yield f"softmax of {shape} along {axis}", graph(softmax(value("x", *shape), axis))
    weighted = conv(softmax(value("x", 2, 16, 4, 45), 1), weights(1, 16, 1, 1))
    yield "means weighted by a softmax", graph(ops.node("reshape", weighted, shape=(2, 4, 45)))
    turned = transpose(ops.node("reshape", value("x", 2, 24, 50), shape=(2, 3, 8, 50)), 0, 2, 1, 3)
    yield "softmax of what was turned", graph(conv(softmax(turned, 1), weights(1, 8, 1, 1)))
    x = conv(value("x", 2, 5, 7, 6), weights(18, 5, 1, 1))
    mean = ops.node("mul", total(x, 2, 3), number(1 / 42))
    off = ops.node("sub", x, mean)
    spread = ops.node(
        "sqrt", ops.node("add", ops.node("mul", total(ops.node("mul", off, off), 2, 3), number(1 / 42)), number(0.1))
    )
    yield "channels normalized", graph(conv(ops.node("div", off, spread), weights(9, 18, 1, 1)))
    yield "channels normalized as rows", graph(ops.node("div", off, spread))
    y = ops.node("mul", softmax(value("z", 4, 30, 40), 1), value("by", 4, 1, 40))
    yield "softmax times what is shared", graph(ops.node("add", y, value("r", 4, 30, 40)))


def rearranged() -> Iterator[Named]:
    """Concatenations that are an index: rolls, and parts that their one reader computes."""

    def roll(x: Node, by: int, axis: int) -> Node:
        rank = x.type.rank
        parts = [
            ops.node(
                "slice", x, starts=tuple(start * (d == axis) for d in range(rank)), steps=(1,) * rank,
                shape=tuple(size if d == axis else n for d, n in enumerate(x.type.shape)),
            )
            for start, size in ((x.type.shape[axis] - by, by), (0, x.type.shape[axis] - by))
        ]  # fmt: skip
        return ops.node("concat", *parts, axis=axis)

    x = relu(value("x", 1, 6, 10, 24))
    rolled = roll(roll(x, 2, 1), 7, 2)
    yield "rolled twice", graph(ops.node("matmul", rolled, weights(24, 17)))
    yield (
        "rolled and normalized",
        graph(layernorm(ops.node("add", roll(roll(x, 1, 1), 3, 2), value("y", 1, 6, 10, 24)), 3)),
    )
    yield "rolled as a result", graph(roll(x, 4, 2))
    windows = transpose(ops.node("reshape", rolled, shape=(1, 3, 2, 2, 5, 24)), 0, 1, 3, 2, 4, 5)
    yield (
        "rolled in windows",
        graph(ops.node("matmul", ops.node("reshape", windows, shape=(6, 10, 24)), weights(24, 9))),
    )
    low, high = value("low", 1, 2, 37), value("high", 1, 2, 37)
    first, last = ops.node("sub", value("at", 1, 2, 37), low), ops.node("add", value("to", 1, 2, 37), high)
    middle = ops.node("mul", ops.node("add", first, last), number(0.5))
    boxes = ops.node("concat", middle, ops.node("sub", last, first), axis=1)
    yield (
        "boxes",
        graph(ops.node("concat", ops.node("mul", boxes, value("by", 1, 1, 37)), value("s", 1, 3, 37), axis=1)),
    )
    token = ops.node("concat", constant(np.ones((1, 1, 37), np.float32)), relu(low), value("raw", 1, 1, 37), axis=1)
    yield "a part that is there already", graph(ops.node("mul", token, number(2)))
    costly = ops.node("exp", low)
    both = ops.node(
        "concat", ops.node("add", costly, high), ops.node("mul", costly, high), ops.node("sigmoid", high), axis=1
    )
    yield "parts that share something costly", graph(ops.node("mul", both, number(3)))


def pooled() -> Iterator[Named]:
    """Convolutions whose results are pooled while registers hold them, windows side by side."""
    for c, o, h, w, kernel in (
        (3, 17, 8, 9, (2, 2)),
        (5, 16, 7, 12, (2, 2)),
        (4, 40, 9, 8, (1, 2)),
        (7, 5, 8, 7, (2, 1)),
        (6, 24, 5, 13, (1, 4)),
    ):
        y = relu(ops.node("add", conv(value("x", 1, c, h, w), weights(o, c, 1, 1)), weights(o, 1, 1)))
        yield f"conv {c}->{o} pooled {h}x{w} by {kernel}", graph(windowed(y, kernel))
    x, by = value("x", 2, 6, 10, 11), ops.node("sub", value("r", 2, 33, 8, 9), number(0.5))
    y = ops.node("add", conv(x, weights(33, 6, 3, 3)), by)
    yield "conv and residual pooled", graph(relu(windowed(y, (2, 2))))
    mean = ops.node("mul", windowed(silu(conv(x, weights(9, 6, 3, 2))), (2, 2), "add"), number(0.25))
    yield "conv and means of windows", graph(conv(mean, weights(5, 9, 1, 1)))
    yield "conv with steps pooled", graph(windowed(conv(value("x", 1, 4, 19, 23), weights(20, 4, 3, 3), 2), (2, 2)))
    yield (
        "conv pooled in three dimensions",
        graph(windowed(conv(value("x", 1, 4, 4, 9, 8), weights(19, 4, 3, 3, 3)), (1, 2, 2))),
    )
    for c, o, h, w, kernel in (
        (24, 33, 14, 18, (2, 2)),
        (32, 40, 11, 13, (2, 2)),
        (48, 32, 6, 27, (1, 2)),
        (40, 24, 9, 8, (2, 1)),
    ):
        x = relu(conv(value("x", 1, 4, h, w), weights(c, 4, 1, 1)))
        y = ops.node("add", conv(pad(x, 1, 1), weights(o, c, 3, 3)), weights(o, 1, 1))
        yield (
            f"winograd {c}->{o} pooled {h}x{w} by {kernel}",
            graph(conv(windowed(relu(y), kernel), weights(5, o, 1, 1))),
        )
    y = conv(pad(value("x", 1, 48, 57), 1), weights(64, 48, 3))
    yield "winograd pooled in one dimension", graph(windowed(silu(y), (2,)))
    x = value("x", 1, 8, 9, 9)
    yield (
        "windows that overlap",
        graph(
            ops.node(
                "pool", conv(x, weights(8, 8, 1, 1)), combine="max", kernel=(3, 3), strides=(2, 2), dilations=(1, 1)
            )
        ),
    )


def windowed(x: Node, kernel: tuple[int, ...], combine: str = "max") -> Node:
    """Windows side by side."""
    return ops.node("pool", x, combine=combine, kernel=kernel, strides=kernel, dilations=(1,) * len(kernel))


def winograds() -> Iterator[Named]:
    """Few taps and unit steps, with channels enough to pay; sizes that tiles of 2 and 4 divide, and others."""
    for c, o, h, w in ((16, 16, 8, 8), (24, 33, 7, 9), (20, 19, 13, 10), (64, 40, 4, 5), (32, 130, 6, 27)):
        x = relu(conv(value("x", 1, 4, h, w), weights(c, 4, 1, 1)))
        y = ops.node("add", conv(pad(x, 1, 1), weights(o, c, 3, 3)), weights(o, 1, 1))
        yield f"winograd {c}->{o} {h}x{w}", graph(conv(silu(y), weights(5, o, 1, 1)))
    x = relu(conv(value("x", 2, 6, 9, 14), weights(32, 6, 1, 1)))
    y = ops.node("add", conv(pad(x, 1, 1), weights(32, 32, 3, 3)), x)
    yield "winograd residual in place", graph(conv(relu(y), weights(7, 32, 1, 1)))
    yield "winograd to rows", graph(conv(pad(value("x", 2, 32, 10, 11), 1, 1), weights(36, 32, 3, 3)))
    yield "winograd 5x5", graph(conv(value("x", 1, 32, 10, 12), weights(32, 32, 5, 5)))
    yield "winograd 1x3", graph(conv(value("x", 1, 48, 5, 23), weights(32, 48, 1, 3)))
    yield "winograd 1-d", graph(conv(pad(value("x", 1, 48, 57), 1), weights(64, 48, 3)))
    yield "winograd 3-d", graph(conv(pad(value("x", 1, 24, 3, 9, 8), 1, 1, 1), weights(40, 24, 3, 3, 3)))


def epilogues() -> Iterator[Named]:
    for n in (3, 20):
        m = 7
        y = ops.node("add", ops.node("matmul", value("a", m, 6), weights(6, n)), weights(n))
        for f in (relu, clip, silu, gelu, leaky):
            yield f"matmul {f.__name__} {n}", graph(f(y))
        yield f"matmul residual {n}", graph(relu(ops.node("add", y, value("r", m, n))))
        yield f"matmul row scale {n}", graph(ops.node("mul", y, value("s", m, 1)))
        yield f"matmul compare {n}", graph(ops.node("select", ops.node("lt", value("r", m, n), y), y, value("r", m, n)))
        yield f"matmul to whole numbers {n}", graph(ops.node("cast", ops.node("round", y), to="i8"))
        yield f"matmul of two uses {n}", graph(relu(y), ops.node("mul", y, number(2)))
    x, w = value("x", 1, 6, 5, 7), weights(18, 6, 1, 1)
    y = ops.node("add", ops.node("mul", conv(x, w), weights(18, 1, 1)), weights(18, 1, 1))
    yield "conv scaled per channel", graph(relu(y))
    yield "conv residual", graph(silu(ops.node("add", y, value("r", 1, 18, 5, 7))))
    yield "conv residual of a row", graph(ops.node("add", y, value("r", 1, 1, 1, 7)))
    yield "conv residual of its input", graph(relu(ops.node("add", conv(x, weights(6, 6, 1, 1)), x)))
    gate = ops.node("sigmoid", conv(relu(conv(mean(y, 2, 3), weights(4, 18, 1, 1))), weights(18, 4, 1, 1)))
    yield "squeeze and excite", graph(ops.node("mul", y, gate))
    turned = transpose(ops.node("reshape", y, shape=(1, 18, 35)), 0, 2, 1)
    yield "conv turned to rows", graph(turned, softmax(turned, 2))
    shuffled = ops.node(
        "reshape", transpose(ops.node("reshape", y, shape=(1, 2, 9, 5, 7)), 0, 2, 1, 3, 4), shape=(1, 18, 5, 7)
    )
    yield "channel shuffle", graph(conv(shuffled, weights(8, 18, 1, 1)))
    deep = ops.node("reshape", conv(x, weights(12, 6, 1, 1)), shape=(1, 3, 2, 2, 5, 7))
    yield "depth to space", graph(ops.node("reshape", transpose(deep, 0, 1, 4, 2, 5, 3), shape=(1, 3, 10, 14)))


def windows() -> Iterator[Named]:
    for c in (1, 3, 4, 8, 17, 33):
        yield f"depthwise {c}", graph(conv(pad(value("x", 1, c, 6, 9), 1, 1), weights(c, 1, 3, 3), groups=c))
    for k, s, d in ((1, 1, 1), (2, 1, 2), (3, 2, 1), (5, 1, 1), (4, 3, 1)):
        yield (
            f"depthwise {k}x{k} by {s} dilated {d}",
            graph(conv(value("x", 2, 8, 10, 11), weights(8, 1, k, k), s, d, 8)),
        )
    for rows, s in ((4, 1), (5, 1), (7, 2)):  # two rows of outputs at a time, and one
        inside = pad(value("x", 1, 21, rows * s, 9), 1, 1)
        yield f"depthwise {rows} rows by {s}", graph(relu(conv(inside, weights(21, 1, 3, 3), s, groups=21)))
    for multiplier in (2, 3):
        y = conv(pad(value("x", 1, 5, 6, 7), 1, 1), weights(5 * multiplier, 1, 3, 3), groups=5)
        yield f"depthwise times {multiplier}", graph(relu(ops.node("add", y, weights(5 * multiplier, 1, 1))))
    yield "depthwise 1-d", graph(conv(value("x", 1, 9, 21), weights(9, 1, 5), 2, groups=9))
    yield "depthwise 3-d", graph(conv(value("x", 1, 6, 4, 5, 6), weights(6, 1, 2, 2, 2), groups=6))
    yield "depthwise dynamic", graph(conv(value("x", 1, 8, 6, 6), value("w", 8, 1, 3, 3), groups=8))
    yield (
        "depthwise silu residual",
        graph(
            ops.node(
                "add",
                silu(conv(pad(value("x", 1, 8, 6, 6), 1, 1), weights(8, 1, 3, 3), groups=8)),
                value("r", 1, 8, 6, 6),
            )
        ),
    )
    for combine in ("max", "add", "min"):
        for c in (1, 4, 19):
            yield f"pool {combine} {c}", graph(pool(value("x", 1, c, 8, 9), combine, (2, 3), 2))
    lowest = float(np.finfo(np.float32).min)
    yield "pool padded", graph(pool(pad(relu(value("x", 1, 6, 7, 7)), 1, 1, to=lowest), "max", (3, 3), 2))
    yield (
        "pool mean padded",
        graph(ops.node("mul", pool(pad(value("x", 2, 3, 6, 5), (1, 0), 1), "add", (3, 2)), number(1 / 6))),
    )
    yield "pool dilated", graph(pool(value("x", 1, 5, 9, 9), "max", (3, 3), 1, 2))
    yield (
        "pool 1-d and 3-d",
        graph(pool(value("x", 1, 4, 17), "max", (4,), 3), pool(value("y", 1, 3, 4, 5, 6), "add", (2, 2, 2))),
    )
    yield (
        "pool of a convolution",
        graph(pool(relu(conv(pad(value("x", 1, 3, 8, 8), 1, 1), weights(8, 3, 3, 3))), "max", (2, 2), 2)),
    )
    yield "pool of whole numbers", graph(pool(value("x", 1, 3, 6, 6, dtype="i32"), "max", (2, 2), 2))
    yield (
        "pool large",
        graph(pool(value("x", 1, 4, 12, 12), "max", (9, 9)), pool(value("x", 1, 4, 12, 12), "add", (12, 1))),
    )


def rows() -> Iterator[Named]:
    for n in SIZES:
        x = value("x", 5, n)
        yield f"row softmax {n}", graph(softmax(x, 1))
        yield f"row layernorm {n}", graph(layernorm(x, 1))
        yield f"row sums {n}", graph(mean(x, 1), total(x, 1, combine="max"), total(x, 1, combine="min"))
    for axes in ((0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)):
        x = value("x", 4, 7, 18)
        name = "".join(map(str, axes))
        yield f"row softmax over {name}", graph(softmax(x, *axes))
        yield f"row layernorm over {name}", graph(layernorm(x, *axes))
        of = ops.node("mul", x, x) if len(axes) == 3 else x  # a mean that is alone must not come out as nothing
        yield (
            f"row sums over {name}",
            graph(mean(of, *axes), total(x, *axes, combine="min"), total(x, *axes, combine="mul")),
        )
    x = value("x", 3, 19)
    y = ops.node("sub", x, number(0.5))
    logs = ops.node("sub", y, ops.node("log", total(ops.node("exp", y), 1)))
    yield "row log softmax", graph(logs)
    yield "row softmax of a sum", graph(softmax(ops.node("add", x, value("r", 1, 19)), 1))
    yield (
        "row softmax scaled and masked",
        graph(
            softmax(
                ops.node("select", value("m", 3, 19, dtype="bool"), ops.node("mul", x, number(0.3)), number(-50)), 1
            )
        ),
    )
    yield "row norm", graph(ops.node("sqrt", total(ops.node("mul", x, x), 1)))
    unit = ops.node("div", x, ops.node("sqrt", ops.node("add", mean(ops.node("mul", x, x), 1), number(1e-5))))
    yield "row rms norm", graph(ops.node("mul", unit, weights(19)))
    yield "row layernorm silu", graph(silu(layernorm(x, 1)))
    yield "row two normalizations", graph(layernorm(softmax(x, 1), 1))
    yield "row of a slice", graph(softmax(ops.node("slice", x, starts=(0, 1), steps=(1, 2), shape=(3, 9)), 1))
    yield "row padded", graph(softmax(pad(x, (1, 1), (0, 0)), 1), softmax(pad(x, (2, 1), to=-9.0), 1))
    scaled = ops.node("mul", x, value("s", 3, 1))
    inner = ops.node("slice", pad(ops.node("exp", scaled), (1, 1), (0, 0)), starts=(0, 0), steps=(1, 1), shape=(3, 19))
    yield "row of a guarded value", graph(layernorm(inner, 1))
    yield "row of a batch norm by instance", graph(layernorm(value("x", 2, 3, 5, 6), 2, 3))
    yield (
        "row of bools and whole numbers",
        graph(
            total(value("b", 4, 9, dtype="bool"), 1, combine="or"),
            total(value("i", 4, 9, dtype="i32"), 0),
            total(value("d", 4, 9, dtype="f64"), 1),
        ),
    )
    yield "row of a product", graph(total(ops.node("mul", value("a", 6, 21), value("b", 6, 21)), 1))


def maps() -> Iterator[Named]:
    for n in SIZES:
        x = value("x", n)
        yield f"map chain {n}", graph(ops.node("mul", ops.node("tanh", ops.node("add", x, weights(n))), x))
    x = value("x", 3, 5, 18)
    for shape in ((18,), (5, 1), (3, 1, 1), (1, 5, 18), (3, 1, 18), ()):
        yield f"map broadcast {shape}", graph(ops.node("sub", value("b", *shape), x))
    for perm in ((0, 2, 1), (2, 1, 0), (1, 0, 2), (2, 0, 1)):
        yield f"map transpose {perm}", graph(transpose(x, *perm), transpose(silu(x), *perm))
    yield "map in place", graph(silu(ops.node("add", relu(ops.node("mul", x, x)), x)))
    a = ops.node("mul", x, number(3))
    yield (
        "map many uses",
        graph(ops.node("add", total(a, 0), total(a, 0, combine="max")), ops.node("add", a, number(1)), a),
    )
    yield (
        "map slices",
        graph(
            ops.node("add", ops.node("slice", x, starts=(0, 4, 17), steps=(1, -1, -2), shape=(3, 5, 9)), weights(9)),
            ops.node("exp", ops.node("slice", x, starts=(1, 0, 1), steps=(1, 2, 1), shape=(2, 3, 16))),
        ),
    )
    yield "map reshapes", graph(transpose(ops.node("reshape", silu(x), shape=(9, 5, 6)), 2, 0, 1))
    yield (
        "map reshape that cuts no loop",
        graph(ops.node("exp", ops.node("reshape", transpose(x, 0, 2, 1), shape=(27, 10)))),
    )
    yield (
        "map gather",
        graph(
            ops.node("exp", ops.node("gather", x, constant(np.array([4, 0, -1])), axis=1)),
            ops.node("gather", x, value("i", 4, dtype="i64"), axis=2),
            ops.node("gather", weights(9, 17), value("i", 4, dtype="i64"), axis=0),
            ops.node("gather_elements", x, value("j", 3, 5, 2, dtype="i64"), axis=2),
        ),
    )
    yield "map of everything empty", graph(ops.node("exp", value("x", 3, 0)), total(value("x", 3, 0), 1))
    yield "map of a scalar", graph(ops.node("exp", value("x")), ops.node("reshape", value("x"), shape=(1, 1)))
    yield "map large", graph(ops.node("add", value("x", 2, 4099), value("y", 4099)))


#: What functions must get right beside ordinary numbers.
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -1.5, 1e-3, -88.5, 90.0, 1e-40, 3e38, -3e38, np.inf, -np.inf, np.nan)
UNARY = (
    "neg", "abs", "sign", "floor", "ceil", "trunc", "round", "sqrt", "exp", "log", "log1p", "expm1", "sigmoid", "tanh",
    "erf", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "isnan", "isinf",
    "not", "bitnot",
)  # fmt: skip
LOGICAL = ("and", "or", "xor", "not")
BITS = ("bitand", "bitor", "bitxor", "bitnot", "shl", "shr")
INTEGER = (
    "add", "sub", "mul", "div", "floordiv", "floormod", "fmod", "max", "min", "neg", "abs", "sign", "lt", "le", "gt",
    "ge", "eq", "ne", "pow", *BITS,
)  # fmt: skip


def functions() -> Iterator[Named]:
    """Every scalar function for every type that it is for, on the numbers at the edges of the type."""
    for name in FUNCTIONS:
        operands = 3 if name in ("select", "mulshift") else 1 if name in UNARY else 2
        types = ["bool"] if name in LOGICAL else [] if name in BITS else ["f32", "f64"]
        types += ["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"] if name in INTEGER else []
        types = ["i32"] if FUNCTIONS[name].only == "i32" else types
        results = []
        for dtype in types:
            # numpy, which is the reference, knows no negative powers of whole numbers.
            pairs = _pairs(dtype, least=0 if name == "pow" and dtype[0] in "iu" else None)
            args = [ops.node("lt", *pairs), *pairs] if name == "select" else pairs
            if name == "mulshift":
                counts = constant(np.arange(pairs[0].type.elements, dtype=np.int32) % 64)
                args = [*pairs, counts]
                results.append(ops.node(name, *pairs, constant(np.array(31, np.int32))))
            results.append(ops.node(name, *args[:operands]))
        yield f"function {name}", graph(*results)


def comparisons() -> Iterator[Named]:
    """Comparisons that are the same for every value of a type: compilers warn about those."""
    compare = ("lt", "le", "gt", "ge", "eq", "ne")
    for dtype in ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "bool"):
        x = value("x", 9, dtype=dtype)
        ends = (False, True) if dtype == "bool" else (np.iinfo(DTYPES[dtype]).min, np.iinfo(DTYPES[dtype]).max)
        limits = [constant(np.array(end, DTYPES[dtype])) for end in ends]
        tests = [ops.node(c, *args) for c in compare for y in (x, *limits) for args in ((x, y), (y, x))]
        if dtype == "bool":
            tests += [ops.node(c, x, y) for c in ("and", "or", "xor") for y in (x, *limits)]
        else:
            names = ("add", "sub", "mul", "div", "floordiv", "floormod", "fmod", "max", "min", "shl", "shr")
            tests += [ops.node(name, x, y) for name in names for y in (x, *limits)]
        yield f"constant comparisons {dtype}", graph(*tests)
    x = value("x", 21)
    numbers = [constant(np.array(n, np.float32)) for n in (0.0, -0.0, np.inf, -np.inf, np.nan, 3e38)]
    yield (
        "constant comparisons f32",
        graph(*(ops.node(c, x, y) for c in (*compare, "max", "min") for y in (x, *numbers))),
    )


def _pairs(dtype: str, least: int | None = None) -> list[Node]:
    """Two vectors that hold every pair of a type's numbers at the edge; all inputs but the integers, whose are many."""
    if dtype in ("f32", "f64"):
        edges = np.array([*SPECIAL, *RANDOM.standard_normal(5)], DTYPES[dtype])
    elif dtype == "bool":
        edges = np.array([False, True])
    else:
        limits = np.iinfo(DTYPES[dtype])
        numbers = (0, 1, 2, 3, 7, 33, -1, -2, -5, limits.min, limits.max)
        edges = np.array([n for n in numbers if limits.min <= n <= limits.max], DTYPES[dtype])
    right = edges if least is None else edges[edges >= least]
    pairs = np.meshgrid(edges, right, indexing="ij")
    return [constant(p.reshape(-1)) for p in pairs]


def borders() -> Iterator[Named]:
    x = silu(value("x", 1, 5, 6, 7))
    for amounts in ((1, 1), (2, (0, 1)), ((0, 3), (1, 0)), (0, 2), ((1, 2), 1, 1)):
        y = pad(x, *amounts)
        yield f"border {amounts}", graph(conv(y, weights(4, y.type.shape[1], 2, 2)))
    yield "border of ones", graph(conv(pad(x, 1, 1, to=1.0), weights(4, 5, 3, 3)))
    yield "border read twice", graph(conv(pad(x, 1, 1), weights(4, 5, 3, 3)), pool(pad(x, 1, 1), "max", (3, 3)))
    yield "border of a border", graph(conv(pad(pad(x, 1, 1), 0, 2, to=2.0), weights(4, 5, 3, 3)))
    yield "border of nothing", graph(conv(pad(x, 0, 0), weights(4, 5, 3, 3)))
    yield (
        "border of a concatenation",
        graph(conv(pad(ops.node("concat", x, relu(value("z", 1, 3, 6, 7)), axis=1), 1, 1), weights(4, 8, 3, 3))),
    )
    yield (
        "border inside a concatenation",
        graph(pool(ops.node("concat", pad(x, 1, 1), value("z", 1, 2, 8, 9), axis=1), "max", (2, 2), 2)),
    )
    yield "border of a matrix product", graph(ops.node("matmul", pad(value("a", 3, 4), (1, 0), (0, 2)), weights(6, 9)))
    c = conv(value("c", 1, 6, 6, 7), weights(8, 6, 1, 1))
    half = ops.node("slice", c, starts=(0, 4, 0, 0), steps=(1, 1, 1, 1), shape=(1, 4, 6, 7))
    inner = conv(pad(half, 1, 1), weights(4, 4, 3, 3))
    joined = ops.node("concat", c, inner, axis=1)
    yield "border of a part of a concatenation", graph(joined, conv(pad(inner, 2, 1), weights(3, 4, 3, 3)))
    yield (
        "border of parts of what stays inside",
        graph(conv(joined, weights(5, 12, 1, 1)), pool(pad(inner, 1, 1), "max", (3, 3))),
    )
    both = ops.node("concat", relu(value("p", 1, 3, 6, 7)), relu(value("q", 1, 5, 6, 7)), axis=1)
    wide = [conv(pad(both, n, n), weights(4, 8, 3, 3)) for n in (1, 2)]
    yield "borders of two widths", graph(*wide, pool(pad(both, 1, 1, to=-np.inf), "max", (3, 3)), total(both, 2, 3))
    across = conv(
        ops.node("concat", relu(value("s", 1, 4, 3, 7)), relu(value("t", 1, 4, 5, 7)), axis=2), weights(4, 4, 1, 1)
    )
    yield "border across a concatenation", graph(conv(pad(across, 1, 1), weights(3, 4, 3, 3)))
    yield "border in a map", graph(ops.node("exp", pad(value("a", 3, 18), (1, 2), (3, 0), to=-1.0)))
    yield "border of whole numbers", graph(pool(pad(value("i", 1, 2, 5, 5, dtype="i32"), 1, 1, to=-9), "max", (3, 3)))


def placements() -> Iterator[Named]:
    x, y = value("x", 2, 3, 10), value("y", 2, 5, 10)
    for axis, shape in ((0, (4, 3, 10)), (1, (2, 6, 10)), (2, (2, 3, 7))):
        yield f"concat along {axis}", graph(ops.node("concat", silu(x), relu(value("z", *shape)), axis=axis))
    both = ops.node("concat", silu(x), relu(y), axis=1)
    yield "concat read again", graph(ops.node("mul", both, number(2)), softmax(both, 2))
    yield "concat of one value twice", graph(ops.node("concat", silu(x), silu(x), x, axis=2))
    yield "concat of concats", graph(ops.node("concat", both, ops.node("concat", both, x, axis=1), axis=1))
    a = silu(x)
    yield "concat with a part read elsewhere", graph(ops.node("concat", a, relu(y), axis=1), total(a, 2), a)
    yield (
        "concat of results",
        graph(ops.node("concat", ops.node("matmul", x, weights(10, 6)), ops.node("matmul", x, weights(10, 9)), axis=2)),
    )
    c = value("c", 1, 4, 5, 5)
    blocks = [
        relu(conv(c, weights(8, 4, 1, 1))),
        relu(conv(pad(c, 1, 1), weights(12, 4, 3, 3))),
        pool(pad(c, 1, 1), "max", (3, 3)),
    ]
    yield "inception", graph(conv(ops.node("concat", *blocks, axis=1), weights(6, 24, 1, 1)))
    halves = [ops.node("slice", c, starts=(0, k, 0, 0), steps=(1, 1, 1, 1), shape=(1, 2, 5, 5)) for k in (0, 2)]
    yield "split and joined", graph(ops.node("concat", conv(halves[0], weights(2, 2, 1, 1)), halves[1], axis=1))
    yield "constants and inputs as results", graph(x, weights(3, 2), ops.node("reshape", x, shape=(60,)))
    yield "one value under two names", Graph((x,), (("a", relu(x)), ("b", relu(x)), ("c", x), ("d", x)))


def chains() -> Iterator[Named]:
    """Vectors that every thread makes for itself."""
    x = relu(value("x", 1, 24, 6, 7))
    means = ops.node("mul", total(x, 2, 3), number(1 / 42))
    inner = relu(conv(means, weights(5, 24, 1, 1)))
    scale = ops.node("sigmoid", conv(inner, weights(24, 5, 1, 1)))
    yield "channels scaled", graph(conv(ops.node("mul", x, scale), weights(9, 24, 1, 1)))
    yield "channels scaled and padded", graph(conv(pad(ops.node("mul", x, scale), 1, 1), weights(9, 24, 3, 3)))
    v = value("v", 1, 40)
    hidden = relu(ops.node("matmul", v, weights(40, 17)))
    yield "two layers", graph(softmax(ops.node("matmul", hidden, weights(17, 33)), 1))
    yield (
        "a vector for two readers",
        graph(ops.node("matmul", hidden, weights(17, 3)), ops.node("mul", hidden, number(2))),
    )
    yield "a vector that is a result", graph(hidden, ops.node("matmul", hidden, weights(17, 3)))


GROUPS = {
    g.__name__: g
    for g in (
        attentions,
        contractions,
        convolutions,
        columns,
        pooled,
        rearranged,
        winograds,
        epilogues,
        windows,
        rows,
        maps,
        lanes,
        reductions,
        depthwise,
        byte_products,
        byte_convolutions,
        functions,
        comparisons,
        borders,
        chains,
        placements,
        sorting,
        recurring,
        scanning,
        scattering,
        selection,
        sparse,
    )
}


@cache
def cases() -> dict[str, dict[str, Graph]]:
    return {name: dict(group()) for name, group in GROUPS.items()}

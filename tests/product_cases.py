"""Sums of products: contractions, convolutions and what becomes of their results."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from small_graphs import (
    Named,
    clip,
    coded_weights,
    conv,
    gelu,
    graph,
    layernorm,
    leaky,
    mean,
    number,
    pad,
    relu,
    silu,
    softmax,
    total,
    transpose,
    value,
    weights,
)  # fmt: skip

from edgec import ops
from edgec.ir.graph import Node, constant


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
    both = ops.node("matmul", value("a", 4, 2, 1, 9), value("b", 4, 2, 9, 32))  # two loops around, apart in the result
    part = ops.node("reshape", both, shape=(4, 2, 32))
    yield "matmul into a part", graph(ops.node("concat", relu(value("r", 4, 3, 32)), part, axis=1))
    yield "matmul of four bits", graph(ops.node("matmul", value("a", 5, 64), coded_weights(64, 33, 32)))
    yield "matmul large", graph(relu(ops.node("matmul", value("a", 300, 40), weights(40, 200))))
    yield "matmul large both dynamic", graph(ops.node("matmul", value("a", 130, 70), value("b", 70, 150)))
    for m, k, n in ((9, 40, 37), (20, 16, 16), (33, 67, 50)):
        turned = transpose(value("b", n, k), 1, 0)
        yield f"matmul rows by rows {m}x{k}x{n}", graph(ops.node("matmul", value("a", m, k), turned))
        heads = transpose(value("b", n, 3, k), 1, 2, 0)
        yield f"matmul rows by rows of heads {m}x{k}x{n}", graph(ops.node("matmul", value("a", 3, m, k), heads))
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
    # Lanes along the width of the result would need a panel of the image that is too large to pack.
    long = conv(pad(value("x", 1, 2000, 5, 20), (0, 0), (0, 1)), weights(19, 2000, 3, 3, scale=0.01), 1, 2)
    yield "conv too long to pack", graph(relu(ops.node("add", long, weights(19, 1, 1))))
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


def grouped() -> Iterator[Named]:
    """Small groups, between products whose results are channel by channel."""

    def between(x: Node, w: Node, stride: int = 1, dilation: int = 1, around: int = 0) -> Node:
        ones, channels = (1,) * (x.type.rank - 2), w.type.shape[0]
        inside = conv(x, weights(channels, x.type.shape[1], *ones))
        inside = relu(
            conv(pad(inside, around, around) if around else inside, w, stride, dilation, channels // w.type.shape[1])
        )
        return conv(inside, weights(6, channels, *ones))

    for groups, size in ((9, 2), (1, 4), (4, 4), (9, 4), (3, 8)):
        yield (
            f"{groups} of {size}",
            graph(between(value("x", 1, 5, 6, 9), weights(groups * size, size, 3, 3), around=1)),
        )
    for k, s, d in ((1, 1, 1), (3, 2, 2)):
        yield f"5 of 4, {k}x{k} by {s} dilated {d}", graph(between(value("x", 2, 3, 9, 8), weights(20, 4, k, k), s, d))
    for c, times, k, s in ((8, 2, 3, 1), (19, 2, 3, 2), (12, 4, 5, 1), (6, 8, 1, 1)):
        x = conv(value("x", 1, 3, 6, 9), weights(c, 3, 1, 1))
        y = relu(conv(pad(x, 1, 1), weights(c * times, 1, k, k), s, groups=c))
        yield f"{c} of one, {times} results each, by {s}", graph(conv(y, weights(5, c * times, 1, 1)))
    yield "groups 1-d", graph(between(value("x", 1, 3, 19), weights(24, 4, 5), 2))
    yield "groups 3-d", graph(between(value("x", 1, 3, 4, 5, 3), weights(12, 2, 2, 2, 2)))
    yield (
        "groups of two and four",
        graph(
            between(value("x", 1, 3, 5, 6), weights(12, 2, 3, 3)), between(value("z", 1, 3, 5, 6), weights(12, 4, 3, 3))
        ),
    )
    x = conv(value("x", 1, 3, 5, 5), weights(16, 3, 1, 1))
    y = relu(ops.node("add", conv(pad(x, 1, 1), weights(16, 4, 3, 3), groups=4), x))
    yield "groups and what they are added to", graph(conv(y, weights(3, 16, 1, 1)))


def few() -> Iterator[Named]:
    """One or two results of what lies channel by channel: sums run along what is contiguous."""
    for c, o, k, s in ((16, 1, 3, 1), (5, 1, 5, 2), (8, 2, 2, 1), (40, 2, 1, 1), (3, 1, 3, 1), (16, 3, 2, 1)):
        inside = relu(conv(value("x", 2, 3, 7, 9), weights(c, 3, 1, 1)))
        inside = pad(inside, k // 2, k // 2) if k > 2 else inside
        yield (
            f"{c}->{o} {k}x{k} by {s}",
            graph(silu(ops.node("add", conv(inside, weights(o, c, k, k), s), weights(o, 1, 1)))),
        )
    yield "20->1 3-d", graph(conv(conv(value("x", 1, 3, 4, 5, 6), weights(20, 3, 1, 1, 1)), weights(1, 20, 2, 2, 2)))
    inside = conv(value("x", 1, 1, 8, 17), weights(300, 1, 1, 1))
    yield "a long sum in parts of taps", graph(conv(inside, weights(2, 300, 7, 7)))
    yield "a long sum in parts of vectors", graph(relu(ops.node("matmul", value("x", 9, 13001), weights(13001, 1))))
    apart = ops.node("sub", value("x", 9, 1, 37), weights(1, 11, 37))
    yield "distances", graph(total(ops.node("abs", apart), 2), total(ops.node("abs", apart), 2, combine="max"))


def short() -> Iterator[Named]:
    """Loops shorter than vectors, or apart in memory: rows, shares, patches, windows and channels."""
    for c, t in ((20, 40), (16, 129), (3, 7)):  # rows by rows, each by its own
        a, b = value("a", 1, c, 4, t), value("b", 1, 1, 4, t)
        yield f"rows of {t} by their own", graph(total(ops.node("mul", a, b), 3))
        last = conv(value("x", 1, 5, 4, t), weights(c + 1, 5, 1, 1))
        parts = [
            ops.node("slice", last, starts=(0, k, 0, 0), steps=(1,) * 4, shape=(1, n, 4, t))
            for k, n in ((0, 1), (1, c))
        ]
        shares = softmax(parts[0], 3)
        yield f"shares of {t} columns", graph(relu(total(ops.node("mul", parts[1], shares), 3)), shares)
    for h, w in ((3, 20), (4, 16), (2, 5)):  # patches by their own shares, pixels side by side
        mask = ops.node("mul", value("a", 1, 9, 4, 4, h, w), value("b", 2, 9, 1, 1, h, w))
        pixels = transpose(total(mask, 1), 0, 1, 4, 2, 5, 3)
        yield f"patches of {h}x{w}", graph(ops.node("reshape", pixels, shape=(2, 4 * h, 4 * w)))
    for n, size in ((40, 10), (7, 6), (3, 20)):
        yield (
            f"short rows of {size}",
            graph(windowed(value("x", n, 1, 8, size), (2, 2)), windowed(value("y", n, 1, 4, size), (1, 2), "add")),
        )
    for rows, channels in ((300, 10), (11, 5), (28, 20), (13, 17)):
        x = ops.node("mul", value("x", rows, channels), weights(channels))
        yield (
            f"factors of {channels} channels",
            graph(relu(ops.node("add", x, weights(channels))), ops.node("mul", x, value("f", channels))),
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

"""Graphs of narrow types: products and sums of bytes, requantization, half precision, on sizes around the edges."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, product

import numpy as np
from chance import RANDOM
from small_graphs import conv, graph, number, pad, pool, total, transpose, value

from edgec import ops
from edgec.ir.graph import Graph, Node, constant
from edgec.ir.types import DTYPES

LANES = ("f32", "f16", "bf16", "i32", "i16", "i8", "u16", "u8", "bool")
BYTES = ("i8", "u8")

Named = tuple[str, Graph]


def bytes_of(*shape: int, dtype: str = "i8") -> Node:
    """Constant bytes, the extremes among them."""
    limits = np.iinfo(DTYPES[dtype])
    values = RANDOM.integers(limits.min, limits.max + 1, shape)
    values.reshape(-1)[:2] = (limits.min, limits.max)[: values.size]
    return constant(values.astype(DTYPES[dtype]))


def wide(x: Node, zero: int = 0) -> Node:
    """In i32, without its zero point."""
    y = ops.node("cast", x, to="i32")
    return ops.node("sub", y, constant(np.array(zero, np.int32))) if zero else y


def scales(*shape: int) -> Node:
    """Powers of two, so that a product with them is exact."""
    return constant((2.0 ** RANDOM.integers(-14, -8, shape)).astype(np.float32))


def bias(*shape: int) -> Node:
    return constant(RANDOM.integers(-9000, 9000, shape).astype(np.int32))


def clamped(x: Node, to: str, zero: int = 0) -> Node:
    """Floats rounded and saturated to a narrow integer type."""
    limits = np.iinfo(DTYPES[to])
    y = ops.node("round", x)
    y = ops.node("add", y, number(zero)) if zero else y
    y = ops.node("min", ops.node("max", y, number(float(limits.min))), number(float(limits.max)))
    return ops.node("cast", y, to=to)


def requantized(x: Node, factor: Node, to: str = "i8", zero: int = 0) -> Node:
    return clamped(ops.node("mul", ops.node("cast", x, to="f32"), factor), to, zero)


def fixed_point(x: Node, *shape: int) -> Node:
    """By a mantissa and a shift a channel, as TensorFlow Lite has it."""
    q = constant(RANDOM.integers(2**30, 2**31, shape).astype(np.int32))
    right = RANDOM.integers(5, 12, shape)
    high = ops.node("mulshift", x, q, constant(np.array(31, np.int32)))
    mask = (1 << right) - 1
    below = ops.node("cast", ops.node("lt", high, constant(np.array(0, np.int32))), to="i32")
    half = ops.node("add", constant((mask >> 1).astype(np.int32)), below)
    up = ops.node("gt", ops.node("bitand", high, constant(mask.astype(np.int32))), half)
    y = ops.node("add", ops.node("shr", high, constant(right.astype(np.int32))), ops.node("cast", up, to="i32"))
    limits = (constant(np.array(n, np.int32)) for n in (127, -128))
    return ops.node("cast", ops.node("max", ops.node("min", y, next(limits)), next(limits)), to="i8")


def lanes() -> Iterator[Named]:
    """Casts between all types that lanes hold, and maps over them."""
    for source in LANES:
        x = value("x", 3, 37, dtype=source)
        moved = ops.node("slice", x, starts=(0, 1), steps=(1, 2), shape=(3, 18))
        whole = [to for to in LANES if to != source and not (source in ("f32", "f16", "bf16") and to[0] in "iu")]
        casts = [ops.node("cast", x, to=to) for to in whole]
        yield f"cast {source}", graph(*casts, transpose(moved, 1, 0), ops.node("cast", moved, to="f32"))
    x = value("x", 5, 21)
    scaled = [ops.node("mul", x, number(s)) for s in (10.0, 100.0, 1e6)]
    yield "clamped", graph(*(clamped(y, to, z) for y in scaled for to in ("i8", "u8", "i16", "u16") for z in (0, 3)))
    yield (
        "truncated",
        graph(*(ops.node("cast", ops.node("mul", x, number(s)), to="i32") for s in (1.0, 2.0**13, 2.0**27))),
    )
    a, b = value("a", 4, 19, dtype="u8"), value("b", 4, 19, dtype="u8")
    added = ops.node("add", ops.node("cast", wide(a, 11), to="f32"), ops.node("cast", wide(b, 128), to="f32"))
    yield "quantized addition", graph(clamped(ops.node("mul", added, number(0.375)), "u8", 5))
    chosen = ops.node("select", ops.node("lt", a, b), ops.node("add", a, b), ops.node("sub", a, b))
    yield (
        "choice of bytes",
        graph(chosen, ops.node("lt", a, b), ops.node("and", ops.node("lt", a, b), ops.node("gt", a, b))),
    )
    c = value("c", 6, 23, dtype="i32")
    yield "fixed point", graph(fixed_point(ops.node("mul", c, constant(np.array(65537, np.int32))), 23))
    for half in ("f16", "bf16"):
        h, g = value("h", 4, 19, dtype=half), value("g", 4, 19, dtype=half)
        yield (
            f"arithmetic in {half}",
            graph(ops.node("mul", ops.node("add", h, g), g), ops.node("max", h, g), total(h, 1)),
        )


def reductions() -> Iterator[Named]:
    for dtype in ("i8", "u8", "i16", "u16", "i32"):
        x = value("x", 3, 5, 37, dtype=dtype)
        results = [total(x, axis, combine=c) for c in ("add", "max", "min") for axis in (1, 2)]
        yield f"reduction of {dtype}", graph(*results, ops.node("sub", x, total(x, 2, combine="max")))
        y = value("y", 1, 18, 7, 6, dtype=dtype)
        yield f"pool of {dtype}", graph(*(pool(y, c, (3, 2), 2) for c in ("max", "add")))
    x = value("x", 1, 20, 6, 7, dtype="i8")
    average = total(ops.node("cast", x, to="i32"), 2, 3)
    yield "average of bytes", graph(requantized(average, number(2.0**-6)))


def depthwise() -> Iterator[Named]:
    for (sign, other), stride in product(product(BYTES, BYTES), (1, 2)):
        x = pad(value("x", 1, 19, 8, 9, dtype=sign), 1, 1, to=3)
        y = conv(wide(x), wide(bytes_of(19, 1, 3, 3, dtype=other)), stride, groups=19)
        y = ops.node("add", y, bias(19, 1, 1))
        yield f"depthwise {sign} {other} by {stride}", graph(requantized(y, scales(19, 1, 1), "u8", 7))
        yield f"depthwise fixed {sign} {other} by {stride}", graph(fixed_point(y, 19, 1, 1))


def byte_products() -> Iterator[Named]:
    pairs = cycle(product(BYTES, BYTES))
    for m, k, n in (
        (1, 1, 1), (1, 2, 17), (3, 3, 5), (1, 64, 33), (5, 4, 16), (13, 7, 3), (9, 17, 8), (7, 70, 19), (33, 9, 53),
        (40, 36, 130), (2, 300, 70),
    ):  # fmt: skip
        for a, b in product(BYTES, BYTES):
            x, w = value("a", m, k, dtype=a), bytes_of(k, n, dtype=b)
            y = ops.node("matmul", wide(x), wide(w, 3 if b == "u8" else 0))
            later = requantized(ops.node("add", y, bias(n)), scales(n), a)
            yield f"bytes {m}x{k}x{n} {a} {b}", graph(later) if m % 2 else graph(y)
        a, b = next(pairs)  # without their zero points they are of 32 bits, whatever they were
        both = ops.node("matmul", wide(value("a", m, k, dtype=a), 5), wide(value("b", k, n, dtype=b), 9))
        yield f"bytes both dynamic {m}x{k}x{n} {a} {b}", graph(both)
    one_term = ops.node("matmul", wide(value("a", 4, 2, 3, 1, dtype="i8")), wide(value("b", 4, 2, 1, 8, dtype="u8")))
    yield "bytes both dynamic, sums of one term", graph(one_term)
    for a, b in product(BYTES, BYTES):
        at, bt = transpose(value("a", 9, 14, dtype=a), 1, 0), transpose(value("b", 21, 9, dtype=b), 1, 0)
        yield f"bytes turned {a} {b}", graph(ops.node("matmul", wide(at, 100), wide(bt, 1)))
        yield f"bytes left turned {a} {b}", graph(ops.node("matmul", wide(at, 100), wide(bytes_of(9, 6, dtype=b))))
        yield f"bytes constant left {a} {b}", graph(ops.node("matmul", wide(bytes_of(9, 9, dtype=a)), wide(bt, 2)))
    for m, k, n, a, b in (
        (5, 150, 70, "u8", "i8"),
        (3, 67, 37, "i8", "u8"),
        (18, 64, 16, "i8", "i8"),
        (6, 39, 51, "u8", "u8"),
    ):
        size, x = f"{m}x{k}x{n} {a} {b}", value("a", m, k, dtype=a)
        yield f"bytes rows and columns {size}", graph(ops.node("matmul", wide(x, 7), wide(value("b", k, n, dtype=b))))
        yield (
            f"bytes rows by rows {size}",
            graph(ops.node("matmul", wide(x), wide(transpose(value("b", n, k, dtype=b), 1, 0), 3))),
        )
        across = transpose(value("b", k, 3, n, dtype=b), 1, 0, 2)
        yield f"bytes of steps {size}", graph(ops.node("matmul", wide(value("a", 3, m, k, dtype=a)), wide(across, 2)))
    deep = ops.node("matmul", wide(value("a", 5, 3010, dtype="u8")), wide(bytes_of(3010, 8, dtype="u8")))
    yield "bytes of a long sum", graph(requantized(deep, scales(8), "u8"))
    batch = ops.node(
        "matmul", wide(value("a", 2, 3, 5, 11, dtype="u8"), 128), wide(value("b", 2, 3, 11, 6, dtype="i8"))
    )
    yield "bytes batches", graph(batch)


def byte_convolutions() -> Iterator[Named]:
    for c, o, k, s in (
        (1, 1, 1, 1),
        (3, 8, 3, 2),
        (4, 17, 1, 1),
        (16, 5, 3, 1),
        (17, 16, 1, 2),
        (8, 33, 2, 1),
        (5, 4, 5, 3),
    ):
        for a in BYTES:
            x = pad(value("x", 1, c, 9, 11, dtype=a), 1, 1, to=9)
            y = ops.node("add", conv(wide(x), wide(bytes_of(o, c, k, k)), s), bias(o, 1, 1))
            yield f"byte conv {c}->{o} {k}x{k} by {s} {a}", graph(requantized(y, scales(o, 1, 1), a, 4))
        yield f"byte conv fixed {c}->{o} {k}x{k} by {s} {a}", graph(fixed_point(y, o, 1, 1))  # of integers, all of it
    for size, k, step in ((61, 16, 16), (253, 8, 4), (29, 4, 4)):  # padding ends within what lies side by side
        x = pad(value("x", 1, 1, size, dtype="u8"), (0, 3), to=9)
        y = ops.node("add", conv(wide(x, 9), wide(bytes_of(8, 1, k)), step), bias(8, 1))
        yield f"byte conv of one channel by {step}", graph(requantized(y, scales(8, 1), "u8", 4))
    x = value("x", 2, 12, 6, 7, dtype="u8")
    yield "byte conv in groups", graph(conv(wide(x), wide(bytes_of(10, 6, 3, 3)), groups=2))
    yield "byte conv dilated", graph(conv(wide(x), wide(bytes_of(7, 12, 3, 3)), 1, 2))
    yield "byte conv zero points", graph(conv(wide(x, 100), wide(bytes_of(7, 12, 3, 3, dtype="u8"), 120)))
    both = conv(wide(x, 3), wide(value("w", 5, 12, 3, 3, dtype="i8")))
    yield "byte conv dynamic weights", graph(both)
    y = x
    for c in (16, 9, 24):
        y = ops.node("add", conv(wide(pad(y, 1, 1, to=7)), wide(bytes_of(c, y.type.shape[1], 3, 3))), bias(c, 1, 1))
        y = requantized(y, scales(c, 1, 1), "u8", 7)
    z = requantized(conv(wide(y), wide(bytes_of(24, 24, 1, 1))), scales(24, 1, 1), "u8")
    added = ops.node("add", ops.node("cast", z, to="f32"), ops.node("cast", y, to="f32"))
    yield "byte conv chain", graph(clamped(ops.node("mul", added, number(0.5)), "u8"))

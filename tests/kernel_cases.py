"""Small graphs for every kernel template: sizes around vector and tile edges, and all that fuses into a kernel."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
from attention_cases import attentions
from function_cases import comparisons, functions
from integer_cases import byte_convolutions, byte_products, depthwise, lanes, reductions
from procedure_cases import attending, coupling, descending, recurring, scanning, scattering, selection, sorting
from product_cases import (
    columns,
    contractions,
    convolutions,
    epilogues,
    few,
    grouped,
    pooled,
    rearranged,
    short,
    winograds,
)
from small_graphs import (
    SIZES,
    Named,
    conv,
    graph,
    layernorm,
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
from sweep_cases import sweeps
from transpose_cases import transposes, turned
from winograd_cases import winograds_at_run

from edgec import ops
from edgec.ir.graph import Graph, constant


def windows() -> Iterator[Named]:
    for c in (1, 3, 4, 8, 17, 33):
        yield f"depthwise {c}", graph(conv(pad(value("x", 1, c, 6, 9), 1, 1), weights(c, 1, 3, 3), groups=c))
    for k, s, d in ((1, 1, 1), (2, 1, 2), (3, 2, 1), (5, 1, 1), (4, 3, 1)):
        yield (
            f"depthwise {k}x{k} by {s} dilated {d}",
            graph(conv(value("x", 2, 8, 10, 11), weights(8, 1, k, k), s, d, 8)),
        )
    many = pad(value("x", 1, 16, 20, 13), 3, 3)  # as many as a thread each goes through on a GPU
    yield "depthwise 7x7", graph(conv(many, weights(16, 1, 7, 7), groups=16))
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
    pairs = value("x", 80, 2, 2)
    is_most = ops.node("eq", pairs, ops.node("reduce", pairs, combine="max", axes=(2,)))
    place = constant(np.arange(320).reshape(80, 2, 2))
    first = ops.node(
        "reduce", ops.node("select", is_most, place, constant(np.array(1 << 40))), combine="min", axes=(2,)
    )
    yield "places of a pool of neighbors", graph(ops.node("mul", first, constant(np.array([[[2], [3]]]))))
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
    y = ops.node("add", ops.node("mul", value("x", 2, 2, 5, 33), value("s", 2, 2, 5, 1)), value("b", 2, 2, 5, 1))
    yield "row softmax scaled by outer loops", graph(softmax(y, 0, 2, 3))
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
    for n in (8, 12):  # the sum is one product of the row with itself, which no other row has
        x = value("x", 16, n)
        squares = ops.node("add", mean(ops.node("mul", x, x), 1), number(1e-6))
        yield f"row over its root mean square {n}", graph(ops.node("div", x, ops.node("sqrt", squares)))


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
    yield (
        "map that interleaves",
        graph(transpose(value("x", 17, 2, 61), 0, 2, 1), transpose(value("y", 3, 2, 2, 25), 3, 2, 1, 0)),
    )
    yield "map of everything empty", graph(ops.node("exp", value("x", 3, 0)), total(value("x", 3, 0), 1))
    yield "map of a scalar", graph(ops.node("exp", value("x")), ops.node("reshape", value("x"), shape=(1, 1)))
    yield "map large", graph(ops.node("add", value("x", 2, 4099), value("y", 4099)))


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


def aliases() -> Iterator[Named]:
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
        attending,
        contractions,
        convolutions,
        grouped,
        few,
        short,
        columns,
        pooled,
        rearranged,
        winograds,
        winograds_at_run,
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
        aliases,
        sorting,
        descending,
        coupling,
        recurring,
        scanning,
        scattering,
        selection,
        sparse,
        sweeps,
        transposes,
        turned,
    )
}


@cache
def cases() -> dict[str, dict[str, Graph]]:
    return {name: dict(group()) for name, group in GROUPS.items()}

"""Small graphs whose vectors are stored along one dimension and read along another."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from small_graphs import Named, conv, graph, pad, pool, relu, silu, transpose, value, weights

from edgec import ops
from edgec.ir.graph import Graph, Node, constant

#: Rows and columns around blocks of 4, 8 and 16: whole, without a whole one, and with either kind of rest.
PAIRS = ((16, 16), (32, 48), (17, 40), (9, 200), (200, 9), (40, 4), (13, 35), (33, 66), (64, 14))


def transposes() -> Iterator[Named]:
    for rows, columns in PAIRS:
        x = value("x", rows, columns)
        biased = ops.node("mul", ops.node("add", transpose(x, 1, 0), weights(rows)), weights(columns, 1))
        yield f"transpose {rows} by {columns}", graph(transpose(x, 1, 0), silu(biased))
    for rows, columns in ((17, 40), (48, 32), (9, 35)):
        of_rows = ops.node("mul", transpose(value("x", 5, rows, columns), 0, 2, 1), value("z", 5, 1, rows))
        turned = transpose(value("w", 5, rows, 1), 0, 2, 1)
        across = ops.node("mul", transpose(value("x", 5, rows, columns), 0, 2, 1), turned)
        apart = transpose(value("v", rows, 3, 5), 2, 1, 0)  # a factor of a row whose steps are far apart
        far = ops.node("slice", apart, starts=(0, 1, 0), steps=(1, 1, 1), shape=(5, 1, rows))
        yield f"transpose of {rows} by {columns}, by rows", graph(of_rows, across, ops.node("mul", of_rows, far))
    for perm in ((0, 2, 1), (2, 1, 0), (1, 2, 0), (2, 0, 1)):
        x = value("x", 3, 37, 21)
        yield f"transpose {perm} of odd sizes", graph(transpose(x, *perm))
        both = ops.node("add", transpose(x, *perm), relu(transpose(value("z", 3, 37, 21), *perm)))
        yield f"transpose {perm} of two", graph(ops.node("sub", both, value("y", *both.type.shape)))
    for dtype in ("i32", "u8", "i8", "i16", "bool", "f16", "bf16", "f64", "i64"):
        yield f"transpose of {dtype}", graph(transpose(value("x", 35, 2, 50, dtype=dtype), 2, 1, 0))
    yield (
        "transpose to another type",
        graph(ops.node("cast", transpose(value("x", 35, 50, dtype="u8"), 1, 0), to="f32")),
    )
    yield (
        "transpose into a part",
        graph(ops.node("concat", transpose(value("x", 20, 33), 1, 0), relu(value("z", 7, 20)), axis=0)),
    )
    yield "transpose of a part", graph(
        transpose(ops.node("slice", value("x", 30, 70), starts=(3, 5), steps=(1, 1), shape=(25, 61)), 1, 0)
    )  # fmt: skip
    chosen = ops.node("gather", value("x", 6, 9, 35), constant(np.array([4, 0, 4, 5, 1])), axis=0)
    yield "transpose that a table chooses", graph(transpose(ops.node("mul", chosen, weights(5, 1, 1)), 0, 2, 1))


def turned() -> Iterator[Named]:
    """Lanes of channels between arrays whose rows are contiguous."""
    for channels, size, stride in ((16, 9, 1), (33, 7, 2), (24, 20, 2), (40, 12, 1)):
        x = value("x", 1, channels, size, size)
        name = f"of {channels} channels, {size} wide by {stride}"
        yield f"depthwise {name}", graph(relu(conv(x, weights(channels, 1, 3, 3), stride, groups=channels)))
        yield f"depthwise padded {name}", graph(conv(pad(x, 1, 1), weights(channels, 1, 3, 3), stride, groups=channels))
        yield f"pool {name}", graph(pool(x, "max", (2, 2), stride))
        yield f"conv {name}", graph(relu(conv(x, weights(channels + 1, channels, 1, 1), stride)))
    x = value("x", 2, 36, 15)
    yield "depthwise rows by 2", graph(conv(x, weights(36, 1, 3), 2, groups=36), pool(x, "add", (3,), 2))
    yield "result read again", _read_again()


def _read_again() -> Graph:
    made: Node = relu(conv(value("x", 1, 32, 8, 8), weights(32, 1, 3, 3), groups=32))
    return graph(made, conv(made, weights(5, 32, 1, 1)))

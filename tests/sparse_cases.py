"""Products with constants that are mostly zero: vectors left out in every pattern that a panel can have."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from chance import RANDOM
from integer_cases import bias, requantized, scales
from small_graphs import conv, graph, pad, relu, transpose, value, weights

from edgec import ops
from edgec.ir.graph import Graph, Node, constant

#: Outputs of a block: whole panels of the widest device, and so of all.
BLOCK = 16


def kept(outputs: int, inner: int, share: float, together: int = 1) -> np.ndarray:
    """[outputs, inner] of truth: what stays is blocks of ``BLOCK`` x ``together``.

    Of every panel the same share stays, whatever was drawn; one panel is full and one is empty.
    """
    panels, steps = -(-outputs // BLOCK), -(-inner // together)
    blocks = RANDOM.permuted(np.tile(np.arange(steps), (panels, 1)), axis=1) < share * steps
    if panels > 2:
        blocks[0], blocks[1] = True, False
    return blocks.repeat(BLOCK, 0).repeat(together, 1)[:outputs, :inner]


def holed(outputs: int, inner: int, share: float = 0.15) -> np.ndarray:
    w = RANDOM.standard_normal((outputs, inner)) * kept(outputs, inner, share) * inner**-0.5
    return w.astype(np.float32)


def matrix(k: int, n: int, share: float = 0.15) -> Node:
    return constant(np.ascontiguousarray(holed(n, k, share).T))


def kernels(*shape: int, share: float = 0.1) -> Node:
    return constant(holed(shape[0], int(np.prod(shape[1:])), share).reshape(shape))


def last(x: Node) -> Node:
    """Channels last, as between the layers of a network."""
    return transpose(x, 0, *range(2, x.type.rank), 1)


def byte_matrix(k: int, n: int, share: float = 0.2) -> Node:
    w = RANDOM.integers(-128, 128, (n, k)) * kept(n, k, share, 4)
    return ops.node("cast", constant(np.ascontiguousarray(w.T).astype(np.int8)), to="i32")


def byte_kernels(*shape: int, share: float = 0.2) -> Node:
    outputs, inputs, *window = shape
    w = RANDOM.integers(-128, 128, (outputs, *window, inputs))
    mask = kept(outputs, int(np.prod(window)) * inputs, share, 4).reshape(w.shape)
    return ops.node("cast", constant(np.ascontiguousarray(np.moveaxis(w * mask, -1, 1)).astype(np.int8)), to="i32")


def sparse() -> Iterator[tuple[str, Graph]]:
    for m, k, n in ((1, 200, 96), (2, 90, 55), (5, 300, 70), (7, 100, 16), (13, 200, 200), (49, 96, 50), (64, 33, 81)):
        yield f"sparse matmul {m}x{k}x{n}", graph(relu(ops.node("matmul", value("a", m, k), matrix(k, n))))
    nothing = constant(np.zeros((64, 48), np.float32))
    yield "matmul by zeros", graph(ops.node("add", ops.node("matmul", value("a", 9, 64), nothing), weights(48)))
    batch = constant(np.stack([holed(40, 64).T for _ in range(3)]))
    yield "sparse batch of constants", graph(ops.node("matmul", value("a", 3, 6, 64), batch))
    residual = ops.node("add", ops.node("matmul", value("a", 21, 80), matrix(80, 48)), value("r", 21, 48))
    yield "sparse matmul with a residual", graph(relu(residual))
    rows = ops.node("matmul", value("a", 8, 1024), matrix(1024, 32, 0.1))
    yield "sparse rows a page apart", graph(rows)
    x = value("x", 1, 24, 9, 15)
    yield "sparse pointwise", graph(last(relu(conv(x, kernels(70, 24, 1, 1, share=0.2)))))
    for stride, dilation in ((1, 1), (2, 1), (1, 2)):
        y = conv(pad(x, dilation, 2), kernels(70, 24, 3, 3), stride, dilation)
        yield f"sparse 3x3 stride {stride} dilation {dilation}", graph(last(y))
    yield "sparse groups", graph(last(conv(value("x", 2, 64, 5, 5), kernels(128, 32, 3, 3), 1, 1, 2)))
    yield "sparse in one dimension", graph(last(conv(value("x", 2, 40, 31), kernels(36, 40, 3))))
    for dtype in ("u8", "i8"):
        a = ops.node("cast", value("a", 13, 96, dtype=dtype), to="i32")
        biased = ops.node("add", ops.node("matmul", a, byte_matrix(96, 70)), bias(70))
        yield f"sparse bytes {dtype}", graph(requantized(biased, scales(70)))
        x = ops.node("cast", transpose(value("x", 1, 7, 9, 16, dtype=dtype), 0, 3, 1, 2), to="i32")
        yield f"sparse 3x3 of bytes {dtype}", graph(last(conv(x, byte_kernels(80, 16, 3, 3))))

"""Attention in many spellings, large enough to be computed by its own kernel."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from small_graphs import gelu, graph, number, softmax, transpose, value, weights

from edgec import ops
from edgec.ir.graph import Graph, Node, constant

Named = tuple[str, Graph]


def attention(
    query: Node, key: Node, v: Node, mask: Node | None = None, scale: float = 0.3, is_guarded: bool = False
) -> Node:
    """[.., m, k], [.., n, k] and [.., n, d] to [.., m, d]; ``is_guarded``: shares that are not a number are 0."""
    rank = key.type.rank
    scores = ops.node("matmul", query, transpose(key, *range(rank - 2), rank - 1, rank - 2))
    scores = ops.node("mul", scores, number(scale))
    if mask is not None and mask.type.dtype == "bool":
        scores = ops.node("select", mask, scores, number(-np.inf))
    elif mask is not None:
        scores = ops.node("add", scores, mask)
    shares = softmax(scores, scores.type.rank - 1)
    if is_guarded:
        shares = ops.node("select", ops.node("isnan", shares), number(0.0), shares)
    return ops.node("matmul", shares, v)


def heads(x: Node, count: int) -> Node:
    """[b, n, h*k] as [b, h, n, k]."""
    b, n, width = x.type.shape
    return transpose(ops.node("reshape", x, shape=(b, n, count, width // count)), 0, 2, 1, 3)


#: (queries, keys, features, width). Few keys, too: all of them one block, or less than a tile of it.
LARGE = ((257, 300, 16, 16), (256, 259, 5, 33), (300, 256, 7, 3), (1408, 48, 8, 8), (1666, 40, 5, 7), (16512, 4, 3, 5))
#: The same around a GPU's tiles, where fewer scores are a kernel: three tiles of keys with a rest, two of queries.
SMALL = ((65, 140, 16, 16), (64, 131, 5, 33), (76, 128, 7, 3), (440, 48, 8, 8), (110, 40, 5, 7), (1040, 4, 3, 5))


def small_attentions() -> Iterator[Named]:
    """For a GPU that is interpreted."""
    return attentions(SMALL, 68, 64)


def attentions(sizes: tuple[tuple[int, ...], ...] = LARGE, masked: int = 260, shared: int = 256) -> Iterator[Named]:
    """Of ``sizes``, of ``masked`` queries and ten keys more, and of ``shared`` queries and keys."""
    keys = masked + 10
    for m, n, k, d in sizes:
        qkv = value("q", m, k), value("k", n, k), value("v", n, d)
        yield f"attention {m}x{n}x{k}x{d}", graph(attention(*qkv))
    qkv = value("q", 3, 1700 * masked // 260, 32), value("k", 3, 40, 32), value("v", 3, 40, 32)
    yield "attention to few keys", graph(attention(*qkv))
    qkv = value("q", 2, masked, 12), value("k", 2, keys, 12), value("v", 2, keys, 20)
    yield "attention with a row of masks", graph(attention(*qkv, value("mask", 2, 1, keys)))
    yield "attention with a matrix of masks", graph(attention(*qkv, value("mask", 1, masked, keys)))
    causal = np.where(np.tril(np.ones((masked, keys), bool)), 0, -np.inf).astype(np.float32)
    yield "attention to what came before", graph(attention(*qkv, constant(causal)))
    least = np.where(np.tril(np.ones((masked, keys), bool)), 0, np.finfo(np.float32).min).astype(np.float32)
    yield "attention beside the least float", graph(attention(*qkv, constant(least)))
    i, j = np.mgrid[:masked, :keys]
    window = np.where((j <= i) & (j > i - 40), 0, -np.inf).astype(np.float32)
    yield "attention in a window that slides", graph(attention(*qkv, constant(window)))
    yield "guarded attention", graph(attention(*qkv, value("mask", 1, masked, keys), is_guarded=True))
    blind = np.where((j <= i) & (i % 7 != 3), 0, -np.inf).astype(np.float32)
    yield "guarded attention to nothing by some", graph(attention(*qkv, constant(blind), is_guarded=True))
    pieces = constant((i // 100 == j // 100) & (j < 250))
    yield "attention within pieces", graph(attention(*qkv, pieces))
    near = np.where(j <= i + 5, (j - i) * np.float32([0.1, 0.2]).reshape(2, 1, 1), -np.inf).astype(np.float32)
    yield "attention that fades with distance", graph(attention(*qkv, constant(near)))
    yield "attention chosen by truth values", graph(attention(*qkv, value("mask", 1, masked, keys, dtype="bool")))
    q, k, v = qkv
    halves = ops.node("mul", softmax(ops.node("matmul", q, transpose(k, 0, 2, 1)), 2), number(0.5))
    yield "attention of which a part is kept", graph(ops.node("matmul", halves, v))
    x = value("x", 1, shared, 24)
    parts = [ops.node("matmul", x, weights(24, 24, scale=0.2)) for _ in range(3)]
    mixed = transpose(attention(*(heads(p, 3) for p in parts)), 0, 2, 1, 3)
    yield "attention of heads", graph(gelu(ops.node("reshape", mixed, shape=(1, shared, 24))))
    both = [ops.node("broadcast", value(n, 1, 2, 1, shared, 8), shape=(1, 2, 3, shared, 8)) for n in ("k", "v")]
    yield "attention of groups of heads", graph(attention(value("q", 1, 2, 3, shared, 8), *both))
    probabilities = ops.node("mul", softmax(value("s", shared, shared), 1), number(2.0))
    yield "no attention", graph(ops.node("matmul", probabilities, value("v", shared, 16)))

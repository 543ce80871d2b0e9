"""Language models: BERT (arXiv 1810.04805), DistilBERT (1910.01108), TinyBERT (1909.10351), ALBERT (1909.11942),
MobileBERT (2004.02984) and GPT-2, with the layers, heads and widths of the published ones, in primitive operators.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from onnx import TensorProto

from benchmarks.published.layers import Net

WORDS = 30522


def heads_apart(net: Net, x: str, heads: int) -> str:
    """[.., length, width] -> [.., heads, length, width / heads]."""
    *batch, length, width = net.shapes[x]
    return net.transpose(net.reshape(x, *batch, length, heads, width // heads), 0, 2, 1, 3)


def attention(
    net: Net, query: str, key: str, value: str, heads: int, mask: str | None = None, bias: str | None = None
) -> str:
    """Attention of [1, length, width] tensors; ``mask`` is added to the scores, and so is ``bias`` before it."""
    q, k, v = (heads_apart(net, x, heads) for x in (query, key, value))
    scores = net.matmul(q, net.transpose(k, 0, 1, 3, 2))
    scores = net.each("Div", scores, net.constant(sqrt(net.shapes[q][-1])))
    for extra in (bias, mask):
        scores = net.each("Add", scores, extra) if extra is not None else scores
    mixed = net.transpose(net.matmul(net.softmax(scores), v), 0, 2, 1, 3)
    return net.reshape(mixed, *net.shapes[query])


def added_mask(net: Net, length: int) -> str:
    """Additive mask of scores: nothing for a word, a large negative number after the text."""
    mask = net.input("mask", 1, length, dtype=TensorProto.INT64)
    wide = net.put((1, 1, 1, length), "Unsqueeze", mask, net.constant([1, 2]))
    away = net.each("Sub", net.constant(1.0), net.each("Cast", wide, to=TensorProto.FLOAT))
    return net.each("Mul", away, net.constant(-10000.0))


def table(net: Net, words: str, count: int, width: int) -> str:
    """Rows of a table of ``count``."""
    rows = net.drawn(count, width, gain=0.1)
    return net.put((*net.shapes[words], width), "Gather", rows, words, axis=0)


def embedded(net: Net, length: int, width: int, vocabulary: int, types: bool = True) -> str:
    """Word, place and (where there are any) type of every token, normalized."""
    words = net.input("words", 1, length, dtype=TensorProto.INT64)
    x = table(net, words, vocabulary, width)
    if types:
        x = net.each("Add", x, table(net, net.input("types", 1, length, dtype=TensorProto.INT64), 2, width))
    return net.layer_norm(net.each("Add", x, net.drawn(1, length, width, gain=0.1)))


def pooled(net: Net, x: str) -> str:
    """The first token after a dense layer."""
    first = net.put((1, net.shapes[x][-1]), "Gather", x, net.constant(np.array(0, np.int64)), axis=1)
    return net.act(net.gemm(first, net.shapes[x][-1]), "tanh")


def encoder_layer(net: Net, x: str, heads: int, inner: int, mask: str | None, act: str = "gelu") -> str:
    width = net.shapes[x][-1]
    y = attention(net, net.dense(x, width), net.dense(x, width), net.dense(x, width), heads, mask)
    x = net.layer_norm(net.each("Add", net.dense(y, width), x))
    y = net.dense(net.act(net.dense(x, inner), act), width)
    return net.layer_norm(net.each("Add", y, x))


def bert(
    layers: int = 12, width: int = 768, inner: int = 3072, length: int = 384, heads: int = 12, vocabulary: int = WORDS
) -> Net:
    net = Net()
    x, mask = embedded(net, length, width, vocabulary), added_mask(net, length)
    for _ in range(layers):
        x = encoder_layer(net, x, heads, inner, mask)
    return net.giving(x, pooled(net, x))


def tinybert(length: int = 384, width: int = 312, vocabulary: int = WORDS) -> Net:
    return bert(4, width, width * 50 // 13, length, 12, vocabulary)


def distilbert(layers: int = 6, width: int = 768, length: int = 384, vocabulary: int = WORDS) -> Net:
    net = Net()
    x, mask = embedded(net, length, width, vocabulary, types=False), added_mask(net, length)
    for _ in range(layers):
        x = encoder_layer(net, x, 12, 4 * width, mask)
    return net.giving(x)


class Shared(Net):
    """Weights of equal shape are drawn once a turn: layers share them."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[tuple[int, object], str] = {}
        self.turn: int | None = None

    def again(self) -> None:
        """The weights that follow are those that followed the last time."""
        self.turn = 0

    def constant(self, value: object) -> str:
        if self.turn is None or not isinstance(value, np.ndarray):
            return super().constant(value)  # type: ignore[arg-type]
        key = (self.turn, value.shape)
        self.turn += 1
        if key not in self.kept:
            self.kept[key] = super().constant(value)
        return self.kept[key]


def albert(layers: int = 12, width: int = 768, length: int = 384, vocabulary: int = 30000, narrow: int = 128) -> Net:
    net = Shared()
    x, mask = net.dense(embedded(net, length, narrow, vocabulary), width), added_mask(net, length)
    for _ in range(layers):
        net.again()
        x = encoder_layer(net, x, 12, 4 * width, mask, "gelu_tanh")
    net.turn = None
    return net.giving(x, pooled(net, x))


def mobilebert(
    layers: int = 24, width: int = 512, narrow: int = 128, length: int = 384, vocabulary: int = WORDS
) -> Net:
    """Thin layers: a bottleneck around each, four feed-forward parts in it, and norms that only scale and shift."""
    net = Net()

    def norm(x: str) -> str:
        size = net.shapes[x][-1]
        return net.each("Add", net.each("Mul", x, net.drawn(size, gain=0.7)), net.drawn(size, gain=0.1))

    def forward(x: str) -> str:
        y = net.dense(net.act(net.dense(x, 4 * narrow), "relu"), narrow)
        return norm(net.each("Add", y, x))

    words = net.input("words", 1, length, dtype=TensorProto.INT64)
    mask = added_mask(net, length)
    x = table(net, words, vocabulary, narrow)
    pads = (net.constant([0, 0, 0, 0, 1, 0]), net.constant([0, 1, 0, 0, 0, 0]))
    after = net.put(net.shapes[x], "Pad", net.slice(x, 1, 1, length), pads[0])
    before = net.put(net.shapes[x], "Pad", net.slice(x, 1, 0, length - 1), pads[1])
    x = net.dense(net.concat(after, x, before, axis=2), width)
    x = norm(net.each("Add", x, net.drawn(1, length, width, gain=0.1)))
    for _ in range(layers):
        inside, shared = norm(net.dense(x, narrow)), norm(net.dense(x, narrow))
        y = attention(net, net.dense(shared, narrow), net.dense(shared, narrow), net.dense(x, narrow), 4, mask)
        y = norm(net.each("Add", net.dense(y, narrow), inside))
        for _ in range(4):
            y = forward(y)
        x = norm(net.each("Add", net.dense(y, width), x))
    return net.giving(x, pooled(net, x))


def gpt2(layers: int = 12, width: int = 768, length: int = 384, vocabulary: int = 50257) -> Net:
    net = Net()
    words = net.input("words", 1, length, dtype=TensorProto.INT64)
    rows = net.drawn(vocabulary, width, gain=0.1)
    x = net.put((1, length, width), "Gather", rows, words, axis=0)
    x = net.each("Add", x, net.drawn(1, length, width, gain=0.1))
    later = net.constant(np.triu(np.full((1, 1, length, length), -10000.0, np.float32), 1))
    for _ in range(layers):
        q, k, v = net.split(net.dense(net.layer_norm(x), 3 * width), 3, 2)
        y = attention(net, q, k, v, 12, later)
        x = net.each("Add", net.dense(y, width), x)
        y = net.dense(net.act(net.dense(net.layer_norm(x), 4 * width), "gelu_tanh"), width)
        x = net.each("Add", y, x)
    return net.giving(net.matmul(net.layer_norm(x), net.transpose(rows, 1, 0)))

"""A small network with what networks are made of: a padded convolution, a residual, a concatenation, a classifier."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto
from small_models import model, node, tensor_input, weights

#: ONNX names of its nodes, in order.
NODES = ("stem", "relu", "mix", "sum", "join", "pool", "flat", "score", "soft")


def convnet(seed: int = 0, channels: int = 8) -> onnx.ModelProto:
    """image [1, 3, 10, 10] -> scores [1, 5] and features [1, 2 * channels, 10, 10]."""
    random = np.random.default_rng(seed)

    def values(*shape: int) -> np.ndarray:
        return (random.standard_normal(shape) / 3).astype(np.float32)

    nodes = [
        node("Conv", ["image", "w0", "b0"], ["a"], "stem", pads=[1, 1, 1, 1]),
        node("Relu", ["a"], ["b"], "relu"),
        node("Conv", ["b", "w1"], ["c"], "mix"),
        node("Add", ["b", "c"], ["d"], "sum"),
        node("Concat", ["d", "b"], ["features"], "join", axis=1),
        node("GlobalAveragePool", ["features"], ["e"], "pool"),
        node("Flatten", ["e"], ["f"], "flat"),
        node("Gemm", ["f", "w2", "b2"], ["g"], "score"),
        node("Softmax", ["g"], ["scores"], "soft"),
    ]
    initializers = [
        weights("w0", values(channels, 3, 3, 3)), weights("b0", values(channels)),
        weights("w1", values(channels, channels, 1, 1)),
        weights("w2", values(2 * channels, 5)), weights("b2", values(5)),
    ]  # fmt: skip
    return model(nodes, [tensor_input("image", [1, 3, 10, 10])], ("scores", "features"), initializers)


def tokens(words: int = 20, length: int = 6) -> onnx.ModelProto:
    """ids [1, length] and an attention mask -> masked embeddings, as language models begin."""
    table = np.random.default_rng(1).standard_normal((words, 4)).astype(np.float32)
    nodes = [
        node("Gather", ["table", "ids"], ["a"], "embed"),
        node("Cast", ["attention_mask"], ["b"], "cast", to=TensorProto.FLOAT),
        node("Unsqueeze", ["b", "last"], ["c"], "wide"),
        node("Mul", ["a", "c"], ["y"], "masked"),
    ]
    inputs = [tensor_input(n, [1, length], TensorProto.INT64) for n in ("ids", "attention_mask")]
    return model(nodes, inputs, ("y",), [weights("table", table), weights("last", np.array([2]))])

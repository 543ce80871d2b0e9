"""Two tiny models whose generated C is kept in git; weights come from a formula, so no library can change them."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper
from small_models import model, node, tensor_input, weights


def numbers(*shape: int) -> np.ndarray:
    """Small fractions that are exact in every format."""
    n = int(np.prod(shape))
    return ((np.arange(n) * 7 % 17 - 8) / 16).astype(np.float32).reshape(shape)


def classifier() -> onnx.ModelProto:
    """A padded convolution, a depthwise one, pooling, a product and softmax: contract, window, row and border."""
    nodes = [
        node("Conv", ["image", "w0", "b0"], ["a"], "stem", pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Relu", ["a"], ["b"], "stem/relu"),
        node("Conv", ["b", "w1"], ["c"], "depthwise", group=4, pads=[1, 1, 1, 1]),
        node("GlobalAveragePool", ["c"], ["d"], "mean"),
        node("Flatten", ["d"], ["e"], "flat"),
        node("MatMul", ["e", "w2"], ["f"], "head"),
        node("Softmax", ["f"], ["scores"], "softmax", axis=1),
    ]
    constants = [("w0", (4, 2, 3, 3)), ("b0", (4,)), ("w1", (4, 1, 3, 3)), ("w2", (4, 5))]
    return model(
        nodes, [tensor_input("image", [1, 2, 8, 8])], ["scores"], [weights(n, numbers(*s)) for n, s in constants]
    )


def blend() -> onnx.ModelProto:
    """A concatenation, a transposition, a comparison and a gather, with two inputs: maps of several types."""
    nodes = [
        node("Sigmoid", ["left"], ["a"], "squash"),
        node("Concat", ["a", "right"], ["b"], "join", axis=1),
        node("Transpose", ["b"], ["c"], "turn", perm=[1, 0]),
        node("Less", ["c", "limit"], ["d"], "is_low"),
        node("Where", ["d", "c", "limit"], ["mixed"], "choose"),
        node("Gather", ["mixed", "order"], ["picked"], "pick", axis=0),
    ]
    inputs = [
        tensor_input("left", [3, 5]), tensor_input("right", [3, 2]),
        helper.make_tensor_value_info("order", onnx.TensorProto.INT64, [4]),
    ]  # fmt: skip
    return model(nodes, inputs, ["mixed", "picked"], [weights("limit", np.float32(0.625))])


MODELS = {"classifier": (classifier, "x86_64_avx512"), "blend": (blend, "generic")}

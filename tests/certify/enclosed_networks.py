"""Small networks in ONNX for the tests of bounds in C, of the kinds of operators that have rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

#: Networks are built once for several tests: their weights are the same whichever comes first.
_RANDOM = np.random.default_rng(5)


def weights(*shape: int) -> np.ndarray:
    """Drawn weights whose sums stay about as large as what they multiply."""
    terms = int(np.prod(shape[1:])) if len(shape) > 1 else 1
    return (_RANDOM.normal(size=shape) / np.sqrt(terms)).astype(np.float32)


def node(op: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), [output], name=output, **attributes)


def model(nodes: list[onnx.NodeProto], shape: tuple[int, ...], constants: dict[str, Any]) -> onnx.ModelProto:
    """A model from ``x`` of a shape to ``y``."""
    tensors = [numpy_helper.from_array(np.asarray(v), name) for name, v in constants.items()]
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", [given], [made], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def dense(rows: int = 1) -> onnx.ModelProto:
    nodes = [node("Gemm", "x w1 b1", "a"), node("Relu", "a", "c"), node("Gemm", "c w2 b2", "y")]
    return model(nodes, (rows, 64), {"w1": weights(64, 48), "b1": weights(48), "w2": weights(48, 7), "b2": weights(7)})


def convolutions() -> onnx.ModelProto:
    """Convolutions of two kinds, batch normalization, pooling, a residual, a softmax."""
    nodes = [
        node("Conv", "x w1 b1", "a", pads=[1, 1, 1, 1]), node("BatchNormalization", "a s b m v", "n"),
        node("Relu", "n", "c"), node("MaxPool", "c", "d", kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", "d w2", "e", pads=[1, 1, 1, 1], group=16), node("Conv", "e w3 b3", "f"),
        node("Add", "f d", "g"), node("LeakyRelu", "g", "h", alpha=0.1),
        node("AveragePool", "h", "i", kernel_shape=[3, 3], pads=[1, 1, 1, 1]), node("GlobalAveragePool", "i", "j"),
        node("Flatten", "j", "k"), node("Gemm", "k w4 b4", "l"), node("Softmax", "l", "y", axis=1),
    ]  # fmt: skip
    constants = {
        "w1": weights(16, 3, 3, 3), "b1": weights(16), "s": weights(16), "b": weights(16), "m": weights(16),
        "v": np.abs(weights(16)) + np.float32(0.5), "w2": weights(16, 1, 3, 3), "w3": weights(16, 16, 1, 1),
        "b3": weights(16), "w4": weights(16, 10), "b4": weights(10),
    }  # fmt: skip
    return model(nodes, (1, 3, 8, 8), constants)


def functions() -> onnx.ModelProto:
    """Element-wise functions that bend, of both signs, and choices by sign."""
    nodes = [
        node("Sigmoid", "x", "a"), node("Tanh", "x", "b"), node("Exp", "b", "c"), node("Log", "c", "d"),
        node("PRelu", "d slope", "e"), node("Mul", "e a", "f"), node("Softplus", "f", "g"), node("Sqrt", "g", "h"),
        node("Div", "x h", "i"), node("Abs", "i", "j"), node("HardSwish", "j", "k"), node("Clip", "k least most", "l"),
        node("Concat", "l b", "m", axis=1), node("Neg", "m", "n"), node("Floor", "i", "o"), node("Sub", "n o2", "q"),
        node("Concat", "o o", "o2", axis=1), node("Transpose", "q", "y", perm=[1, 0]),
    ]  # fmt: skip
    order = {n.name: n for n in nodes}
    nodes = [n for n in nodes if n.name != "o2"]
    nodes.insert([n.name for n in nodes].index("q"), order["o2"])
    slope = np.linspace(-1, 1, 16, dtype=np.float32)
    return model(nodes, (3, 16), {"slope": slope, "least": np.float32(-2), "most": np.float32(3)})


def transformer() -> onnx.ModelProto:
    """Attention, a residual, layer normalization, GELU."""
    nodes = [
        node("MatMul", "x wq", "q"), node("MatMul", "x wk", "k"), node("MatMul", "x wv", "v"),
        node("Transpose", "k", "kt", perm=[0, 2, 1]), node("MatMul", "q kt", "s"), node("Softmax", "s", "p", axis=-1),
        node("MatMul", "p v", "o"), node("Add", "o x", "r"), node("LayerNormalization", "r ga be", "t", axis=-1),
        node("MatMul", "t w1", "u"), node("Add", "u b1", "a"), node("Div", "a root", "g1"), node("Erf", "g1", "g2"),
        node("Add", "g2 one", "g3"), node("Mul", "a g3", "g4"), node("Mul", "g4 half", "g5"),
        node("MatMul", "wl g5", "y"),
    ]  # fmt: skip
    constants = {
        **{name: weights(16, 16) for name in ("wq", "wk", "wv", "w1")}, "b1": weights(16), "ga": weights(16),
        "be": weights(16), "root": np.float32(2**0.5), "one": np.float32(1), "half": np.float32(0.5),
        "wl": weights(5, 6),
    }  # fmt: skip
    return model(nodes, (1, 6, 16), constants)


NETWORKS = {
    "dense": dense(), "rows": dense(5), "convolutions": convolutions(), "functions": functions(),
    "transformer": transformer(),
}  # fmt: skip

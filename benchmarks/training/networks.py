"""Networks to train: those of the repository and of MLPerf Tiny, and small ones of other kinds, made here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.networks.catalog import models_folder

ROOT = Path(__file__).resolve().parents[2]
#: Models on disk: the digits of the repository, and those in the folder of models.
FILES = {
    "digits": ROOT / "apps" / "digits" / "digits.onnx",
    "ds_cnn": "mlperf_tiny/kws_ref_model_float32.onnx",
    "resnet8": "mlperf_tiny/pretrainedResnet.onnx",
    "mobilenet_vww": "mlperf_tiny/vww_96_float.onnx",
    "autoencoder": "mlperf_tiny/ad01_fp32.onnx",
}


def models() -> dict[str, onnx.ModelProto]:
    """By name; those whose file is not here are left out."""
    found = {name: models_folder() / path for name, path in FILES.items()}
    made = {"mlp": mlp(), "vit": vit(), "lstm": lstm(), "unet": unet()}
    return {**{name: onnx.load(path) for name, path in found.items() if path.is_file()}, **made}


class _Writer:
    """Nodes one after the other, with weights drawn as they are needed."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(1)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def weight(self, *shape: int, scale: float | None = None) -> str:
        scale = 1 / np.sqrt(np.prod(shape[1:]) or 1) if scale is None else scale
        return self.constant((self.random.standard_normal(shape) * scale).astype(np.float32), "w")

    def constant(self, array: np.ndarray, prefix: str = "c") -> str:
        name = f"{prefix}{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def __call__(self, operator: str, *inputs: str, **attributes: object) -> str:
        name = f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], name=name, **attributes))
        return name

    def model(self, shape: tuple[int, ...], result: str, dtype: int = TensorProto.FLOAT) -> onnx.ModelProto:
        given = helper.make_tensor_value_info("x", dtype, shape)
        output = helper.make_tensor_value_info(result, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "net", [given], [output], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def mlp() -> onnx.ModelProto:
    w = _Writer()
    x = "x"
    for k, n in ((20, 32), (32, 32), (32, 5)):
        x = w("Gemm", x, w.weight(n, k), w.weight(n), transB=1)
        x = w("Tanh", x) if n > 5 else x
    return w.model((4, 20), w("LogSoftmax", x))


def _attention(w: _Writer, x: str, tokens: int, width: int, heads: int) -> str:
    def projected(perm: tuple[int, ...]) -> str:
        y = w("Add", w("MatMul", x, w.weight(width, width)), w.weight(width))
        y = w("Reshape", y, w.constant(np.array([0, tokens, heads, width // heads])))
        return w("Transpose", y, perm=perm)

    scores = w("MatMul", projected((0, 2, 1, 3)), projected((0, 2, 3, 1)))
    scale = w.constant(np.array((width // heads) ** -0.5, np.float32), "s")
    y = w("MatMul", w("Softmax", w("Mul", scores, scale)), projected((0, 2, 1, 3)))
    y = w("Reshape", w("Transpose", y, perm=(0, 2, 1, 3)), w.constant(np.array([0, tokens, width])))
    return w("MatMul", y, w.weight(width, width))


def vit(size: int = 16, patch: int = 4, width: int = 24, heads: int = 3, blocks: int = 2) -> onnx.ModelProto:
    """Patches, then blocks of attention and of two matmuls with GELU, each after a layer normalization."""
    w = _Writer()
    tokens = (size // patch) ** 2
    x = w("Conv", "x", w.weight(width, 3, patch, patch), strides=(patch, patch))
    x = w("Transpose", w("Reshape", x, w.constant(np.array([0, width, tokens]))), perm=(0, 2, 1))
    x = w("Add", x, w.weight(tokens, width, scale=0.1))
    for _ in range(blocks):
        y = w("LayerNormalization", x, w.weight(width, scale=1.0), w.weight(width, scale=0.1))
        x = w("Add", x, _attention(w, y, tokens, width, heads))
        y = w("LayerNormalization", x, w.weight(width, scale=1.0), w.weight(width, scale=0.1))
        y = w("Gelu", w("MatMul", y, w.weight(width, 2 * width)))
        x = w("Add", x, w("MatMul", y, w.weight(2 * width, width)))
    x = w("Reshape", x, w.constant(np.array([0, tokens * width])))
    return w.model((2, 3, size, size), w("MatMul", x, w.weight(tokens * width, 10, scale=0.05)))


def lstm(steps: int = 12, words: int = 11, width: int = 8, hidden: int = 9) -> onnx.ModelProto:
    """Words looked up in a table, an LSTM, and a class of what it said last."""
    w = _Writer()
    x = w("Gather", w.weight(words, width, scale=1.0), "x", axis=0)
    gates = (w.weight(1, 4 * hidden, width), w.weight(1, 4 * hidden, hidden), w.weight(1, 8 * hidden))
    w("LSTM", x, *gates, hidden_size=hidden)
    node = w.nodes[-1]
    node.output[:] = ["all", "last", "cell"]
    y = w("Squeeze", "last", w.constant(np.array([0])))
    return w.model((steps, 3), w("Gemm", y, w.weight(hidden, 6)), TensorProto.INT64)


def unet() -> onnx.ModelProto:
    """Down by a strided convolution and a pool, up by transposed convolutions, with connections across."""
    w = _Writer()
    around = {"pads": (1, 1, 1, 1)}
    first = w("Relu", w("Conv", "x", w.weight(6, 3, 3, 3), **around))
    second = w("Relu", w("Conv", first, w.weight(8, 6, 3, 3), strides=(2, 2), **around))
    third = w("MaxPool", second, kernel_shape=(3, 3), strides=(2, 2), **around)
    third = w("Relu", w("Conv", third, w.weight(10, 8, 3, 3), dilations=(2, 2), pads=(2, 2, 2, 2)))
    up = w("ConvTranspose", third, w.weight(10, 8, 2, 2), strides=(2, 2))
    up = w("Relu", w("Conv", w("Concat", up, second, axis=1), w.weight(8, 16, 3, 3), **around))
    up = w("ConvTranspose", up, w.weight(8, 6, 3, 3), strides=(2, 2), pads=(1, 1, 1, 1), output_padding=(1, 1))
    return w.model((1, 3, 16, 16), w("Sigmoid", w("Conv", w("Concat", up, first, axis=1), w.weight(2, 12, 1, 1))))

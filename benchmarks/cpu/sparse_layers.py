"""Layers of known networks as graphs of one product, dense and with vectors of zeros, for edgec and for onnxruntime."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto

from benchmarks.networks.graph_writer import Writer
from edgec import ops
from edgec.ir.graph import Graph, Node, constant, placeholder
from edgec.ir.types import Type

F32, I8 = "fp32", "int8"


@dataclass(frozen=True)
class Layer:
    """``kernel`` x ``kernel`` convolution of ``size`` x ``size`` outputs; a matrix product is one of ``rows`` x 1."""

    network: str
    inputs: int
    outputs: int
    size: int
    kernel: int = 1
    stride: int = 1
    rows: int = 0

    @property
    def name(self) -> str:
        if self.rows:
            return f"{self.rows}x{self.inputs}x{self.outputs}"
        step = f"/{self.stride}" if self.stride > 1 else ""
        return f"{self.kernel}x{self.kernel}{step} {self.inputs}-{self.outputs} @{self.size}"

    @property
    def flops(self) -> int:
        return 2 * self.inputs * self.outputs * (self.rows or self.size**2) * self.kernel**2

    @property
    def extent(self) -> int:
        """Rows and columns of the input, its border included."""
        return (self.size - 1) * self.stride + self.kernel

    def weights(self, zeros: float, lanes: int, together: int) -> np.ndarray:
        """[outputs, inputs, kernel, kernel], a random share of blocks of lanes x together weights kept."""
        random = np.random.default_rng(0)
        w = random.standard_normal((self.outputs, self.inputs, self.kernel, self.kernel)).astype(np.float32)
        blocks = (-(-self.outputs // lanes), -(-self.inputs // together), self.kernel, self.kernel)
        order = random.permutation(int(np.prod(blocks)))
        kept = (order >= round(zeros * order.size)).reshape(blocks)
        mask = kept.repeat(lanes, 0).repeat(together, 1)[: self.outputs, : self.inputs]
        return (w * mask / np.sqrt(self.inputs * self.kernel**2)).astype(np.float32)


def graph(layer: Layer, dtype: str, w: np.ndarray) -> Graph:
    """y = relu(x * w + bias), channels last on both sides; of bytes, requantized to u8."""
    outputs = layer.outputs
    bias = np.linspace(-1, 1, outputs, dtype=np.float32)
    source = "f32" if dtype == F32 else "u8"
    if layer.rows:
        x = placeholder("x", Type(source, (layer.rows, layer.inputs)))
        matrix = np.ascontiguousarray(w[:, :, 0, 0].T)
        y = _product(x, matrix, dtype, lambda a, b: ops.node("matmul", a, b))
        return Graph((x,), (("y", _after(y, bias, dtype)),))
    n = layer.extent
    x = placeholder("x", Type(source, (1, n, n, layer.inputs)))
    first = ops.node("transpose", x, perm=(0, 3, 1, 2))
    options = {"strides": (layer.stride,) * 2, "dilations": (1, 1)}
    y = _product(first, w, dtype, lambda a, b: ops.node("conv", a, b, **options))
    done = _after(y, bias.reshape(1, outputs, 1, 1), dtype)
    return Graph((x,), (("y", ops.node("transpose", done, perm=(0, 2, 3, 1))),))


def _product(x: Node, w: np.ndarray, dtype: str, product) -> Node:  # type: ignore[no-untyped-def]
    if dtype == F32:
        return product(x, constant(w))
    return product(ops.node("cast", x, to="i32"), ops.node("cast", constant(_bytes(w)), to="i32"))


def _bytes(w: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(w / np.abs(w).max() * 127), -127, 127).astype(np.int8)


def _after(y: Node, bias: np.ndarray, dtype: str) -> Node:
    def number(value: float) -> Node:
        return constant(np.array(value, np.float32))

    if dtype == F32:
        return ops.node("max", ops.node("add", y, constant(bias)), number(0))
    y = ops.node("add", y, constant(np.rint(bias * 1000).astype(np.int32)))
    scale = constant(np.linspace(0.001, 0.002, bias.size, dtype=np.float32).reshape(bias.shape))
    y = ops.node("round", ops.node("mul", ops.node("cast", y, to="f32"), scale))
    return ops.node("cast", ops.node("min", ops.node("max", y, number(0)), number(255)), to="u8")


def onnx_model(layer: Layer, dtype: str, w: np.ndarray) -> onnx.ModelProto:
    """The same layer for onnxruntime, channels first, which it likes best."""
    g = Writer()
    n = layer.extent
    shape = (layer.rows, layer.inputs) if layer.rows else (1, layer.inputs, n, n)
    result = (layer.rows, layer.outputs) if layer.rows else (1, layer.outputs, layer.size, layer.size)
    strides = {} if layer.rows else {"strides": [layer.stride] * 2}
    matrix = np.ascontiguousarray(w[:, :, 0, 0].T) if layer.rows else w
    if dtype == F32:
        bias = g.weight("b", np.linspace(-1, 1, layer.outputs, dtype=np.float32))
        op = "Gemm" if layer.rows else "Conv"
        g.node("Relu", g.node(op, "x", g.weight("w", matrix), bias, **strides), name="y")
        kind = TensorProto.FLOAT
    else:
        one, zero = g.weight("s", np.array(0.01, np.float32)), g.weight("z", np.array(0, np.uint8))
        none = g.weight("zw", np.zeros(layer.outputs, np.int8))
        scales = g.weight("sw", np.linspace(0.001, 0.002, layer.outputs, dtype=np.float32))
        op = "QLinearMatMul" if layer.rows else "QLinearConv"
        bias = () if layer.rows else (g.weight("b", np.zeros(layer.outputs, np.int32)),)
        g.node(op, "x", one, zero, g.weight("w", _bytes(matrix)), scales, none, one, zero, *bias, name="y", **strides)
        kind = TensorProto.UINT8
    return g.model("layer", {"x": (kind, shape)}, {"y": (kind, result)}, opset=13)


def _resnet50() -> list[Layer]:
    ones = [(64, 64, 56), (64, 256, 56), (256, 64, 56), (256, 128, 56), (128, 512, 28), (512, 128, 28), (512, 256, 28),
            (256, 1024, 14), (1024, 256, 14), (1024, 512, 14), (512, 2048, 7), (2048, 512, 7)]  # fmt: skip
    down = [(256, 512, 28), (512, 1024, 14), (1024, 2048, 7)]
    threes = [(64, 56, 1), (128, 28, 1), (256, 14, 1), (512, 7, 1), (128, 28, 2), (256, 14, 2), (512, 7, 2)]
    return [
        *(Layer("resnet50", *shape) for shape in ones),
        *(Layer("resnet50", *shape, stride=2) for shape in down),
        *(Layer("resnet50", c, c, size, 3, stride) for c, size, stride in threes),
        Layer("resnet50", 2048, 1000, 1, rows=1),
    ]


def _mobilenet_v2() -> list[Layer]:
    shapes = [(32, 16, 112), (16, 96, 112), (96, 24, 56), (24, 144, 56), (144, 24, 56), (144, 32, 28), (32, 192, 28),
              (192, 32, 28), (192, 64, 14), (64, 384, 14), (384, 64, 14), (384, 96, 14), (96, 576, 14), (576, 96, 14),
              (576, 160, 7), (160, 960, 7), (960, 160, 7), (960, 320, 7), (320, 1280, 7)]  # fmt: skip
    return [Layer("mobilenetv2", *shape) for shape in shapes]


#: The distinct products of ResNet-50, MobileNetV2's pointwise convolutions, BERT-base's dense layers on 128 tokens.
LAYERS = [
    *_resnet50(),
    *_mobilenet_v2(),
    *(Layer("bert", k, n, 1, rows=128) for k, n in ((768, 768), (768, 3072), (3072, 768))),
]

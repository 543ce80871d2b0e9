"""Layers as PyTorch's exporter writes them: one ONNX node an operation, norms and activations taken apart.

Weights are random, of a size that keeps what passes through them near one; all shapes are fixed.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod, sqrt
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from benchmarks.networks.graph_writer import Writer

OPSET = 13
Shape = tuple[int, ...]


def _each(value: int | Sequence[int], rank: int) -> Shape:
    return (value,) * rank if isinstance(value, int) else tuple(value)


class Net(Writer):
    """A writer that knows the shape of every tensor; a method is a layer and gives the name of its result."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self.random = np.random.default_rng(seed)
        self.shapes: dict[str, Shape] = {}
        self.kinds: dict[str, int] = {}  # of what is not float32
        self.outputs: tuple[str, ...] = ()
        self.inputs: dict[str, tuple[int, Shape]] = {}

    # ---- tensors

    def input(self, name: str, *shape: int, dtype: int = TensorProto.FLOAT) -> str:
        self.inputs[name] = (dtype, shape)
        self.shapes[name] = shape
        return name

    def drawn(self, *shape: int, terms: int = 1, gain: float = 1.0) -> str:
        """Random weights for sums of ``terms`` products."""
        array = self.random.standard_normal(shape, np.float32) * np.float32(gain / sqrt(terms))
        return self.constant(array)

    def constant(self, value: np.ndarray | float | Sequence[int]) -> str:
        """A number (float32), a list of whole numbers (int64) or an array."""
        if isinstance(value, (int, float)):
            array = np.array(value, np.float32)
        else:
            array = np.asarray(value, np.int64 if not isinstance(value, np.ndarray) else None)
        name = self.weight(f"w{len(self.weights)}", array)
        self.shapes[name] = array.shape
        return name

    def put(self, shape: Shape, op: str, *inputs: str, kind: int = TensorProto.FLOAT, **attributes: Any) -> str:
        """A node whose result has ``shape``, and the element type ``kind`` (which only outputs have to state)."""
        name = self.node(op, *inputs, **attributes)
        self.kinds[name] = kind
        self.shapes[name] = tuple(map(int, shape))
        return name

    def each(self, op: str, *inputs: str, **attributes: Any) -> str:
        """An operation element by element, with broadcasting."""
        shape = np.broadcast_shapes(*(self.shapes[i] for i in inputs))
        return self.put(shape, op, *inputs, **attributes)

    # ---- moving

    def reshape(self, x: str, *shape: int) -> str:
        known = prod(n for n in shape if n != -1)
        full = tuple(prod(self.shapes[x]) // known if n == -1 else n for n in shape)
        return self.put(full, "Reshape", x, self.constant(full))

    def transpose(self, x: str, *order: int) -> str:
        return self.put(tuple(self.shapes[x][d] for d in order), "Transpose", x, perm=list(order))

    def concat(self, *parts: str, axis: int = 1) -> str:
        shape = list(self.shapes[parts[0]])
        shape[axis] = sum(self.shapes[p][axis] for p in parts)
        return self.put(tuple(shape), "Concat", *parts, axis=axis)

    def split(self, x: str, parts: int, axis: int = 1) -> list[str]:
        shape = list(self.shapes[x])
        shape[axis] //= parts
        names = [f"split_{len(self.nodes)}_{k}" for k in range(parts)]
        sizes = self.constant([shape[axis]] * parts)
        self.node("Split", x, sizes, results=names, axis=axis)
        self.shapes.update(dict.fromkeys(names, tuple(shape)))
        return names

    def slice(self, x: str, axis: int, start: int, end: int, step: int = 1) -> str:
        shape = list(self.shapes[x])
        shape[axis] = len(range(shape[axis])[start:end:step])
        bounds = (self.constant([v]) for v in (start, end, axis, step))
        return self.put(tuple(shape), "Slice", x, *bounds)

    def upsample(self, x: str, factor: int = 2) -> str:
        n, c, *space = self.shapes[x]
        scales = self.constant(np.array([1, 1] + [factor] * len(space), np.float32))
        shape = (n, c, *(s * factor for s in space))
        return self.put(shape, "Resize", x, "", scales, mode="nearest", nearest_mode="floor",
                        coordinate_transformation_mode="asymmetric")  # fmt: skip

    # ---- convolutions and pools

    def conv(
        self, x: str, after: int, kernel: int | Sequence[int] = 3, stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] | None = None, groups: int = 1, bias: bool = True, dilation: int = 1,
    ) -> str:  # fmt: skip
        """A convolution; it keeps the size (over the stride) unless ``padding`` says otherwise."""
        n, before, *space = self.shapes[x]
        kernel, stride = _each(kernel, len(space)), _each(stride, len(space))
        reach = [dilation * (k - 1) + 1 for k in kernel]
        pads = [r // 2 for r in reach] if padding is None else _each(padding, len(space))
        terms = before // groups * prod(kernel)
        weights = self.drawn(after, before // groups, *kernel, terms=terms, gain=1.4)
        extra = [self.drawn(after, gain=0.1)] if bias else []
        size = [(s + 2 * p - r) // t + 1 for s, p, r, t in zip(space, pads, reach, stride)]
        return self.put((n, after, *size), "Conv", x, weights, *extra, kernel_shape=list(kernel),
                        strides=list(stride), pads=[*pads, *pads], group=groups,
                        dilations=[dilation] * len(space))  # fmt: skip

    def transposed(self, x: str, after: int, kernel: int = 2) -> str:
        """A transposed convolution of as many steps as it is wide."""
        n, before, *space = self.shapes[x]
        weights = self.drawn(before, after, *[kernel] * len(space), terms=before)
        return self.put((n, after, *(s * kernel for s in space)), "ConvTranspose", x, weights,
                        self.drawn(after, gain=0.1), strides=[kernel] * len(space))  # fmt: skip

    def norm(self, x: str) -> str:
        """Batch normalization with statistics near those of what comes in."""
        channels = self.shapes[x][1]
        scale, bias, mean = (self.constant(a) for a in (
            self.random.uniform(0.7, 1.0, channels).astype(np.float32),
            self.random.uniform(-0.1, 0.1, channels).astype(np.float32),
            self.random.uniform(-0.1, 0.1, channels).astype(np.float32),
        ))  # fmt: skip
        variance = self.constant(self.random.uniform(0.8, 1.2, channels).astype(np.float32))
        return self.put(self.shapes[x], "BatchNormalization", x, scale, bias, mean, variance)

    def unit(self, x: str, after: int, kernel: int | Sequence[int] = 3, stride: int | Sequence[int] = 1,
             act: str = "relu", **others: Any) -> str:  # fmt: skip
        """Convolution, batch normalization, activation."""
        return self.act(self.norm(self.conv(x, after, kernel, stride, bias=False, **others)), act)

    def pool(self, x: str, kind: str = "Max", kernel: int | Sequence[int] = 2,
             stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0) -> str:  # fmt: skip
        n, c, *space = self.shapes[x]
        kernel = _each(kernel, len(space))
        stride, pads = _each(kernel if stride is None else stride, len(space)), _each(padding, len(space))
        size = [(s + 2 * p - k) // t + 1 for s, p, k, t in zip(space, pads, kernel, stride)]
        return self.put((n, c, *size), f"{kind}Pool", x, kernel_shape=list(kernel), strides=list(stride),
                        pads=[*pads, *pads])  # fmt: skip

    def mean(self, x: str) -> str:
        """The mean over all positions."""
        n, c, *space = self.shapes[x]
        return self.put((n, c, *(1 for _ in space)), "GlobalAveragePool", x)

    def flatten(self, x: str) -> str:
        n, *rest = self.shapes[x]
        return self.put((n, prod(rest)), "Flatten", x, axis=1)

    # ---- activations

    def act(self, x: str, kind: str) -> str:
        if kind == "":
            return x
        if kind == "silu":
            return self.each("Mul", x, self.each("Sigmoid", x))
        if kind == "mish":
            return self.each("Mul", x, self.each("Tanh", self.each("Softplus", x)))
        if kind == "relu6":
            return self.each("Clip", x, self.constant(0.0), self.constant(6.0))
        if kind == "leaky":
            return self.each("LeakyRelu", x, alpha=0.1)
        if kind == "gelu":
            inner = self.each("Add", self.each("Erf", self.each("Div", x, self.constant(sqrt(2)))), self.constant(1.0))
            return self.each("Mul", self.each("Mul", x, inner), self.constant(0.5))
        if kind == "gelu_tanh":
            cube = self.each("Mul", self.each("Pow", x, self.constant(3.0)), self.constant(0.044715))
            inner = self.each("Mul", self.each("Add", x, cube), self.constant(sqrt(2 / np.pi)))
            grown = self.each("Add", self.each("Tanh", inner), self.constant(1.0))
            return self.each("Mul", self.each("Mul", x, self.constant(0.5)), grown)
        return self.each({"relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh"}[kind], x)

    # ---- dense layers

    def matmul(self, a: str, b: str) -> str:
        left, right = self.shapes[a], self.shapes[b]
        batch = np.broadcast_shapes(left[:-2], right[:-2])
        return self.put((*batch, left[-2], right[-1]), "MatMul", a, b)

    def dense(self, x: str, after: int, bias: bool = True) -> str:
        """x @ W + b along the last dimension."""
        before = self.shapes[x][-1]
        y = self.matmul(x, self.drawn(before, after, terms=before))
        return self.each("Add", y, self.drawn(after, gain=0.1)) if bias else y

    def gemm(self, x: str, after: int, gain: float = 1.0) -> str:
        """The dense layer of a classifier."""
        n, before = self.shapes[x]
        weights, bias = self.drawn(after, before, terms=before, gain=gain), self.drawn(after, gain=0.1)
        return self.put((n, after), "Gemm", x, weights, bias, transB=1)

    def layer_norm(self, x: str, axis: int = -1) -> str:
        """Layer normalization in nine operations."""
        shape = list(self.shapes[x])
        size = shape[axis]
        shape[axis] = 1
        mean = self.put(tuple(shape), "ReduceMean", x, axes=[axis])
        centered = self.each("Sub", x, mean)
        variance = self.put(tuple(shape), "ReduceMean", self.each("Pow", centered, self.constant(2.0)), axes=[axis])
        root = self.each("Sqrt", self.each("Add", variance, self.constant(1e-5)))
        scale = self.random.uniform(0.8, 1.2, size).astype(np.float32)
        bias = self.random.uniform(-0.1, 0.1, size).astype(np.float32)
        wide = [size if d == axis % len(shape) else 1 for d in range(axis % len(shape), len(shape))]
        y = self.each("Mul", self.each("Div", centered, root), self.constant(scale.reshape(wide)))
        return self.each("Add", y, self.constant(bias.reshape(wide)))

    def softmax(self, x: str, axis: int = -1) -> str:
        return self.put(self.shapes[x], "Softmax", x, axis=axis)

    # ---- the whole

    def giving(self, *outputs: str) -> Net:
        """The network with these outputs."""
        self.outputs = outputs
        return self

    def finished(self, name: str) -> onnx.ModelProto:
        ports = {o: (self.kinds.get(o, TensorProto.FLOAT), self.shapes[o]) for o in self.outputs}
        return self.model(name, self.inputs, ports, OPSET)

"""Layers with drawn weights, written as ONNX by hand."""

from __future__ import annotations

from math import sqrt

import numpy as np
import onnx
from onnx import TensorProto

from benchmarks.networks.graph_writer import Writer

CLASSES = 1000


class Drawn(Writer):
    """Layers with weights that keep the size of what passes through them."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.random = np.random.default_rng(seed)

    def drawn(self, *shape: int, size: float) -> str:
        array = (self.random.standard_normal(shape) * size).astype(np.float32)
        return self.weight(f"w{len(self.weights)}", array)

    def conv(
        self, x: str, channels: int, to: int, kernel: int, stride: int = 1, groups: int = 1, gain: float = 2.0
    ) -> str:
        terms = channels // groups * kernel * kernel
        w = self.drawn(to, channels // groups, kernel, kernel, size=sqrt(gain / terms))
        b = self.drawn(to, size=0.05)
        edge = kernel // 2
        return self.node("Conv", x, w, b, strides=[stride, stride], pads=[edge] * 4, group=groups)

    def relu6(self, x: str) -> str:
        low, high = self.weight("zero", np.float32(0)), self.weight("six", np.float32(6))
        return self.node("Clip", x, low, high)

    def dense(self, x: str, terms: int, to: int) -> str:
        y = self.node("MatMul", x, self.drawn(terms, to, size=0.7 / sqrt(terms)))
        return self.node("Add", y, self.drawn(to, size=0.02))

    def norm(self, x: str, width: int) -> str:
        scale = self.weight(f"w{len(self.weights)}", self.random.uniform(0.8, 1.2, width).astype(np.float32))
        return self.node("LayerNormalization", x, scale, self.drawn(width, size=0.05), axis=-1, epsilon=1e-6)

    def scored(self, x: str, channels: int) -> str:
        x = self.node("Flatten", self.node("GlobalAveragePool", x))
        y = self.node("MatMul", x, self.drawn(channels, CLASSES, size=1 / sqrt(channels)))
        return self.node("Add", y, self.drawn(CLASSES, size=0.05), name="scores")

    def picture(self, name: str, side: int) -> onnx.ModelProto:
        return self.model(
            name, {"image": (TensorProto.FLOAT, (1, 3, side, side))}, {"scores": (TensorProto.FLOAT, (1, CLASSES))}, 17
        )

"""Matrix products and convolutions to tune, each a network of one operator: those to learn from, and those left out."""

from __future__ import annotations

from math import prod

import numpy as np
import onnx
from onnx import TensorProto

from benchmarks.networks.graph_writer import Writer

#: Convolutions: channels, height and width, channels of the result, taps, stride.
Convolution = tuple[int, int, int, int, int]
#: Products: batches, rows, terms of a sum, columns, and whether the right side is constant.
Product = tuple[int, int, int, int, bool]

LEARNED: tuple[Convolution | Product, ...] = (
    (3, 96, 16, 3, 2), (8, 48, 16, 1, 1), (96, 24, 24, 1, 1), (24, 24, 144, 1, 1), (192, 12, 64, 1, 1),
    (64, 6, 384, 1, 1), (160, 6, 320, 1, 1), (32, 28, 32, 3, 1), (48, 20, 48, 3, 1), (64, 14, 96, 3, 2),
    (128, 10, 128, 3, 1), (16, 40, 16, 5, 1), (256, 5, 256, 3, 1), (40, 18, 80, 5, 2),
    (1, 128, 128, 128, True), (1, 128, 128, 512, True), (1, 64, 512, 128, True), (1, 32, 300, 300, True),
    (1, 8, 640, 128, True), (1, 1, 512, 1000, True), (1, 200, 96, 10, True), (2, 128, 32, 128, False),
    (4, 48, 48, 64, False), (1, 96, 200, 96, False),
)  # fmt: skip

HELD_OUT: tuple[Convolution | Product, ...] = (
    (3, 112, 32, 3, 2), (16, 56, 96, 1, 1), (144, 28, 32, 1, 1), (32, 28, 192, 1, 1), (384, 14, 64, 1, 1),
    (96, 14, 576, 1, 1), (576, 7, 160, 1, 1), (320, 7, 640, 1, 1), (16, 32, 16, 3, 1), (32, 16, 64, 3, 2),
    (64, 28, 64, 3, 1), (24, 40, 48, 3, 1), (128, 14, 128, 3, 1), (192, 7, 192, 3, 1), (20, 30, 30, 5, 1),
    (12, 50, 24, 5, 2), (64, 20, 21, 1, 1), (256, 10, 75, 1, 1), (3, 64, 24, 7, 2), (80, 9, 112, 3, 1),
    (1, 64, 384, 384, True), (1, 128, 312, 312, True), (1, 48, 768, 96, True), (1, 16, 256, 1024, True),
    (1, 4, 512, 512, True), (1, 1, 768, 768, True), (1, 500, 40, 12, True), (3, 64, 64, 64, False),
    (6, 100, 32, 100, False), (1, 150, 150, 150, False),
)  # fmt: skip


def name_of(shape: Convolution | Product) -> str:
    """In the words of the tables."""
    if isinstance(shape[-1], bool):
        batches, m, k, n, constant = shape
        return f"matmul {f'{batches} x ' * (batches > 1)}{m} x {k} x {n}{'' if constant else ', of two inputs'}"
    channels, side, wide, taps, stride = shape
    return f"conv {taps} x {taps}{f' / {stride}' * (stride > 1)}, {channels} x {side} x {side} -> {wide}"


def network_of(shape: Convolution | Product) -> onnx.ModelProto:
    """The network of one operator, with random weights."""
    rng, w = np.random.default_rng(prod(shape)), Writer()

    def random(*dims: int) -> np.ndarray:
        return rng.standard_normal(dims).astype(np.float32)

    if isinstance(shape[-1], bool):
        batches, m, k, n, constant = shape
        around = (batches,) if batches > 1 else ()
        inputs = {"x": (TensorProto.FLOAT, (*around, m, k))}
        if constant:
            right = w.weight("w", random(k, n))
        else:
            right, inputs["y"] = "y", (TensorProto.FLOAT, (*around, k, n))
        out, result = w.node("MatMul", "x", right), (*around, m, n)
    else:
        channels, side, wide, taps, stride = shape
        inputs = {"x": (TensorProto.FLOAT, (1, channels, side, side))}
        pads = [taps // 2] * 4
        kernel = w.weight("w", random(wide, channels, taps, taps))
        made = w.node("Conv", "x", kernel, w.weight("b", random(wide)), pads=pads, strides=[stride] * 2)
        out, edge = w.node("Relu", made), (side + 2 * (taps // 2) - taps) // stride + 1
        result = (1, wide, edge, edge)
    return w.model("product", inputs, {out: (TensorProto.FLOAT, result)}, 17)

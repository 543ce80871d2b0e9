"""Networks in the shapes of MobileNetV2, ResNet-50, YOLOv8n, BERT and Llama with drawn weights, written by hand."""

from __future__ import annotations

from math import sqrt
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto

from benchmarks.published.detectors import yolov8
from benchmarks.several import decoder
from benchmarks.several.drawn import Drawn

#: MobileNetV2: expansion, output channels, repeats, stride of the first.
INVERTED = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
#: ResNet-50: width, repeats, stride of the first.
BOTTLENECKS = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))


def mobilenet_v2(side: int = 224) -> onnx.ModelProto:
    """image [1, 3, side, side] -> scores [1, 1000]."""
    d = Drawn(1)
    x, channels = d.relu6(d.conv("image", 3, 32, 3, 2)), 32
    for expansion, to, repeats, first in INVERTED:
        for k in range(repeats):
            stride, wide = first if k == 0 else 1, channels * expansion
            y = d.relu6(d.conv(x, channels, wide, 1)) if expansion > 1 else x
            y = d.relu6(d.conv(y, wide, wide, 3, stride, wide))
            y = d.conv(y, wide, to, 1, gain=1.0)
            x = d.node("Add", x, y) if stride == 1 and channels == to else y
            channels = to
    return _finished(d, d.relu6(d.conv(x, channels, 1280, 1)), 1280, "mobilenet_v2", side)


def resnet50(side: int = 224) -> onnx.ModelProto:
    """image [1, 3, side, side] -> scores [1, 1000]."""
    d = Drawn(2)
    x = d.node("Relu", d.conv("image", 3, 64, 7, 2))
    x, channels = d.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]), 64
    for width, repeats, first in BOTTLENECKS:
        for k in range(repeats):
            stride = first if k == 0 else 1
            y = d.node("Relu", d.conv(x, channels, width, 1))
            y = d.node("Relu", d.conv(y, width, width, 3, stride))
            y = d.conv(y, width, 4 * width, 1, gain=0.5)
            x = d.conv(x, channels, 4 * width, 1, stride, gain=1.0) if k == 0 else x
            x, channels = d.node("Relu", d.node("Add", x, y)), 4 * width
    return _finished(d, x, channels, "resnet50", side)


def _finished(d: Drawn, x: str, channels: int, name: str, side: int) -> onnx.ModelProto:
    d.scored(x, channels)
    return d.picture(name, side)


def bert(layers: int = 4, width: int = 768, length: int = 128, heads: int = 12) -> onnx.ModelProto:
    """embedded [1, length, width] -> hidden [1, length, width]: the layers of BERT-base, without the embedding."""
    d = Drawn(3)
    x, of_head = "embedded", width // heads
    split = d.weight("split", np.array([1, length, heads, of_head], np.int64))
    merged = d.weight("merged", np.array([1, length, width], np.int64))
    scale, half, one = (d.weight(n, np.float32(v)) for n, v in (("scale", of_head**-0.5), ("half", 0.5), ("one", 1)))
    root = d.weight("root", np.float32(sqrt(0.5)))
    for _ in range(layers):
        q, k, v = (d.node("Reshape", d.dense(x, width, width), split) for _ in range(3))
        q, v = (d.node("Transpose", t, perm=[0, 2, 1, 3]) for t in (q, v))
        k = d.node("Transpose", k, perm=[0, 2, 3, 1])
        weights = d.node("Softmax", d.node("Mul", d.node("MatMul", q, k), scale), axis=-1)
        y = d.node("Reshape", d.node("Transpose", d.node("MatMul", weights, v), perm=[0, 2, 1, 3]), merged)
        x = d.norm(d.node("Add", x, d.dense(y, width, width)), width)
        y = d.dense(x, width, 4 * width)
        y = d.node("Mul", d.node("Mul", y, half), d.node("Add", d.node("Erf", d.node("Mul", y, root)), one))
        x = d.norm(d.node("Add", x, d.dense(y, 4 * width, width)), width)
    d.node("Identity", x, name="hidden")
    shape = (TensorProto.FLOAT, (1, length, width))
    return d.model(f"bert_{layers}", {"embedded": shape}, {"hidden": shape}, 17)


def detector(size: int = 320) -> onnx.ModelProto:
    """picture [1, 3, size, size] -> boxes and scores: the layers and sizes of YOLOv8n."""
    return yolov8(size).finished("yolov8n_shape")


#: Every network by its name.
NETWORKS = {
    "mobilenet_v2": mobilenet_v2, "resnet50": resnet50, "yolov8n_shape": detector, "bert_4x768": bert,
    "llama_4x1024": decoder.llama, "bert_12x768": lambda: bert(12),
}  # fmt: skip
#: States of those that have some: inputs, and the outputs that are their next values.
STATES: dict[str, dict[str, str]] = {"llama_4x1024": decoder.STATES}


def written(name: str, folder: Path) -> Path:
    """The file of a network in a folder, made where it is not there."""
    path = folder / f"{name}.onnx"
    if not path.is_file():
        onnx.save(NETWORKS[name](), str(path))
    return path

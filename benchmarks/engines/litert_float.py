"""An ONNX file of a plain convolutional network as a file of TensorFlow Lite: run where litert-torch is installed.

    python litert_float.py NAME.onnx NAME.in.npz NAME.tflite

For networks that come as ONNX alone (`wheels.py`); those of `make_networks.py` are converted from their modules.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import litert_torch
import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper
from torch import Tensor, nn
from torch.nn import functional

Operands = Sequence[Tensor]
Attributes = dict[str, Any]


def _conv(x: Operands, a: Attributes) -> Tensor:
    top, left, bottom, right = a.get("pads", (0, 0, 0, 0))
    return functional.conv2d(functional.pad(x[0], (left, right, top, bottom)), *x[1:], stride=a.get("strides", 1),
                             dilation=a.get("dilations", 1), groups=a.get("group", 1))  # fmt: skip


def _norm(x: Operands, a: Attributes) -> Tensor:
    value, scale, shift, mean, variance = x
    return functional.batch_norm(value, mean, variance, scale, shift, eps=a.get("epsilon", 1e-5))


OPERATORS: dict[str, Callable[[Operands, Attributes], Tensor]] = {
    "Conv": _conv,
    "BatchNormalization": _norm,
    "Clip": lambda x, a: torch.clamp(x[0], float(x[1]), float(x[2])),
    "Add": lambda x, a: x[0] + x[1],
    "GlobalAveragePool": lambda x, a: x[0].mean((2, 3), keepdim=True),
    "Flatten": lambda x, a: torch.flatten(x[0], 1),
    "Gemm": lambda x, a: functional.linear(x[0], x[1] if a.get("transB") else x[1].T, x[2]),
}


class Network(nn.Module):
    """The nodes of a graph one after the other."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        super().__init__()
        self.graph = graph
        self.constants = {t.name: torch.tensor(numpy_helper.to_array(t)) for t in graph.initializer}

    def forward(self, *arrays: Tensor) -> Tensor:
        inputs = [i.name for i in self.graph.input if i.name not in self.constants]
        values = {**self.constants, **dict(zip(inputs, arrays))}
        for n in self.graph.node:
            given = {a.name: helper.get_attribute_value(a) for a in n.attribute}
            values[n.output[0]] = OPERATORS[n.op_type]([values[i] for i in n.input], given)
        return values[self.graph.output[0].name]


def convert(source: Path, inputs: Path, target: Path) -> None:
    with np.load(inputs, allow_pickle=False) as data:
        samples = tuple(torch.tensor(data[name]) for name in data.files)
    network = Network(onnx.load(source).graph)
    litert_torch.convert(network.eval(), samples).export(str(target))


if __name__ == "__main__":
    convert(*map(Path, sys.argv[1:4]))

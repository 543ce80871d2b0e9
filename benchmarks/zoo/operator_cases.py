"""Single operators of odd sizes: convolutions, pools, products, normalizations, and what moves elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Shape = Sequence[int]


@dataclass(frozen=True)
class Ints:
    """An input of whole numbers from ``low`` to below ``high``."""

    shape: Shape
    high: int
    dtype: str = "int64"
    low: int = 0


@dataclass(frozen=True)
class Single:
    """One operator: its inputs and its weights, floats where only their shape is given, and its attributes.

    Operators ``then`` follow: (operator, names of its inputs, attributes), of which ``y`` is the result so far, ``x0``
    the first input and ``w0`` the first of the weights. The
    first one reads two operands then. "" among the weights is an operand left out.
    """

    operator: str
    inputs: Sequence[Shape | Ints]
    weights: Sequence[Shape | np.ndarray | str] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    then: Sequence[tuple[str, Sequence[str], Mapping[str, Any]]] = ()


def conv(shape: Shape, weights: Shape, stride: int = 1, pad: int = 0, dilation: int = 1, groups: int = 1) -> Single:
    rank = len(shape) - 2
    attributes = {"strides": [stride] * rank, "pads": [pad] * 2 * rank, "dilations": [dilation] * rank, "group": groups}
    return Single("Conv", [shape], [weights], attributes)


def pool(operator: str, shape: Shape, kernel: int, pad: int, stride: int = 1) -> Single:
    attributes = {"kernel_shape": [kernel] * 2, "pads": [pad] * 4, "strides": [stride] * 2}
    return Single(operator, [shape], (), attributes)


def quantized(shape: Shape, weights: Shape, pad: int, groups: int = 1) -> Single:
    """A convolution of bytes, as onnxruntime's quantizer writes it."""
    random = np.random.default_rng(2)
    scale, zero = np.array(0.02, np.float32), np.array(128, np.uint8)
    values = random.integers(-127, 128, weights).astype(np.int8)
    others = [scale, zero, values, np.array(0.01, np.float32), np.array(0, np.int8), np.array(0.5, np.float32), zero]
    return Single("QLinearConv", [Ints(shape, 256, "uint8")], others, {"pads": [pad] * 4, "group": groups})


def resize(shape: Shape, to: Shape, mode: str, **attributes: str) -> Single:
    return Single("Resize", [shape], ["", "", np.array(to)], {"mode": mode, **attributes})


OPERATORS: Mapping[str, Single] = {
    "conv 3x3 stride 2, deep, 5x5": conv((1, 2048, 5, 5), (128, 2048, 3, 3), 2, 1),
    "conv 3x3, 3x3 image": conv((1, 512, 3, 3), (512, 512, 3, 3), 1, 1),
    "conv 3x3, 4x4, batch 4": conv((4, 512, 4, 4), (512, 512, 3, 3), 1, 1),
    "conv 1x1, one pixel, batch 8": conv((8, 1024, 1, 1), (256, 1024, 1, 1)),
    "conv 11x11 stride 4 of 3 channels": conv((1, 3, 224, 224), (96, 3, 11, 11), 4, 2),
    "conv 7x7 stride 2 of 3 channels": conv((1, 3, 224, 224), (64, 3, 7, 7), 2, 3),
    "conv 5x5": conv((1, 64, 28, 28), (64, 64, 5, 5), 1, 2),
    "conv 3x3 to 36 channels": conv((1, 256, 50, 50), (36, 256, 3, 3), 1, 1),
    "conv 3x3 to 1 channel": conv((1, 32, 128, 128), (1, 32, 3, 3), 1, 1),
    "conv 5x5 stride 3, 17x19": conv((1, 48, 17, 19), (80, 48, 5, 5), 3, 1),
    "conv 3x3 dilated by 6": conv((1, 256, 32, 32), (256, 256, 3, 3), 1, 6, 6),
    "conv 3x3 of 4 groups": conv((1, 96, 28, 28), (96, 24, 3, 3), 1, 1, groups=4),
    "conv 3x3 of 40 groups": conv((1, 120, 28, 28), (120, 3, 3, 3), 1, 1, groups=40),
    "depthwise 31x31": conv((1, 64, 28, 28), (64, 1, 31, 31), 1, 15, groups=64),
    "depthwise 3x3 stride 2, 7x7": conv((1, 960, 7, 7), (960, 1, 3, 3), 2, 1, groups=960),
    "depthwise 3x3 of two outputs": conv((1, 64, 56, 56), (128, 1, 3, 3), 1, 1, groups=64),
    "patches of 32x32": conv((1, 3, 224, 224), (768, 3, 32, 32), 32),
    "conv of video": conv((1, 16, 8, 28, 28), (32, 16, 3, 3, 3), 1, 1),
    "conv of sound, 80 to 512": conv((1, 80, 3000), (512, 80, 3), 1, 1),
    "conv of sound, 10 stride 5": conv((1, 512, 999), (512, 512, 10), 5),
    "transposed conv 4x4 stride 2": Single(
        "ConvTranspose", [(1, 256, 16, 16)], [(256, 128, 4, 4)], {"strides": [2, 2], "pads": [1] * 4}
    ),
    "transposed conv 2x2 stride 2": Single("ConvTranspose", [(1, 64, 64, 64)], [(64, 3, 2, 2)], {"strides": [2, 2]}),
    "average pool 3x3": pool("AveragePool", (1, 256, 35, 35), 3, 1),
    "max pool 13x13": pool("MaxPool", (1, 256, 20, 20), 13, 6),
    "product of a row": Single("MatMul", [(1, 4096)], [(4096, 4096)]),
    "product, long sums": Single("MatMul", [(9, 18432)], [(18432, 128)]),
    "product, few of everything": Single("MatMul", [(300, 7)], [(7, 5)]),
    "product by a vector": Single("MatMul", [(64, 4096)], [(4096, 1)]),
    "products of two inputs": Single("MatMul", [(12, 128, 64), (12, 64, 128)]),
    "softmax of rows": Single("Softmax", [(12, 197, 197)], (), {"axis": -1}),
    "softmax of columns": Single("Softmax", [(1000, 50)], (), {"axis": 0}),
    "transpose to channels last": Single("Transpose", [(1, 64, 112, 112)], (), {"perm": [0, 2, 3, 1]}),
    "transpose of a matrix": Single("Transpose", [(1000, 1001)], (), {"perm": [1, 0]}),
    "mean of columns": Single("ReduceMean", [(2048, 333)], [np.array([0])]),
    "layer normalization": Single("LayerNormalization", [(197, 768)], [(768,), (768,)], {"axis": -1}),
    "instance normalization": Single("InstanceNormalization", [(1, 64, 128, 128)], [(64,), (64,)]),
    "local response normalization": Single("LRN", [(1, 96, 55, 55)], (), {"size": 5}),
    "erf": Single("Erf", [(1, 512, 3072)]),
    "tanh": Single("Tanh", [(1, 100000)]),
    "depthwise 3x3 stride 2, 112x112": conv((1, 32, 112, 112), (32, 1, 3, 3), 2, 1, groups=32),
    "depthwise 3x3, 7x7": conv((1, 960, 7, 7), (960, 1, 3, 3), 1, 1, groups=960),
    "depthwise 7x7, 14x14": conv((1, 384, 14, 14), (384, 1, 7, 7), 1, 3, groups=384),
    "conv 1x7": Single("Conv", [(1, 128, 17, 17)], [(128, 128, 1, 7)], {"pads": [0, 3, 0, 3]}),
    "conv 7x1": Single("Conv", [(1, 128, 17, 17)], [(128, 128, 7, 1)], {"pads": [3, 0, 3, 0]}),
    "conv 1x1 to 96 channels, 112x112": conv((1, 16, 112, 112), (96, 16, 1, 1)),
    "transposed conv of 8 groups": Single(
        "ConvTranspose", [(1, 64, 28, 28)], [(64, 8, 3, 3)], {"strides": [2, 2], "pads": [1] * 4, "group": 8}
    ),
    "transposed depthwise conv": Single(
        "ConvTranspose", [(1, 64, 28, 28)], [(64, 1, 4, 4)], {"strides": [2, 2], "pads": [1] * 4, "group": 64}
    ),
    "conv of bytes 3x3": quantized((1, 64, 28, 28), (64, 64, 3, 3), 1),
    "conv of bytes 1x1": quantized((1, 256, 14, 14), (128, 256, 1, 1), 0),
    "depthwise conv of bytes": quantized((1, 96, 28, 28), (96, 1, 3, 3), 1, 96),
    "product of bytes": Single("MatMulInteger", [Ints((64, 512), 256, "uint8"), Ints((512, 512), 128, "int8", -128)]),
    "max pool 2x2": pool("MaxPool", (1, 64, 112, 112), 2, 0, 2),
    "max pool 3x3 stride 2": pool("MaxPool", (1, 64, 112, 112), 3, 1, 2),
    "average pool 2x2, 14x14": pool("AveragePool", (1, 256, 14, 14), 2, 0, 2),
    "max pool of video": Single("MaxPool", [(1, 16, 16, 28, 28)], (), {"kernel_shape": [3] * 3, "strides": [2] * 3}),
    "average pool of video": Single(
        "AveragePool", [(1, 16, 16, 28, 28)], (), {"kernel_shape": [2] * 3, "strides": [2] * 3}
    ),
    "global average pool, 7x7": Single("GlobalAveragePool", [(1, 1280, 7, 7)]),
    "gather of rows": Single("Gather", [(5000, 256), Ints((300,), 5000)]),
    "gather of columns": Single("Gather", [(512, 1000), Ints((333,), 1000)], (), {"axis": 1}),
    "gather of elements": Single("GatherElements", [(64, 1000), Ints((64, 300), 1000)], (), {"axis": 1}),
    "gather of pixels": Single("GatherND", [(50, 60, 16), Ints((400, 2), 50)]),
    "scatter of rows": Single("ScatterND", [(1000, 64), Ints((200, 1), 1000), (200, 64)], (), {"reduction": "add"}),
    "scatter of elements": Single(
        "ScatterElements", [(100, 200), Ints((100, 50), 200), (100, 50)], (), {"axis": 1, "reduction": "add"}
    ),
    "resize by 2, linear": resize((1, 32, 28, 28), (1, 32, 56, 56), "linear"),
    "resize by 2, nearest": resize(
        (1, 64, 28, 28), (1, 64, 56, 56), "nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"
    ),
    "resize to odd sizes, linear": resize(
        (1, 21, 33, 33), (1, 21, 129, 129), "linear", coordinate_transformation_mode="align_corners"
    ),
    "resize to odd sizes, cubic": resize((1, 16, 20, 20), (1, 16, 33, 35), "cubic"),
    "samples of a grid": Single("GridSample", [(1, 32, 48, 48), (1, 40, 40, 2)], (), {"mode": "linear"}),
    "cumulative sums of rows": Single("CumSum", [(64, 1000)], [np.array(1)]),
    "cumulative sums of columns": Single("CumSum", [(1000, 64)], [np.array(0)]),
    "largest 10 of rows": Single("TopK", [(64, 1000)], [np.array([10])], {"axis": -1}),
    "largest 100 of one row": Single("TopK", [(1, 20000)], [np.array([100])], {"axis": -1}),
    "argmax of channels": Single("ArgMax", [(1, 21, 128, 128)], (), {"axis": 1, "keepdims": 0}),
    "argmax of rows": Single("ArgMax", [(500, 1000)], (), {"axis": 1}),
    "scores of heads by einsum": Single(
        "Einsum", [(1, 8, 49, 32), (1, 8, 49, 32)], (), {"equation": "bhid,bhjd->bhij"}
    ),
    "attention pooling by einsum": Single(
        "Einsum", [(1, 64, 28, 28), (1, 9, 28, 28)], (), {"equation": "bchw,bkhw->bck"}
    ),
    "small products of a batch": Single("MatMul", [(1000, 7, 7), (1000, 7, 7)]),
    "products of rows of a batch": Single("MatMul", [(64, 1, 100), (64, 100, 100)]),
    "LSTM of 100 steps": Single("LSTM", [(100, 1, 128)], [(1, 256, 128), (1, 256, 64), (1, 512)], {"hidden_size": 64}),
    "GRU of 50 steps both ways": Single(
        "GRU",
        [(50, 1, 64)],
        [(2, 288, 64), (2, 288, 96), (2, 576)],
        {"hidden_size": 96, "direction": "bidirectional", "linear_before_reset": 1},
    ),
    "group normalization": Single("GroupNormalization", [(1, 64, 28, 28)], [(64,), (64,)], {"num_groups": 8}),
    "concatenation of 20 by channels": Single("Concat", [(1, 7, 33, 33)] * 20, (), {"axis": 1}),
    "concatenation of 16 by rows": Single("Concat", [(100, 7)] * 16, (), {"axis": 1}),
    "slice by steps": Single(
        "Slice", [(1, 32, 112, 112)], [np.array([1, 0]), np.array([112, 112]), np.array([2, 3]), np.array([2, 3])]
    ),
    "slice backwards": Single(
        "Slice", [(64, 1000)], [np.array([-1]), np.array([-1001]), np.array([1]), np.array([-1])]
    ),
    "padding by reflection": Single(
        "Pad", [(1, 32, 64, 64)], [np.array([0, 0, 3, 3, 0, 0, 3, 3])], {"mode": "reflect"}
    ),
    "padding by edges": Single("Pad", [(1, 32, 64, 64)], [np.array([0, 0, 3, 3, 0, 0, 3, 3])], {"mode": "edge"}),
    "mean over dimensions 1 and 3": Single("ReduceMean", [(8, 33, 17, 65)], [np.array([1, 3])]),
    "largest over dimensions 0 and 2": Single("ReduceMax", [(8, 33, 17, 65)], [np.array([0, 2])]),
    "sum of everything": Single("ReduceSum", [(8, 33, 17, 65)], (), {"keepdims": 0}),
    "softmax over a middle dimension": Single("Softmax", [(8, 64, 400)], (), {"axis": 1}),
    "log softmax of rows": Single("LogSoftmax", [(64, 5000)], (), {"axis": 1}),
    "choices by comparisons": Single(
        "Greater",
        [(64, 5000), (64, 5000)],
        (),
        {},
        [("Where", ("y", "x0", "x1"), {}), ("Clip", ("y",), {}), ("Mul", ("y", "x1"), {}), ("Abs", ("y",), {})],
    ),
    "sum by rows and columns": Single(
        "Add", [(1, 64, 56, 56), (1, 64, 1, 1)], (), {}, [("Mul", ("y", "x1"), {}), ("Add", ("y", "x0"), {})]
    ),
    "image to channels last": Single("Transpose", [(1, 3, 224, 224)], (), {"perm": [0, 2, 3, 1]}),
    "image to channels first": Single("Transpose", [(1, 224, 224, 3)], (), {"perm": [0, 3, 1, 2]}),
    "heads apart": Single("Transpose", [(1, 197, 12, 64)], (), {"perm": [0, 2, 1, 3]}),
    "dimensions reversed": Single("Transpose", [(17, 33, 9, 20)], (), {"perm": [3, 2, 1, 0]}),
    "channels shuffled": Single(
        "Reshape",
        [(1, 116, 28, 28)],
        [np.array([1, 2, 58, 28, 28]), np.array([1, 116, 28, 28])],
        {},
        [("Transpose", ("y",), {"perm": [0, 2, 1, 3, 4]}), ("Reshape", ("y", "w1"), {})],
    ),
    "depth to space": Single("DepthToSpace", [(1, 64, 56, 56)], (), {"blocksize": 2, "mode": "CRD"}),
    "space to depth": Single("SpaceToDepth", [(1, 16, 112, 112)], (), {"blocksize": 2}),
    "one of 100": Single("OneHot", [Ints((2000,), 100)], [np.array(100), np.array([0, 1], np.float32)]),
    "lower triangle": Single("Trilu", [(12, 128, 128)], (), {"upper": 0}),
    "tiles": Single("Tile", [(1, 16, 17, 17)], [np.array([1, 2, 3, 3])]),
    "gelu": Single("Gelu", [(197, 3072)]),
    "hard swish": Single("HardSwish", [(1, 96, 56, 56)]),
}

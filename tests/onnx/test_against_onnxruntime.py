"""Forms of operators that the node tests do not reach: old operator sets, and windows of every kind."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnxruntime
import pytest
from chance import RANDOM
from onnx import helper, numpy_helper

from edgec.frontend.onnx import import_model
from edgec.ir import evaluate


def floats(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


@dataclass(frozen=True)
class Case:
    """One node; operands in ``constants`` are initializers, the others inputs."""

    operator: str
    operands: tuple[np.ndarray | None, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    opset: int = 17
    constants: tuple[int, ...] = ()
    outputs: int = 1

    def __str__(self) -> str:
        return f"{self.operator}-{self.opset}"


def scalar(value: float) -> np.ndarray:
    return np.array(value, np.float32)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


X = floats(2, 3, 4)
IMAGE = floats(2, 4, 7, 9)
OLD = [
    Case("Clip", (X,), {"min": -0.5, "max": 0.5}, 7),
    Case("Clip", (X, scalar(-0.5), scalar(0.5)), {}, 12, (1, 2)),
    Case("GroupNormalization", (IMAGE, floats(2), floats(2)), {"num_groups": 2}, 18),
    Case("Pad", (X,), {"pads": [0, 1, 2, 0, 0, 1], "value": 1.5}, 7),
    Case("Pad", (X,), {"pads": [0, 1, 2, 0, 0, 1], "mode": "reflect"}, 7),
    Case("Pad", (X, ints(0, 1, 2, 0, 0, 1), scalar(2)), {}, 17),
    Case("Slice", (X,), {"starts": [1, -3], "ends": [3, 100], "axes": [1, 2]}, 7),
    Case("Slice", (X, ints(2, -1), ints(-100, 0), ints(1, 2), ints(-1, -2)), {}, 10, (1, 2, 3, 4)),
    Case("Split", (X,), {"axis": 1, "split": [1, 2]}, 7, outputs=2),
    Case("Split", (X, ints(1, 2)), {"axis": 1}, 13, (1,), 2),
    Case("Split", (X,), {"axis": 1, "num_outputs": 2}, 18, outputs=2),
    Case("Squeeze", (floats(1, 3, 1),), {"axes": [0]}, 7),
    Case("Squeeze", (floats(1, 3, 1),), {}, 13),
    Case("Unsqueeze", (X,), {"axes": [0, 4]}, 7),
    Case("Unsqueeze", (X, ints(-1, 0)), {}, 13, (1,)),
    Case("ReduceSum", (X,), {"axes": [1], "keepdims": 0}, 11),
    Case("ReduceSum", (X, ints(-1)), {}, 13, (1,)),
    Case("ReduceSum", (X,), {"noop_with_empty_axes": 1}, 13),
    Case("ReduceMax", (X,), {"axes": [-1, 0]}, 13),
    Case("ReduceLogSumExp", (X,), {"axes": [2], "keepdims": 0}, 13),
    Case("Softmax", (X,), {}, 7),
    Case("Softmax", (X,), {"axis": 2}, 11),
    Case("Softmax", (X,), {}, 13),
    Case("LogSoftmax", (X,), {"axis": 0}, 11),
    Case("Hardmax", (X,), {"axis": 1}, 11),
    Case("Shrink", (ints(-4, -2, -1, 0, 1, 2, 9),), {"bias": 0.3, "lambd": 1.5}, 9),
    Case("Shrink", (np.arange(7, dtype=np.uint8),), {"bias": 0.6, "lambd": 2.5}, 9),
    Case("TopK", (X,), {"k": 2, "axis": 1}, 9, outputs=2),
    Case("TopK", (X, ints(3)), {"largest": 0}, 11, (1,), 2),
    Case("Dropout", (X,), {"ratio": 0.3}, 7),
    Case("Dropout", (X, scalar(0.3)), {}, 13, (1,)),
    Case("BatchNormalization", (IMAGE, *(np.abs(floats(4)) + 0.1 for _ in range(4))), {}, 7, (1, 2, 3, 4)),
    Case("BatchNormalization", (IMAGE, *(np.abs(floats(4)) + 0.1 for _ in range(4))), {"epsilon": 0.01}, 15),
    Case("BatchNormalization", (IMAGE, *(np.abs(floats(4)) + 0.1 for _ in range(4))), {"momentum": 0.8}, 9, (), 5),
    Case("Upsample", (IMAGE,), {"scales": [1.0, 1.0, 2.0, 3.0]}, 7),
    Case("Upsample", (IMAGE, np.array([1, 1, 2, 2], np.float32)), {"mode": "linear"}, 9, (1,)),
    Case("Resize", (IMAGE, np.array([1, 1, 2, 0.5], np.float32)), {}, 10, (1,)),
    Case("Gemm", (floats(3, 4), floats(5, 4), floats(5)), {"transB": 1, "alpha": 0.5, "beta": 2.0}, 7, (1, 2)),
    Case("Gemm", (floats(4, 3), floats(4, 5)), {"transA": 1}, 11),
    Case("Flatten", (X,), {"axis": 2}, 7),
    Case("Scatter", (floats(4, 3), np.array([[0, 3, 1]]), floats(1, 3)), {}, 10),
    Case("MatMul", (floats(4), floats(2, 4, 3)), {}, 9),
    Case("MatMul", (floats(2, 3, 4), floats(4)), {}, 9),
    Case("PRelu", (IMAGE, floats(4, 1, 1)), {}, 7, (1,)),
    Case("OneHot", (np.array([[0, -1], [7, 2]]), ints(3), np.array([2, 5], np.float32)), {"axis": 0}, 9, (1,)),
    Case("Mean", (X, X * 2, floats(4)), {}, 8),
    Case("Einsum", (floats(2, 3, 3), floats(3, 4)), {"equation": "bii,ij->bj"}, 12),
    Case("Einsum", (floats(2, 1, 3), floats(5, 3)), {"equation": "...k,nk->...n"}, 12),
]
CORNERS = RANDOM.uniform(-5, 20, (12, 4))  # regions outside the picture, and turned around, among them
SAMPLED = [
    *(
        Case("AffineGrid", (floats(n, 2, 3), ints(n, 1, *space)), {"align_corners": aligned}, 20, (1,))
        for n, *space in ((1, 3, 4), (2, 1, 5))
        for aligned in (0, 1)
    ),
    Case("AffineGrid", (floats(1, 3, 4), ints(1, 1, 2, 3, 4)), {"align_corners": 1}, 20, (1,)),
    Case(
        "MaxRoiPool",
        (IMAGE, np.concatenate([RANDOM.integers(0, 2, (12, 1)), CORNERS], 1).astype(np.float32)),
        {"pooled_shape": [2, 3], "spatial_scale": 0.5},
    ),
    *(  # one sample a box, at the outermost places that still count, and beyond them
        Case(
            "RoiAlign",
            (IMAGE, np.array([[x - 0.5, y - 0.5, x + 0.5, y + 0.5]], np.float32), ints(1)),
            {"output_height": 1, "output_width": 1, "sampling_ratio": 1, "coordinate_transformation_mode": mode},
            16,
        )
        for x, y in ((-1, 2), (3, -1), (9, 2), (3, 7), (-1.25, 2), (3, 7.25))
        for mode in ("output_half_pixel", "half_pixel")
    ),
]

WINDOWS = [
    Case("Conv", (IMAGE, floats(6, 2, 3, 2), floats(6)), {"group": 2, "strides": [2, 1], "dilations": [1, 3]}),
    Case("Conv", (IMAGE, floats(6, 4, 3, 2)), {"auto_pad": "SAME_LOWER", "strides": [2, 2]}),
    Case("Conv", (floats(1, 2, 9), floats(3, 2, 4)), {"pads": [2, 1]}),
    Case(
        "Conv",
        (floats(1, 2, 5, 4, 6), floats(3, 2, 2, 3, 1)),
        {"pads": [0, 1, 0, 1, 0, 0], "strides": [1, 2, 2]},
    ),
    Case("ConvTranspose", (IMAGE, floats(4, 3, 3, 4), floats(3)), {"strides": [2, 3], "pads": [1, 0, 2, 1]}),
    Case("ConvTranspose", (IMAGE, floats(4, 3, 2, 2)), {"strides": [2, 2]}),
    Case(
        "ConvTranspose",
        (IMAGE, floats(4, 2, 3, 3)),
        {"group": 2, "strides": [2, 1], "output_padding": [1, 0]},
    ),
    Case("ConvTranspose", (IMAGE, floats(4, 3, 3, 2)), {"dilations": [2, 1], "pads": [1, 0, 1, 1]}),
    Case("ConvTranspose", (IMAGE, floats(4, 3, 3, 2)), {"dilations": [2, 3], "strides": [3, 2]}),
    Case("ConvTranspose", (IMAGE, floats(4, 3, 3, 3)), {"strides": [2, 2], "output_shape": [14, 18]}),
    Case("ConvTranspose", (IMAGE, floats(4, 3, 3, 3)), {"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    Case("ConvTranspose", (floats(1, 2, 5), floats(2, 3, 1)), {"strides": [3]}),
    Case("ConvTranspose", (floats(1, 2, 3, 4, 2), floats(2, 1, 2, 3, 2)), {"strides": [2, 1, 2]}),
    Case("MaxPool", (IMAGE,), {"kernel_shape": [3, 2], "strides": [2, 2], "ceil_mode": 1}, outputs=2),
    Case("MaxPool", (IMAGE,), {"kernel_shape": [3, 3], "pads": [1, 2, 0, 1], "storage_order": 1}, outputs=2),
    Case("MaxPool", (IMAGE,), {"kernel_shape": [2, 3], "dilations": [3, 2]}),
    Case("MaxPool", (IMAGE,), {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    Case(
        "AveragePool",
        (IMAGE,),
        {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1},
    ),
    Case("AveragePool", (IMAGE,), {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "count_include_pad": 1}),
    Case("AveragePool", (IMAGE,), {"kernel_shape": [2, 2], "auto_pad": "SAME_LOWER"}),
    Case("LpPool", (IMAGE,), {"kernel_shape": [3, 2], "p": 3}, 17),
    Case("LRN", (IMAGE,), {"size": 3, "alpha": 0.1, "beta": 0.6, "bias": 2.0}),
    Case("GlobalLpPool", (IMAGE,), {"p": 2}),
    Case("DepthToSpace", (IMAGE,), {"blocksize": 2, "mode": "CRD"}, 13),
    *(
        Case("Resize", (IMAGE, None, None, ints(2, 4, rows, columns)), attributes, 18, (3,))
        for rows, columns in ((14, 27), (5, 4))
        for attributes in (
            {"mode": "nearest"},
            {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
            {"mode": "linear"},
            {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
            {"mode": "linear", "antialias": 1},
            {"mode": "cubic", "exclude_outside": 1},
        )
    ),
]


def recurrent(operator: str, gates: int, steps: int = 4, **attributes: Any) -> Case:
    """Bidirectional, with biases and sequences of different lengths; many steps are a loop."""
    operands: list[np.ndarray | None] = [floats(steps, 3, 5), floats(2, gates * 6, 5), floats(2, gates * 6, 6)]
    operands += [floats(2, 2 * gates * 6), np.array([steps, 2, steps - 1], np.int32), floats(2, 3, 6)]
    if operator == "LSTM":
        operands += [floats(2, 3, 6), floats(2, 18)]
    attributes |= {"hidden_size": 6, "direction": "bidirectional"}
    return Case(operator, tuple(operands), attributes, 14, (1, 2, 3), 3 if operator == "LSTM" else 2)


RECURRENT = [
    case
    for steps in (4, 20)
    for case in (
        recurrent("RNN", 1, steps, activations=["Relu" if steps < 10 else "Sigmoid", "Tanh"]),
        recurrent("RNN", 1, steps, activations=["Tanh", "LeakyRelu"], activation_alpha=[0.6]),
        recurrent(
            "RNN", 1, steps, activations=["Softsign", "HardSigmoid"], activation_alpha=[0.3], activation_beta=[0.4]
        ),
        recurrent("GRU", 3, steps),
        recurrent("GRU", 3, steps, linear_before_reset=1),
        recurrent("LSTM", 4, steps),
        recurrent("LSTM", 4, steps, clip=0.4),
    )
]


def bands(count: int, length: int, rate: int, low: float, high: float) -> Case:
    """Of spectra so fine that a bin is another where an edge of a band is a little off."""
    sizes = (np.array(n, np.int64) for n in (count, length, rate))
    return Case("MelWeightMatrix", (*sizes, scalar(low), scalar(high)), {}, 17, (0, 1, 2, 3, 4))


BANDS = [bands(8, 16, 8000, 0, 4000), bands(40, 2048, 16000, 20, 7600), bands(5, 8192, 48000, 300, 22000)]


@pytest.mark.parametrize("case", [*OLD, *WINDOWS, *SAMPLED, *RECURRENT, *BANDS], ids=str)
def test_agrees(case: Case) -> None:
    names = [f"x{k}" if v is not None else "" for k, v in enumerate(case.operands)]
    given = {n: np.asarray(v) for n, v in zip(names, case.operands) if v is not None}
    constants = {names[k] for k in case.constants}
    results = [f"y{k}" for k in range(case.outputs)]
    graph = helper.make_graph(
        [helper.make_node(case.operator, names, results, **case.attributes)],
        "net",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
            for n, v in given.items()
            if n not in constants
        ],
        [helper.make_empty_tensor_value_info(n) for n in results],
        [numpy_helper.from_array(given[n], n) for n in sorted(constants)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", case.opset)], ir_version=9)
    feeds = {n: v for n, v in given.items() if n not in constants}
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)
    fixed = {n: v for n, v in feeds.items() if case.operator == "Pad" and v.dtype == np.int64}
    imported = import_model(model, values=fixed)
    got = evaluate.run(imported, feeds)
    for name, want in zip(results, expected):
        assert got[name].shape == want.shape and got[name].dtype == want.dtype
        np.testing.assert_allclose(got[name], want, rtol=1e-4, atol=1e-5)

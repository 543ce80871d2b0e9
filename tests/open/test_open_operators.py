"""Operators of ONNX along dimensions that are open, for several sizes, against onnxruntime."""

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

SIZES = (1, 2, 5, 8)
IMAGE, ROWS = (2, 3, "n", 4), (2, "n", 5)


@dataclass(frozen=True)
class Case:
    """One node of inputs whose dimension ``n`` is open; ``constants`` are operands behind them, None is left out."""

    operator: str
    inputs: tuple[tuple[int | str, ...], ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    constants: tuple[np.ndarray | None, ...] = ()
    outputs: int = 1
    opset: int = 18

    def __str__(self) -> str:
        return "-".join([self.operator, *(str(v) for v in self.attributes.values())])


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


FORMULAS = ("asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners")
NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
RESIZED = [
    Case("Resize", (IMAGE,), {**mode, "coordinate_transformation_mode": formula}, (None, *size))
    for formula in FORMULAS
    for mode in ({"mode": "linear"}, *({"mode": "nearest", "nearest_mode": way} for way in NEAREST))
    for size in ((floats(1, 1, 2, 1),), (floats(1, 1, 0.5, 1),), (None, ints(2, 3, 7, 4)), (None, ints(2, 3, 1, 4)))
    if not (formula == "align_corners" and size[0] is not None and size[0][2] < 1)  # onnxruntime's size is not whole
] + [
    Case("Resize", (IMAGE,), {"mode": "linear", "coordinate_transformation_mode": f}, (None, None, ints(2, 3, 2, 4)))
    for f in FORMULAS
]
MOVED = [
    Case("Softmax", (ROWS,), {"axis": 1}),
    Case("Softmax", (IMAGE,), {"axis": 2}, opset=11),
    Case("Softmax", (IMAGE,), {}, opset=11),
    Case("LogSoftmax", (ROWS,), {"axis": 1}),
    Case("Hardmax", (ROWS,), {"axis": 1}),
    *(Case("Trilu", (ROWS,), {"upper": upper}, (np.array(k),)) for upper in (0, 1) for k in (-2, 0, 1, 100)),
    *(Case("CumSum", (ROWS,), {"exclusive": e, "reverse": r}, (np.array(1),)) for e in (0, 1) for r in (0, 1)),
    Case("Tile", (ROWS,), {}, (ints(1, 3, 2),)),
    Case("Slice", (ROWS,), {}, (ints(1, -3), ints(100, -1), ints(1, 2))),
    Case("Slice", (ROWS,), {}, (ints(-1, -1), ints(-100, 0), ints(1, 2), ints(-1, -2))),
    Case("Slice", (ROWS,), {}, (ints(0), ints(100), ints(1), ints(3))),
    Case("Pad", (ROWS,), {"mode": "edge"}, (ints(0, 2, 1, 0, 1, 0),)),
    Case("Pad", (ROWS,), {}, (ints(0, 2, 1, 0, 1, 0), np.float32(1.5))),
    Case("Flatten", (IMAGE,), {"axis": 2}),
    Case("Flatten", (IMAGE,), {"axis": -1}),
    Case("Transpose", (IMAGE,), {"perm": [2, 0, 3, 1]}),
    Case("Concat", (ROWS, ROWS, (2, 3, 5)), {"axis": 1}),
    Case("Gather", (ROWS,), {"axis": 1}, (ints(0, -1),)),
    Case("Gather", (ROWS,), {"axis": 2}, (np.array([[0, -1], [4, 2]]),)),
    Case("Expand", ((2, "n", 1),), {}, (ints(1, 1, 6),)),
    Case("Unsqueeze", (ROWS,), {}, (ints(1, -1),)),
    Case("DepthToSpace", ((1, 8, "n", 3),), {"blocksize": 2, "mode": "CRD"}),
    Case("ReverseSequence", (("n", 2, 5),), {"batch_axis": 1, "time_axis": 0}, (ints(1, 1),)),
]
COMBINED = [
    *(
        Case(f"Reduce{name}", (ROWS,), {"keepdims": keep}, (ints(1, 2),))
        for name in ("Sum", "Mean", "Max", "Min", "L1", "L2", "LogSum", "LogSumExp", "SumSquare", "Prod")
        for keep in (0, 1)
        if name != "LogSum"
    ),
    *(Case(f"Arg{e}", (ROWS,), {"axis": 1, "select_last_index": last}) for e in ("Max", "Min") for last in (0, 1)),
    Case("MatMul", (("n", 4), (4, "n"))),
    Case("Gemm", (("n", 4),), {"transB": 1, "alpha": 0.5, "beta": 2.0}, (floats(*range(12)).reshape(3, 4), floats(7))),
    Case("Gemm", ((4, "n"),), {"transA": 1}, (floats(*range(12)).reshape(4, 3),)),
    Case("Einsum", (ROWS, ROWS), {"equation": "bik,bjk->bij"}),
    Case("GlobalAveragePool", (IMAGE,)),
    Case("GlobalMaxPool", (IMAGE,)),
    Case("LayerNormalization", (ROWS,), {"epsilon": 0.1}, (floats(1, 2, 3, 4, 5), floats(5, 4, 3, 2, 1))),
    Case("InstanceNormalization", (IMAGE,), {"epsilon": 0.1}, (floats(1, 2, 3), floats(3, 2, 1))),
    Case("LpNormalization", (ROWS,), {"axis": 1, "p": 1}),
    Case("MeanVarianceNormalization", (IMAGE,), {"axes": [0, 2, 3]}),
    Case("MaxPool", (IMAGE,), {"kernel_shape": [1, 2], "strides": [1, 2]}),
    Case("AveragePool", (IMAGE,), {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "count_include_pad": 0}),
    Case("AveragePool", (IMAGE,), {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "count_include_pad": 1}),
    Case("Conv", ((1, 2, "n", 5),), {"pads": [1, 1, 1, 1], "strides": [2, 1]}, (np.ones((3, 2, 3, 3), np.float32),)),
    Case("ConvTranspose", ((1, 2, "n", 5),), {"strides": [2, 2]}, (np.ones((2, 3, 3, 2), np.float32),)),
    Case("TopK", ((2, 6, "n"),), {"axis": 1}, (ints(3),), 2),
]


@pytest.mark.parametrize("case", [*RESIZED, *MOVED, *COMBINED], ids=str)
def test_agrees_for_every_size(case: Case) -> None:
    inputs = [f"x{k}" for k in range(len(case.inputs))]
    constants = {f"c{k}": v for k, v in enumerate(case.constants) if v is not None}
    names = [*inputs, *("" if v is None else f"c{k}" for k, v in enumerate(case.constants))]
    results = [f"y{k}" for k in range(case.outputs)]
    graph = helper.make_graph(
        [helper.make_node(case.operator, names, results, **case.attributes)],
        "net",
        [helper.make_tensor_value_info(n, 1, shape) for n, shape in zip(inputs, case.inputs)],
        [helper.make_empty_tensor_value_info(n) for n in results],
        [numpy_helper.from_array(v, n) for n, v in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", case.opset)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    imported = import_model(model, dims={"n": (SIZES[0], SIZES[-1], 1)})
    for size in SIZES:
        shapes = [tuple(size if d == "n" else int(d) for d in shape) for shape in case.inputs]
        feeds = {n: RANDOM.standard_normal(shape).astype(np.float32) for n, shape in zip(inputs, shapes)}
        got = evaluate.run(imported, feeds)
        for name, want in zip(results, session.run(None, feeds)):
            assert got[name].shape == want.shape and got[name].dtype == want.dtype
            np.testing.assert_allclose(got[name], want, rtol=1e-4, atol=1e-5, err_msg=str(size))

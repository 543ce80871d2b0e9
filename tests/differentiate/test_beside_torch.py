"""Gradients of single ONNX operators beside PyTorch's autograd."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from chance import RANDOM
from onnx import ModelProto, TensorProto, helper

pytest.importorskip("torch", reason="pip install torch")

from benchmarks.training.gradients import derived, expected
from edgec.frontend.onnx import import_model
from edgec.ir import evaluate

X, W = (2, 4, 9, 7), (6, 4, 3, 2)
#: The operator, the shapes of its operands, its attributes.
CASES: dict[str, tuple[str, Sequence[tuple[int, ...]], dict[str, Any]]] = {
    "conv": ("Conv", (X, W, (6,)), {"pads": (1, 0, 2, 1)}),
    "conv, strides": ("Conv", (X, W), {"strides": (2, 3), "pads": (1, 1, 1, 1)}),
    "conv, dilations": ("Conv", (X, W), {"dilations": (2, 3)}),
    "conv, strides and dilations": ("Conv", (X, W), {"strides": (3, 2), "dilations": (2, 2)}),
    "conv, groups": ("Conv", (X, (6, 2, 3, 3)), {"group": 2, "strides": (2, 1)}),
    "conv, depthwise": ("Conv", (X, (8, 1, 3, 3)), {"group": 4, "pads": (1, 1, 1, 1), "strides": (2, 2)}),
    "conv, wide": ("Conv", (X, (9, 4, 2, 3)), {"strides": (2, 1), "dilations": (1, 2), "pads": (1, 0, 0, 2)}),
    "conv, wide groups": ("Conv", ((2, 18, 6, 5), (4, 9, 3, 2)), {"group": 2, "strides": (1, 2)}),
    "conv, one dimension": ("Conv", ((3, 4, 11), (5, 4, 4)), {"strides": (3,)}),
    "conv, three dimensions": ("Conv", ((1, 2, 5, 6, 4), (3, 2, 2, 3, 2)), {"strides": (2, 1, 2)}),
    "conv transposed": ("ConvTranspose", (X, (4, 3, 3, 3)), {"strides": (2, 2), "pads": (1, 1, 1, 1)}),
    "max pool": ("MaxPool", (X,), {"kernel_shape": (3, 2), "strides": (2, 2), "pads": (1, 1, 1, 0)}),
    "max pool, apart": ("MaxPool", (X,), {"kernel_shape": (2, 2), "strides": (2, 2)}),
    "max pool, dilations": ("MaxPool", (X,), {"kernel_shape": (2, 2), "dilations": (3, 2)}),
    "average pool": ("AveragePool", (X,), {"kernel_shape": (3, 2), "strides": (2, 1), "pads": (1, 1, 1, 0)}),
    "matmul": ("MatMul", ((2, 3, 5, 4), (4, 6)), {}),
    "matmul, broadcast": ("MatMul", ((2, 1, 5, 4), (3, 4, 6)), {}),
    "gemm": ("Gemm", ((5, 4), (6, 5), (6,)), {"transA": 1, "transB": 1, "alpha": 0.5, "beta": 2.0}),
    "softmax": ("Softmax", ((3, 5, 4),), {"axis": 1}),
    "log softmax": ("LogSoftmax", ((3, 7),), {}),
    "layer normalization": ("LayerNormalization", ((3, 4, 5), (5,), (5,)), {}),
    "gelu": ("Gelu", ((3, 7),), {}),
    "gelu, by tanh": ("Gelu", ((3, 7),), {"approximate": "tanh"}),
    "division, broadcast": ("Div", ((3, 1, 4), (2, 1)), {}),
    "erf": ("Erf", ((3, 7),), {}),
    "concatenation": ("Concat", ((3, 2), (3, 5)), {"axis": 1}),
}


def network(operator: str, shapes: Sequence[tuple[int, ...]], attributes: dict[str, Any]) -> ModelProto:
    """The operator, and the square of its result, so that gradients depend on values."""
    names = [f"x{k}" for k in range(len(shapes))]
    nodes = [helper.make_node(operator, names, ["t"], **attributes), helper.make_node("Mul", ["t", "t"], ["y"])]
    given = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in zip(names, shapes)]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "net", given, [result])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


@pytest.mark.parametrize("name", CASES)
def test_beside_torch(name: str) -> None:
    model = network(*CASES[name])
    graph = import_model(model)
    inputs = {n.attributes["name"]: RANDOM.standard_normal(n.type.shape).astype(np.float32) + 0.1 for n in graph.inputs}
    seed = RANDOM.uniform(0.5, 1.5, graph.outputs[0][1].type.shape).astype(np.float32)
    got = evaluate.run(derived(graph, list(inputs)), {**inputs, "seed": seed})
    want = expected(model, {}, inputs, seed)
    assert set(got) == set(want)
    for output, array in want.items():
        assert np.max(np.abs(got[output] - array)) <= 1e-5 * np.max(np.abs(array)), output

"""The operator Gradient: derivatives at the values that the node is given, by weights and values in between too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import edgec.differentiate  # noqa: F401  (it brings the derivatives)
from edgec.errors import ModelError
from edgec.frontend.onnx import import_model
from edgec.ir import evaluate

F = TensorProto.FLOAT
X, W = np.array([0.5, -1.5, 2.0], np.float32), np.array([2.0, 3.0, -1.0], np.float32)


def found(nodes: list[Any], outputs: list[str], **inputs: np.ndarray) -> dict[str, np.ndarray]:
    made = helper.make_model(
        helper.make_graph(
            nodes, "net", [helper.make_tensor_value_info(n, F, a.shape) for n, a in inputs.items()],
            [helper.make_tensor_value_info(n, F, None) for n in outputs], [helper.make_tensor("w", F, [3], W)],
        ),
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.preview.training", 1)],
    )  # fmt: skip
    made.ir_version = 8
    return dict(evaluate.run(import_model(made), inputs))


def gradient(operands: list[str], results: list[str], **names: Any) -> Any:
    return helper.make_node("Gradient", operands, results, domain="ai.onnx.preview.training", **names)


#: h = sin(x), y = h * h * w
FORWARD = [
    helper.make_node("Sin", ["x"], ["h"]),
    helper.make_node("Mul", ["h", "h"], ["s"]),
    helper.make_node("Mul", ["s", "w"], ["y"]),
]


def test_by_inputs_and_weights() -> None:
    nodes = [*FORWARD, gradient(["x", "w"], ["dx", "dw"], xs=["x", "w"], y="y")]
    got = found(nodes, ["dx", "dw"], x=X)
    assert np.allclose(got["dx"], 2 * np.sin(X) * np.cos(X) * W, atol=1e-6)
    assert np.allclose(got["dw"], np.sin(X) ** 2, atol=1e-6)


def test_by_values_in_between_at_another_place() -> None:
    nodes = [*FORWARD, gradient(["z", "w"], ["dh"], xs=["h"], zs=["w"], y="y")]
    got = found(nodes, ["y", "dh"], x=X, z=X + 1)
    assert np.allclose(got["dh"], 2 * (X + 1) * W, atol=1e-6)
    assert np.allclose(got["y"], np.sin(X) ** 2 * W, atol=1e-6)


def test_second_order() -> None:
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["s"]), helper.make_node("Mul", ["s", "x"], ["y"]),
        gradient(["x"], ["d"], xs=["x"], y="y"), gradient(["x"], ["dd"], xs=["x"], y="d"),
    ]  # fmt: skip
    got = found(nodes, ["d", "dd"], x=X)
    assert np.allclose(got["d"], 3 * X**2, atol=1e-5) and np.allclose(got["dd"], 6 * X, atol=1e-5)


def test_nothing_depends_on_it() -> None:
    nodes = [*FORWARD, gradient(["x", "z"], ["dx", "dz"], xs=["x", "z"], y="y")]
    assert not found(nodes, ["dz"], x=X, z=X)["dz"].any()


def test_names_that_do_not_fit_are_refused() -> None:
    for names in ({"xs": ["x", "w"], "y": "y"}, {"xs": ["x"], "y": "nothing"}, {"xs": ["x"], "zs": ["x"], "y": "y"}):
        with pytest.raises(ModelError):
            found([*FORWARD, gradient(["x"], ["dx"], **names)], ["dx"], x=X)

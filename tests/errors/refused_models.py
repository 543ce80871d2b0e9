"""Models for the tests of refusals, and the refusal of one as text."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from small_models import model, node, tensor_input, weights

from edgec.errors import EdgecError
from edgec.frontend.onnx import import_model

RELU = model([node("Relu", ["x"], ["y"], name="r")])


def refusal(source: Any, **options: Any) -> str:
    with pytest.raises(EdgecError) as caught:
        import_model(source, **options)
    return str(caught.value)


def function(name: str, *nodes: onnx.NodeProto) -> onnx.FunctionProto:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
    return helper.make_function("my", name, ["a"], ["b"], list(nodes), opsets)


def damaged(dims: list[int]) -> onnx.TensorProto:
    result = weights("w", np.zeros((4, 5), np.float32))
    result.dims[:] = dims
    return result


def branches() -> onnx.ModelProto:
    """One side gives floats, the other truth values."""
    then, other = (
        helper.make_graph([node(op, ["x"], ["z"])], op, [], [tensor_input("z", None)]) for op in ("Relu", "IsNaN")
    )
    inputs = [tensor_input("x", [2]), tensor_input("c", [], TensorProto.BOOL)]
    return model([node("If", ["c"], ["y"], name="choose", then_branch=then, else_branch=other)], inputs)


def with_weights(operator: str, value: object, **attributes: Any) -> onnx.ModelProto:
    return model([node(operator, ["x", "w"], ["y"], name="n", **attributes)], initializers=[weights("w", value)])


def recurrent(operator: str, width: int, bias: tuple[int, ...]) -> onnx.ModelProto:
    """A recurrent layer of 5 units over 3 numbers, whose gates and biases may be too few or too many."""
    arrays = {"w": (1, width, 3), "r": (1, width, 5), "b": bias}
    return model(
        [node(operator, ["x", *arrays], ["y"], name="n", hidden_size=5)],
        [tensor_input("x", [4, 2, 3])],
        initializers=[weights(n, np.zeros(shape, np.float32)) for n, shape in arrays.items()],
    )


ABSENT = helper.make_tensor_type_proto(TensorProto.FLOAT, [2])

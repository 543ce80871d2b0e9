"""Lists of tensors and optional values at the edges of a model: how they are named, and what is said of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import edgec
from edgec.errors import UsageError
from edgec.frontend.onnx import import_model
from edgec.ir import evaluate

X = {f"x[{k}]": np.arange(n, dtype=np.float32) - k for k, n in enumerate((3, 5, 2))}
SHAPES = {name: value.shape for name, value in X.items()}


def model(nodes: list[Any], inputs: list[Any], outputs: list[Any]) -> onnx.ModelProto:
    made = helper.make_model(
        helper.make_graph(nodes, "net", inputs, outputs), opset_imports=[helper.make_opsetid("", 18)]
    )
    made.ir_version = 9
    return made


def sequence(name: str) -> Any:
    return helper.make_tensor_sequence_value_info(name, TensorProto.FLOAT, ["n"])


def relus() -> onnx.ModelProto:
    """Relu of every tensor of a list, and all of them end to end."""
    body = helper.make_graph(
        [helper.make_node("Relu", ["a"], ["b"])], "body",
        [helper.make_tensor_value_info("a", TensorProto.FLOAT, ["n"])],
        [helper.make_tensor_value_info("b", TensorProto.FLOAT, ["n"])],
    )  # fmt: skip
    nodes = [
        helper.make_node("SequenceMap", ["x"], ["y"], "each", body=body),
        helper.make_node("ConcatFromSequence", ["y"], ["all"], "together", axis=0),
    ]
    return model(
        nodes, [sequence("x")], [sequence("y"), helper.make_tensor_value_info("all", TensorProto.FLOAT, ["m"])]
    )


def test_numbered_tensors_in_and_out() -> None:
    graph = import_model(relus(), SHAPES)
    assert [n.attributes["name"] for n in graph.inputs] == list(X)
    assert [name for name, _ in graph.outputs] == ["y[0]", "y[1]", "y[2]", "all"]
    results = evaluate.run(graph, X)
    for k, (name, value) in enumerate(X.items()):
        np.testing.assert_array_equal(results[f"y[{k}]"], np.maximum(value, 0), err_msg=name)
    np.testing.assert_array_equal(results["all"], np.maximum(np.concatenate(list(X.values())), 0))


def test_an_artefact_is_checked_with_lists() -> None:
    """onnxruntime gets a list and gives one; the artefact has an argument a tensor."""
    net = edgec.build(relus(), shapes=SHAPES)
    assert [p.name for p in net.network.inputs] == ["x_0", "x_1", "x_2"]
    checked = edgec.check(net)
    assert checked.ok and checked.reference.startswith("onnxruntime")
    assert {o.name for o in checked.outputs} == {"y[0]", "y[1]", "y[2]", "all"}


def test_how_many_must_be_said() -> None:
    with pytest.raises(UsageError, match="how many"):
        import_model(relus())
    with pytest.raises(UsageError, match="does not have as input"):
        import_model(relus(), {**SHAPES, "x[7]": (3,)})


def test_a_list_of_none() -> None:
    nodes = [helper.make_node("SequenceLength", ["x"], ["y"])]
    made = model(nodes, [sequence("x")], [helper.make_tensor_value_info("y", TensorProto.INT64, [])])
    assert int(evaluate.run(import_model(made, {"x": ()}), {})["y"]) == 0
    assert int(evaluate.run(import_model(made, SHAPES), X)["y"]) == 3


def test_parts_fixed_at_build_time() -> None:
    graph = import_model(relus(), {"x[1]": (5,)}, values={"x[0]": X["x[0]"], "x[2]": X["x[2]"]})
    assert [n.attributes["name"] for n in graph.inputs] == ["x[1]"]
    want = np.maximum(np.concatenate(list(X.values())), 0)
    np.testing.assert_array_equal(evaluate.run(graph, {"x[1]": X["x[1]"]})["all"], want)


@pytest.mark.parametrize("is_there", [True, False])
def test_optional_input(is_there: bool) -> None:
    kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [3]))
    then = helper.make_graph(
        [helper.make_node("OptionalGetElement", ["x"], ["a"])], "then", [],
        [helper.make_tensor_value_info("a", TensorProto.FLOAT, [3])],
    )  # fmt: skip
    otherwise = helper.make_graph(
        [helper.make_node("Neg", ["z"], ["b"])],
        "else",
        [],
        [helper.make_tensor_value_info("b", TensorProto.FLOAT, [3])],
    )
    nodes = [
        helper.make_node("OptionalHasElement", ["x"], ["has"]),
        helper.make_node("If", ["has"], ["y"], then_branch=then, else_branch=otherwise),
    ]
    inputs = [helper.make_value_info("x", kind), helper.make_tensor_value_info("z", TensorProto.FLOAT, [3])]
    made = model(nodes, inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])])
    given = {"x": np.float32([1, 2, 3])} if is_there else {}
    z = np.float32([4, 5, 6])
    graph = import_model(made, {name: value.shape for name, value in given.items()})
    want = given["x"] if is_there else -z
    np.testing.assert_array_equal(evaluate.run(graph, {**given, "z": z})["y"], want)

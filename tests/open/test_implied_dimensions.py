"""Dimensions that the operators imply need not be given; what stays free is asked for."""

from __future__ import annotations

import warnings

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from edgec.errors import UsageError
from edgec.frontend.onnx import import_model
from edgec.frontend.onnx.call import ModelWarning

Dims = list[int | str | None]


def tensor(name: str, dims: Dims, dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, dims)


def model(nodes: list[onnx.NodeProto], inputs: list[onnx.ValueInfoProto], **weights: np.ndarray) -> onnx.ModelProto:
    tensors = [onnx.numpy_helper.from_array(w, n) for n, w in weights.items()]
    outputs = [helper.make_empty_tensor_value_info(o) for o in nodes[-1].output]
    graph = helper.make_graph(nodes, "g", inputs, outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def attention() -> onnx.ModelProto:
    """A step of a decoder: keys of earlier steps, new ones behind them, and a mask over all of them."""
    w = np.ones((16, 16), np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "wk"], ["flat"]),
        helper.make_node("Reshape", ["flat", "heads"], ["apart"]),
        helper.make_node("Transpose", ["apart"], ["new"], perm=[0, 2, 1, 3]),
        helper.make_node("Concat", ["past", "new"], ["keys"], axis=2),
        helper.make_node("Transpose", ["keys"], ["turned"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["new", "turned"], ["scores"]),
        helper.make_node("Add", ["scores", "mask"], ["masked"]),
        helper.make_node("Softmax", ["masked"], ["y"]),
    ]
    inputs = [
        tensor("x", ["batch", "sequence", 16]),
        tensor("past", ["batch", "kv_heads", "past", "kv_cache_dim"]),
        tensor("mask", ["batch", 1, "sequence", "total"]),
    ]
    return model(nodes, inputs, wk=w, heads=np.array([0, 0, 4, 4]))


def shapes_of(made: onnx.ModelProto, **options: object) -> dict[str, list[object]]:
    graph = import_model(made, **options)  # type: ignore[arg-type]
    return {n.attributes["name"]: list(n.type.shape) for n in graph.inputs}


def test_what_numbers_imply() -> None:
    given = {"x": (1, 3, 16)}
    with pytest.raises(UsageError, match="shape of 'past' open"):
        import_model(attention(), given)
    assert shapes_of(attention(), dims={"past": (5, 5, 1)}, shapes=given) == {
        "x": [1, 3, 16], "past": [1, 4, 5, 4], "mask": [1, 1, 3, 8],
    }  # fmt: skip


def test_what_ranges_imply() -> None:
    found = shapes_of(attention(), shapes={"x": (1, 1, 16)}, dims={"past": (1, 31, 1)})
    past = found["past"][2]
    assert found == {"x": [1, 1, 16], "past": [1, 4, past, 4], "mask": [1, 1, 1, past + 1]}  # type: ignore[operator]


def test_all_of_it_is_asked_for_at_once() -> None:
    with pytest.raises(UsageError, match="shape of 'x', 'past' open") as caught:
        import_model(attention())
    assert "mask" not in str(caught.value)


def test_a_product_with_weights_decides() -> None:
    weights = np.ones((7, 3), np.float32)
    made = model([helper.make_node("MatMul", ["x", "w"], ["y"])], [tensor("x", [2, "features"])], w=weights)
    assert shapes_of(made) == {"x": [2, 7]}


def test_an_extent_that_may_be_one_stays_open() -> None:
    """A bias of 3 columns goes with 3 features and with 1: the user decides."""
    made = model([helper.make_node("Add", ["x", "b"], ["y"])], [tensor("x", [2, "features"])], b=np.ones(3, "f"))
    with pytest.raises(UsageError, match="shape of 'x' open"):
        import_model(made)


def test_two_dimensions_without_names() -> None:
    made = model([helper.make_node("MatMul", ["x", "z"], ["y"])], [tensor("x", [2, None]), tensor("z", [None, 5])])
    assert shapes_of(made, shapes={"x": (2, 9)}) == {"x": [2, 9], "z": [9, 5]}


@pytest.mark.parametrize("first", ["batch", None])
def test_a_batch_that_nothing_decides_is_one_and_told(first: str | None) -> None:
    made = model([helper.make_node("Add", ["x", "z"], ["y"])], [tensor("x", [first, 3]), tensor("z", [first, 3])])
    with pytest.warns(ModelWarning, match="is open and taken as 1; --dim (batch|x.0)=1..8 keeps it open"):
        assert shapes_of(made) == {"x": [1, 3], "z": [1, 3]}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert shapes_of(made, shapes={"x": (4, 3), "z": (4, 3)}) == {"x": [4, 3], "z": [4, 3]}
        import_model(made, dims={"batch": (1, 8, 1)} if first else {"x.0": (1, 8, 1)})


def test_what_follows_from_the_batch_follows_from_one() -> None:
    """Two inputs, the second of which holds as many numbers as the first has rows."""
    rows = helper.make_node("Reshape", ["z", "shape"], ["r"])
    made = model(
        [rows, helper.make_node("Add", ["x", "r"], ["y"])], [tensor("x", ["batch", 6]), tensor("z", ["batch", 2, 3])],
        shape=np.array([-1, 6]),
    )  # fmt: skip
    with pytest.warns(ModelWarning):
        assert shapes_of(made) == {"x": [1, 6], "z": [1, 2, 3]}


@pytest.mark.parametrize(
    "dims",
    [(["batch", "length", 3],) * 2, (["batch", 3], ["other", 3]), (["length"], ["length"]), (None, ["batch", 3])],
    ids=["a length too", "two names", "a list", "no rank"],
)
def test_other_open_dimensions_are_asked_for(dims: tuple[Dims, Dims]) -> None:
    joined = helper.make_node("Concat", ["x", "z"], ["y"], axis=0)
    made = model([joined], [tensor("x", dims[0]), tensor("z", dims[1])])
    with pytest.raises(UsageError, match="open"):
        import_model(made)


def test_the_batch_beside_a_range_is_one() -> None:
    made = model([helper.make_node("Relu", ["x"], ["y"])], [tensor("x", ["batch", "length", 3])])
    with pytest.warns(ModelWarning, match="'batch'"):
        (x,) = import_model(made, dims={"length": (1, 8, 1)}).inputs
    assert x.type.shape[0] == 1 and not x.type.is_fixed

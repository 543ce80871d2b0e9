"""Shapes that an exporter wrote for a batch of one, in networks whose batch is kept open."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from chance import RANDOM
from small_models import model, node, tensor_input, weights

import edgec
from edgec.errors import EdgecError
from edgec.frontend.onnx import import_model
from edgec.frontend.onnx.call import ModelWarning

OPEN = {"batch": (1, 3, 1)}


def classifier(shape: list[int], batch: str | int = "batch") -> onnx.ModelProto:
    """A convolution, pooled and reshaped by a constant, and a matmul of the last dimension."""
    w = RANDOM.standard_normal((12, 3, 1, 1)).astype(np.float32)
    v = RANDOM.standard_normal((shape[-1], 5)).astype(np.float32)
    nodes = [
        node("Conv", ["x", "w"], ["a"]),
        node("GlobalAveragePool", ["a"], ["b"]),
        node("Reshape", ["b", "shape"], ["c"]),
        node("MatMul", ["c", "v"], ["y"]),
    ]
    given = [weights("w", w), weights("v", v), weights("shape", np.array(shape, np.int64))]
    return model(nodes, [tensor_input("x", [batch, 3, 4, 4])], initializers=given)


@pytest.mark.parametrize("shape", [[1, 12], [1, 3, 4], [1, 1, 1, 12]])
def test_a_constant_one_follows_the_batch(shape: list[int], tmp_path: Path) -> None:
    proto = classifier(shape)
    with pytest.warns(ModelWarning, match="written for a batch of one"):
        built = edgec.build(proto, tmp_path / "out", dims=OPEN)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    for count in (1, 2, 3):
        x = RANDOM.standard_normal((count, 3, 4, 4)).astype(np.float32)
        want = np.concatenate([session.run(None, {"x": row[None]})[0] for row in x])
        np.testing.assert_allclose(built(x=x), want, rtol=0, atol=1e-5 * np.abs(want).max())


def patches(token: tuple[int, ...], axis: int = 1) -> onnx.ModelProto:
    """A class token before five patches, and a position that is added to each."""
    token_ = RANDOM.standard_normal(token).astype(np.float32)
    places = RANDOM.standard_normal((1, 5 + token[1], 4)).astype(np.float32)
    nodes = [node("Concat", ["t", "x", "t"], ["a"], axis=axis), node("Relu", ["a"], ["y"])]
    if axis == 1:
        nodes = [node("Concat", ["t", "x"], ["a"], axis=1), node("Add", ["a", "p"], ["y"])]
    return model(nodes, [tensor_input("x", ["batch", 5, 4])], initializers=[weights("t", token_), weights("p", places)])


def test_a_constant_class_token_follows_the_batch(tmp_path: Path) -> None:
    proto = patches((1, 2, 4))
    with pytest.warns(ModelWarning, match="input 0 was written for a batch of one"):
        built = edgec.build(proto, tmp_path / "out", dims=OPEN)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    for count in (1, 2, 3):
        x = RANDOM.standard_normal((count, 5, 4)).astype(np.float32)
        want = np.concatenate([session.run(None, {"x": row[None]})[0] for row in x])
        np.testing.assert_allclose(built(x=x), want, rtol=0, atol=1e-6)


def test_other_constants_beside_a_batch_stay_what_they_are() -> None:
    with pytest.raises(EdgecError, match="cannot concatenate"):
        import_model(patches((2, 2, 4)), dims=OPEN)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph = import_model(patches((1, 5, 4), axis=0), dims=OPEN)
    assert graph.outputs[0][1].type.shape[1:] == (5, 4)


@pytest.mark.parametrize("shape", [[2, 6], [12, 1], [1, 6]])
def test_another_shape_is_refused(shape: list[int]) -> None:
    with pytest.raises(EdgecError, match="reshape"):
        import_model(classifier(shape), dims=OPEN)


def test_a_batch_that_nobody_keeps_open_is_one() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph = import_model(classifier([1, 12]))
    assert graph.inputs[0].type.shape == (1, 3, 4, 4)


def test_constant_first_states_follow_the_batch(tmp_path: Path) -> None:
    """Of a GRU and an LSTM, as exporters that see the zeros of a module write them."""
    w, r = (RANDOM.standard_normal((1, 12, n)).astype(np.float32) for n in (4, 3))
    v, s = (RANDOM.standard_normal((1, 9, n)).astype(np.float32) for n in (3, 3))
    states = {n: RANDOM.standard_normal((1, 1, 3)).astype(np.float32) for n in ("h", "c")}
    nodes = [
        node("LSTM", ["x", "w", "r", "", "", "h", "c"], ["a"], hidden_size=3),
        node("Squeeze", ["a", "one"], ["b"]),
        node("GRU", ["b", "v", "s", "", "", "h"], ["y"], hidden_size=3),
    ]
    given = [weights(n, a) for n, a in {"w": w, "r": r, "v": v, "s": s, **states, "one": np.array([1])}.items()]
    proto = model(nodes, [tensor_input("x", [5, "batch", 4])], initializers=given)
    with pytest.warns(ModelWarning, match="input 5 was written for a batch of one"):
        built = edgec.build(proto, tmp_path / "out", dims=OPEN)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    for count in (1, 2, 3):
        x = RANDOM.standard_normal((5, count, 4)).astype(np.float32)
        want = np.concatenate([session.run(None, {"x": x[:, k : k + 1]})[0] for k in range(count)], 2)
        np.testing.assert_allclose(built(x=x), want, rtol=0, atol=1e-5)


@pytest.mark.parametrize("shape", [[5, 1, 12], [5, 1, 3, 4], [5, 1, 1, 12]])
def test_a_batch_behind_a_sequence(shape: list[int], tmp_path: Path) -> None:
    """Results of a recurrent network have their batch behind the steps."""
    proto = model(
        [node("Reshape", ["x", "shape"], ["a"]), node("Softmax", ["a"], ["y"])],
        [tensor_input("x", [5, "batch", 3, 4])], initializers=[weights("shape", np.array(shape))],
    )  # fmt: skip
    with pytest.warns(ModelWarning, match="written for a batch of one"):
        built = edgec.build(proto, tmp_path / "out", dims=OPEN)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    for count in (1, 2, 3):
        x = RANDOM.standard_normal((5, count, 3, 4)).astype(np.float32)
        want = np.concatenate([session.run(None, {"x": x[:, k : k + 1]})[0] for k in range(count)], 1)
        np.testing.assert_allclose(built(x=x), want, rtol=0, atol=1e-6)


def test_heads_of_a_batch_are_taken_apart(tmp_path: Path) -> None:
    """Products of heads that were joined with the samples, as exporters of PyTorch write attention."""
    nodes = [
        node("Reshape", ["x", "joined"], ["a"]),
        node("Transpose", ["a"], ["b"], perm=[0, 2, 1]),
        node("MatMul", ["a", "b"], ["c"]),
        node("Reshape", ["c", "apart"], ["d"]),
        node("Softmax", ["d"], ["y"]),
    ]
    shapes = [weights("joined", np.array([-1, 5, 3])), weights("apart", np.array([1, 2, 5, 5]))]
    proto = model(nodes, [tensor_input("x", ["batch", 2, 5, 3])], initializers=shapes)
    with pytest.warns(ModelWarning, match="written for a batch of one"):
        built = edgec.build(proto, tmp_path / "out", dims=OPEN)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    for count in (1, 2, 3):
        x = RANDOM.standard_normal((count, 2, 5, 3)).astype(np.float32)
        want = np.concatenate([session.run(None, {"x": row[None]})[0] for row in x])
        np.testing.assert_allclose(built(x=x), want, rtol=0, atol=1e-6)

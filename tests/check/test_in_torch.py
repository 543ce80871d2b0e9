"""Shapes, casts, slices and choices that exporters write around a network, executed by PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from chance import RANDOM
from onnx import numpy_helper
from small_models import model, node, tensor_input, weights

from edgec.errors import UsageError


def test_shapes_slices_and_choices() -> None:
    torch = pytest.importorskip("torch", reason="pip install torch")
    from edgec.check.in_torch import run

    constants = {
        "minus": np.array(-1), "ids": np.array([[-1, 0], [2, 1]]), "axis": np.array([1]), "begin": np.array([4]),
        "end": np.array([-9]), "back": np.array([-2]), "zero": np.array(0), "one": np.array(1), "stop": np.array(5),
    }  # fmt: skip
    nodes = [
        node("Shape", ["x"], ["shape"]), node("Constant", [], ["ones"], value_ints=[1, 1, 1]),
        node("Gather", ["x", "minus"], ["last"], axis=1), node("Unsqueeze", ["last", "axis"], ["high"]),
        node("Expand", ["high", "shape"], ["wide"]), node("GreaterOrEqual", ["wide", "x"], ["above"]),
        node("Where", ["above", "wide", "x"], ["chosen"]), node("IsNaN", ["chosen"], ["none"]),
        node("Cast", ["none"], ["number"], to=onnx.TensorProto.FLOAT),
        node("Range", ["zero", "stop", "one"], ["steps"]),
        node("CastLike", ["steps", "x"], ["slope"]), node("Slice", ["slope", "begin", "end", "at", "back"], ["turned"]),
        node("GatherElements", ["turned2", "ids"], ["picked"], axis=1),
        node("Add", ["chosen", "number"], ["y"]), node("Identity", ["picked"], ["z"]),
    ]  # fmt: skip
    nodes.insert(12, node("Expand", ["turned", "pair"], ["turned2"]))
    held = constants | {"at": np.array([0]), "pair": np.array([2, 3])}
    used = {name for n in nodes for name in n.input}
    given = [tensor_input("x", [2, 3, 4])]
    made = model(nodes, given, ["y", "z"], [weights(n, v) for n, v in held.items() if n in used])
    x = np.random.default_rng(1).standard_normal((2, 3, 4)).astype(np.float32)
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    found = run(made, {"x": torch.from_numpy(x).double()})
    for got, want in zip(found, session.run(None, {"x": x}), strict=True):
        assert got.dtype == torch.float64
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)


def pools() -> list[tuple[str, onnx.NodeProto, list[int], int]]:
    """Pools of every rank whose last windows may end outside, with padding on either side, and without."""
    chance, found = np.random.default_rng(int(RANDOM.integers(1 << 30))), []
    for k in range(24):
        rank = 1 + k % 3
        kernel, strides = (chance.integers(1, 4, rank).tolist() for _ in range(2))
        size = (chance.integers(4, 9, rank)).tolist()
        pads = [int(chance.integers(0, n)) for n in (*kernel, *kernel)]
        attributes = {"kernel_shape": kernel, "strides": strides, "ceil_mode": k % 2, "pads": pads}
        operator = ("MaxPool", "AveragePool")[k // 3 % 2]
        if operator == "AveragePool":
            attributes["count_include_pad"] = k // 6 % 2
        found.append((f"{operator} {k}", node(operator, ["x"], ["y"], **attributes), [2, 3, *size], 17))
    return found


OTHERS = [
    ("softmax of old", node("Softmax", ["x"], ["y"], axis=1), [2, 3, 4], 11),
    ("log softmax of old", node("LogSoftmax", ["x"], ["y"]), [2, 3, 4], 11),
    ("softmax", node("Softmax", ["x"], ["y"]), [2, 3, 4], 13),
    ("transposed", node("Transpose", ["x"], ["y"]), [2, 3, 4], 17),
    ("squeezed of old", node("Squeeze", ["x"], ["y"], axes=[1]), [2, 1, 4], 11),
    ("squeezed", node("Squeeze", ["x"], ["y"]), [2, 1, 4], 17),
    ("unsqueezed of old", node("Unsqueeze", ["x"], ["y"], axes=[0, 3]), [2, 4], 11),
    ("clipped", node("Clip", ["x"], ["y"]), [2, 4], 17),
    ("mean of nothing", node("ReduceMean", ["x"], ["y"], noop_with_empty_axes=1), [2, 4], 18),
    ("mean of all", node("ReduceMean", ["x"], ["y"], keepdims=0), [2, 4], 18),
    ("transposed", node("ConvTranspose", ["x", "x"], ["y"], strides=[2, 3], pads=[0, 1, 1, 0]), [2, 2, 3, 3], 17),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "made", "shape", "opset"), [*pools(), *OTHERS], ids=lambda v: v if isinstance(v, str) else ""
)
def test_attributes_mean_what_they_mean(name: str, made: onnx.NodeProto, shape: list[int], opset: int) -> None:
    torch = pytest.importorskip("torch", reason="pip install torch")
    from edgec.check.in_torch import run

    x = np.random.default_rng(2).standard_normal(shape).astype(np.float32)
    whole = model([made], [tensor_input("x", shape)], ["y"], [], opset)
    session = onnxruntime.InferenceSession(whole.SerializeToString(), providers=["CPUExecutionProvider"])
    (want,), (got,) = session.run(None, {"x": x}), run(whole, {"x": torch.from_numpy(x).double()})
    assert got.shape == want.shape, name
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-5, atol=1e-6)


#: Operators between layers, with operands beside the first one.
BETWEEN: list[tuple[str, dict[str, Any], list[Any]]] = [
    *((name, {}, []) for name in ("Ceil", "Cos", "Floor", "HardSwish", "Reciprocal", "Sign", "Sin", "Softplus")),
    ("Elu", {"alpha": 0.7}, []), ("HardSigmoid", {"alpha": 0.3, "beta": 0.4}, []), ("LeakyRelu", {"alpha": 0.2}, []),
    ("Max", {}, [np.float32(0.1), np.float32([[0.2], [-1], [1]])]), ("Min", {}, [np.float32(0.1)]),
    ("Sum", {}, [np.float32(0.1), np.float32([[0.2], [-1], [1]])]), ("PRelu", {}, [np.float32([[0.2], [0.5], [1.5]])]),
    ("InstanceNormalization", {"epsilon": 0.1}, [np.float32([1, 2, 3]), np.float32([3, 1, 2])]),
    ("CumSum", {}, [np.array(1)]), ("CumSum", {"exclusive": 1}, [np.array(2)]),
    ("CumSum", {"reverse": 1}, [np.array(-1)]), ("CumSum", {"reverse": 1, "exclusive": 1}, [np.array(1)]),
    ("GatherND", {}, [np.array([[1, 2], [0, -1]])]), ("GatherND", {"batch_dims": 1}, [np.array([[[2, 1]], [[0, 3]]])]),
    ("Pad", {}, [np.array([0, 1, 2, 0, 0, 3]), np.float32(0.5)]),
    ("Pad", {}, [np.array([1, 2, 3, 0]), np.float32(0.5), np.array([-1, 1])]),
    ("ReduceL2", {"keepdims": 0}, [np.array([1, -1])]), ("ReduceMax", {}, [np.array([1])]), ("ReduceMin", {}, []),
    ("ReduceSumSquare", {}, [np.array([0, 2])]), ("Tile", {}, [np.array([1, 2, 3])]),
    ("Trilu", {}, [np.array(-1)]), ("Trilu", {"upper": 0}, []),
    ("Split", {"axis": 2, "num_outputs": 2}, []), ("Split", {"axis": 1}, [np.array([1, 2])]),
    ("Mod", {"fmod": 1}, [np.float32(0.3)]), ("Selu", {"alpha": 1.5, "gamma": 1.2}, []), ("Selu", {}, []),
    ("Einsum", {"equation": "abc,cd->abd"}, [np.float32([[1, 2], [0, 1], [3, -1], [2, 2]])]),
    ("ScatterElements", {"axis": -1}, [np.array([[[1, -1]]] * 2), np.float32([[[5, 6]], [[7, 8]]])]),
    ("ScatterElements", {"axis": 1, "reduction": "add"}, [np.array([[[1, 1]]] * 2), np.float32([[[5, 6]], [[7, 8]]])]),
    # By their bodies in the standard.
    ("Celu", {"alpha": 0.7}, []), ("Mish", {}, []), ("ThresholdedRelu", {"alpha": 0.2}, []), ("Softsign", {}, []),
    ("ReduceL1", {}, [np.array([1])]), ("ReduceLogSumExp", {"keepdims": 0}, [np.array([-1])]),
]  # fmt: skip
IMAGES: list[tuple[str, dict[str, Any]]] = [
    ("DepthToSpace", {"blocksize": 2}), ("DepthToSpace", {"blocksize": 2, "mode": "CRD"}),
    ("SpaceToDepth", {"blocksize": 2}), ("GlobalMaxPool", {}),
]  # fmt: skip
COMPARED = ("Greater", "Less", "LessOrEqual")


@pytest.mark.parametrize("k", range(len(BETWEEN)), ids=lambda k: f"{BETWEEN[k][0]} {k}")
def test_operators_between_layers(k: int) -> None:
    operator, attributes, others = BETWEEN[k]
    names = ["y", "z"] if operator == "Split" else ["y"]
    held = {f"c{k}": np.asarray(v) for k, v in enumerate(others)}
    compare([node(operator, ["x", *held], names, **attributes)], names, held)


@pytest.mark.parametrize("k", range(len(IMAGES)), ids=lambda k: f"{IMAGES[k][0]} {k}")
def test_operators_of_images(k: int) -> None:
    operator, attributes = IMAGES[k]
    shape = np.array([1, 4, 2, 6 // 2]) if operator != "SpaceToDepth" else np.array([1, 3, 2, 4])
    nodes = [node("Reshape", ["x", "shape"], ["image"]), node(operator, ["image"], ["y"], **attributes)]
    compare(nodes, ["y"], {"shape": shape})


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("linear", [0, 1])
def test_recurrent_units(direction: str, linear: int) -> None:
    count, random = 2 if direction == "bidirectional" else 1, np.random.default_rng(4)
    shapes = {"w": (count, 15, 4), "r": (count, 15, 5), "b": (count, 30), "h": (count, 3, 5)}
    held = {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    made = node("GRU", ["x", "w", "r", "b", "", "h"], ["y", "z"], hidden_size=5, direction=direction,
                linear_before_reset=linear)  # fmt: skip
    compare([made], ["y", "z"], held)


def test_a_gather_of_one_number() -> None:
    nodes = [node("Shape", ["x"], ["shape"]), node("Gather", ["shape", "one"], ["rows"]),
             node("Cast", ["rows"], ["number"], to=onnx.TensorProto.FLOAT), node("Mul", ["x", "number"], ["y"]),
             node("Tile", ["number", "none"], ["z"])]  # fmt: skip
    compare(nodes, ["y", "z"], {"one": np.array(1), "none": np.zeros(0, np.int64)})


def test_truth_values_and_filled_tensors() -> None:
    nodes = [node(operator, ["x", "level"], [operator], operator) for operator in COMPARED]
    nodes += [
        node("Not", ["Less"], ["not"]),
        node("Or", ["not", "Greater"], ["or"]),
        node("ConstantOfShape", ["shape"], ["filled"], value=numpy_helper.from_array(np.float32([2.5]))),
        node("ConstantOfShape", ["none"], ["number"], value=numpy_helper.from_array(np.float32([0.5]))),
        node("Add", ["filled", "number"], ["more"]),
        node("Where", ["or", "x", "more"], ["chosen"]),
        node("Where", ["LessOrEqual", "chosen", "level"], ["y"]),
    ]
    held = {"level": np.float32(0.3), "shape": np.array([3, 4]), "none": np.zeros(0, np.int64)}
    compare(nodes, ["y", "filled", "number"], held)


def compare(nodes: list[onnx.NodeProto], names: list[str], held: dict[str, np.ndarray]) -> None:
    torch = pytest.importorskip("torch", reason="pip install torch")
    from edgec.check.in_torch import run

    x = np.random.default_rng(3).standard_normal((2, 3, 4)).astype(np.float32)
    given = [tensor_input("x", [2, 3, 4])]
    whole = model(nodes, given, names, [weights(n, v) for n, v in held.items()], 18)
    session = onnxruntime.InferenceSession(whole.SerializeToString(), providers=["CPUExecutionProvider"])
    for got, want in zip(run(whole, {"x": torch.from_numpy(x).double()}), session.run(None, {"x": x}), strict=True):
        assert got.shape == want.shape and got.dtype == torch.float64
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("made", "word"),
    [
        (node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], storage_order=1), "attribute 'storage_order'"),
        (node("AveragePool", ["x"], ["y"], kernel_shape=[2, 2], dilations=[2, 2]), "attribute 'dilations'"),
        (node("Gelu", ["x"], ["y"], approximate="tanh", domain="com.microsoft"), None),
        (node("Resize", ["x", "", "x"], ["y"]), "an operator"),
    ],
)
def test_what_is_left_out_is_refused(made: onnx.NodeProto, word: str | None) -> None:
    pytest.importorskip("torch", reason="pip install torch")
    import torch

    from edgec.check.in_torch import prepared

    whole = model([made], [tensor_input("x", [2, 3, 4, 4])], ["y"], [], 19)
    if word is None:
        assert prepared(whole, torch.float64)
        return
    with pytest.raises(UsageError, match=word):
        prepared(whole, torch.float64)

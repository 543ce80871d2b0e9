"""Small networks that tests train."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
from chance import RANDOM
from small_models import model, node, tensor_input, weights

from edgec.artifact.folder import read_lock
from edgec.artifact.trainer import _port

#: Options of a build: for this processor, and for a GPU whose kernels run on it.
DEVICES: list[dict[str, Any]] = [{}, {"device": "cuda_sm90", "compiler": "emulated"}]


def floats(*shape: int, scale: float = 0.4) -> np.ndarray:
    return (RANDOM.standard_normal(shape) * scale).astype(np.float32)


def linear(batch: int = 5, outputs: int = 3) -> onnx.ModelProto:
    """y = x w + b, whose gradients fit on a line."""
    made = [node("MatMul", ["x", "w"], ["p"], "product"), node("Add", ["p", "b"], ["y"], "shift")]
    given = [tensor_input("x", [batch, 4])]
    return model(made, given, ["y"], [weights("w", floats(4, outputs)), weights("b", floats(outputs))])


def rooted() -> onnx.ModelProto:
    """y = sqrt(abs(x w)), which is 0 with an infinite slope where x is 0."""
    made = [node("MatMul", ["x", "w"], ["p"]), node("Abs", ["p"], ["r"]), node("Sqrt", ["r"], ["y"])]
    return model(made, [tensor_input("x", [1, 4])], ["y"], [weights("w", floats(4, 3))])


def convolutions(batch: int | str = 1) -> onnx.ModelProto:
    """Two convolutions, one of them depthwise, with normalization, a pool and a classifier of five classes."""
    nodes = [
        node("Conv", ["image", "w1"], ["c1"], "first", kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]),
        node("BatchNormalization", ["c1", "scale", "shift", "mean", "variance"], ["n1"], "norm"),
        node("Relu", ["n1"], ["r1"], "relu"),
        node("Conv", ["r1", "w2", "b2"], ["c2"], "second", kernel_shape=[3, 3], pads=[1, 1, 1, 1], group=6),
        node("Clip", ["c2", "low", "high"], ["r2"], "clip"),
        node("MaxPool", ["r2"], ["m"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        node("Flatten", ["m"], ["f"], "flat"),
        node("Gemm", ["f", "w3", "b3"], ["g"], "classes", transB=1),
        node("Softmax", ["g"], ["probabilities"], "softmax", axis=1),
    ]
    held = {
        "w1": floats(6, 2, 3, 3), "scale": 1 + floats(6, scale=0.1), "shift": floats(6), "mean": floats(6),
        "variance": np.abs(floats(6)) + np.float32(0.5), "w2": floats(6, 1, 3, 3), "b2": floats(6),
        "low": np.float32(0), "high": np.float32(6), "w3": floats(5, 24), "b3": np.zeros(5, np.float32),
    }  # fmt: skip
    image = tensor_input("image", [batch, 2, 8, 8])
    return model(nodes, [image], ["probabilities"], [weights(n, v) for n, v in held.items()])


def attention(heads: int = 2, tokens: int = 40, width: int = 12) -> onnx.ModelProto:
    """One layer of attention whose head dimension is 6, the mean of its tokens, and three classes."""
    turned = [("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])]
    nodes = []
    for name, order in turned:
        nodes += [
            node("MatMul", ["x", f"w{name}"], [f"p{name}"], f"{name}_product"),
            node("Reshape", [f"p{name}", "split"], [f"s{name}"]),
            node("Transpose", [f"s{name}"], [name], perm=order),
        ]
    nodes += [
        node("MatMul", ["q", "k"], ["scores"]),
        node("Mul", ["scores", "scale"], ["scaled"]),
        node("Softmax", ["scaled"], ["shares"], axis=-1),
        node("MatMul", ["shares", "v"], ["mixed"]),
        node("Transpose", ["mixed"], ["back"], perm=[0, 2, 1, 3]),
        node("Reshape", ["back", "join"], ["joined"]),
        node("ReduceMean", ["joined"], ["mean"], axes=[1], keepdims=0),
        node("MatMul", ["mean", "wo"], ["y"], "classes"),
    ]
    held = {f"w{name}": floats(width, width) for name in "qkv"} | {
        "wo": floats(width, 3),
        "scale": np.float32((width // heads) ** -0.5),
        "split": np.array([0, 0, heads, width // heads]),
        "join": np.array([0, 0, width]),
    }
    return model(nodes, [tensor_input("x", [1, tokens, width])], ["y"], [weights(n, v) for n, v in held.items()])


class Unopened:
    """The facts of a training that was not compiled."""

    def __init__(self, folder: Path) -> None:
        facts = read_lock(folder)["training"]
        self.network = SimpleNamespace(folder=folder, name="net")
        self.said = {key: facts[key] for key in ("loss", "optimizer", "dropout")}
        self.classes, self.statistics = facts["classes"], frozenset(facts["statistics"])
        self.accumulate = int(facts["accumulate"])
        self.one_by_one = 1
        self.inputs = tuple(_port(p) for p in facts["inputs"])
        self.target = _port(facts["target"])
        self.weights = [p["onnx_name"] for p in facts["state"] if p["trained"]]

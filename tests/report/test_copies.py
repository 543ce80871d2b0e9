"""Edges of what is copied into a place: from its value to the copy, from the copy to the place, and no other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

import edgec
from edgec.report import measure


def edges_of(model: onnx.ModelProto, folder: Path) -> list[tuple[str, str]]:
    """Edges between the blocks of a model, by the last of their names."""
    onnx.checker.check_model(model)
    built = edgec.build(model, folder, compile=False)
    nothing = measure.Facts(benched=None, seconds=[], checked=None, fidelity=None)
    stages = {s["name"]: s for s in measure.describe(built, nothing)["stages"]}
    for found in stages.values():  # whatever is computed is read, or part of a result
        read = {a for a, _ in found["edges"]}
        assert not [n["label"] for n in found["nodes"] if n["op"] != "output" and n["id"] not in read]
    stage = stages["fuse"]
    named = {n["id"]: n["label"] if n["label"] == "copy" else n["names"][-1] for n in stage["nodes"]}
    return sorted((named[a], named[b]) for a, b in stage["edges"])


def test_a_copy_has_its_edges_and_no_others(tmp_path: Path) -> None:
    shape = [1, 4, 8, 8]
    values = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xyq"}
    whole = helper.make_tensor_value_info("c", TensorProto.FLOAT, [1, 12, 8, 8])
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], name="relu"),
        helper.make_node("Concat", ["r", "y", "r"], ["c"], name="cat", axis=1),
        helper.make_node("Exp", ["r"], ["q"], name="exp"),
    ]
    graph = helper.make_graph(nodes, "copies", [values["x"], values["y"]], [whole, values["q"]])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    assert edges_of(model, tmp_path / "net") == sorted([
        ("x", "relu"), ("relu", "cat"), ("relu", "copy"), ("copy", "cat"), ("y", "copy"), ("copy", "cat"),
        ("relu", "exp"), ("cat", "c"), ("exp", "q"),
    ])  # fmt: skip


def test_a_padded_input_is_read_through_its_copy(tmp_path: Path) -> None:
    """A convolution whose padded input lies in a copy with a border reads that copy, not the input."""
    draw = np.random.default_rng(3)
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 64, 64])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8, 32, 32])
    weights = onnx.numpy_helper.from_array(draw.standard_normal((8, 3, 3, 3)).astype(np.float32), "w")
    conv = helper.make_node("Conv", ["image", "w"], ["y"], name="conv", strides=[2, 2], pads=[1, 1, 1, 1])
    graph = helper.make_graph([conv], "padded", [image], [result], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    assert edges_of(model, tmp_path / "net") == [("conv", "y"), ("copy", "conv"), ("image", "copy")]

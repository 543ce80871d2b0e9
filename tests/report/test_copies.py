"""Edges of what is copied into a place: from its value to the copy, from the copy to the place, and no other."""

from __future__ import annotations

from pathlib import Path

import onnx
from onnx import TensorProto, helper

import edgec
from edgec.report import measure


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
    onnx.checker.check_model(model)
    built = edgec.build(model, tmp_path / "net", compile=False)
    nothing = measure.Facts(benched=None, seconds=[], checked=None, fidelity=None)
    stage = next(s for s in measure.describe(built, nothing)["stages"] if s["name"] == "fuse")
    named = {n["id"]: n["label"] if n["label"] == "copy" else n["names"][-1] for n in stage["nodes"]}
    edges = sorted((named[a], named[b]) for a, b in stage["edges"])
    assert edges == sorted([
        ("x", "relu"), ("relu", "cat"), ("relu", "copy"), ("copy", "cat"), ("y", "copy"), ("copy", "cat"),
        ("relu", "exp"), ("cat", "c"), ("exp", "q"),
    ])  # fmt: skip

"""Random inputs of a check: small enough that the outputs depend on them, and told where they cannot."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import edgec
from edgec import ops
from edgec.bench.built import bench_built
from edgec.check import network
from edgec.check.drawn import both_sides
from edgec.errors import EdgecError
from edgec.execute.executor import run_graph
from edgec.ir.graph import Graph, constant, placeholder
from edgec.ir.types import Type
from edgec.progress import silent
from edgec.resources import data_folder

DIGITS = data_folder("apps") / "digits" / "digits.onnx"


def _model(folder: Path, *nodes: onnx.NodeProto, outputs: tuple[str, ...] = ("y",)) -> Path:
    """A model of x [1, 8] with constants ``big`` and ``half`` and the given outputs [1, 8]."""
    values = [
        helper.make_tensor("big", TensorProto.FLOAT, [], [400.0]),
        helper.make_tensor("one", TensorProto.FLOAT, [], [1.0]),
        helper.make_tensor("huge", TensorProto.FLOAT, [], [1e9]),
        helper.make_tensor("half", TensorProto.FLOAT, [8], np.linspace(-1.5, 1, 8)),
    ]
    graph = helper.make_graph(
        list(nodes), "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 8]) for name in outputs], values,
    )  # fmt: skip
    path = folder / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_a_saturating_network_is_checked_on_smaller_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = (
        helper.make_node("Mul", ["x", "x"], ["s"]), helper.make_node("Add", ["s", "one"], ["t"]),
        helper.make_node("Mul", ["s", "t"], ["u"]), helper.make_node("Mul", ["u", "big"], ["v"]),
        helper.make_node("Clip", ["v", "", "one"], ["y"]),
    )  # fmt: skip
    seen = np.array([[1, -1, 2, -2, 1.5, 1, 3, -1.5]], np.float32)
    model = _model(tmp_path, *nodes)
    monkeypatch.setattr(network, "random_inputs", lambda graph, seed: {"x": seen})
    checked = edgec.check(model, samples=1)
    assert checked.verdict == "ok" and not checked.unproven
    assert any("0.01 times as large" in note for note in checked.notes)


def test_outputs_that_follow_their_inputs_keep_the_usual_ones(tmp_path: Path) -> None:
    checked = edgec.check(_model(tmp_path, helper.make_node("Add", ["x", "half"], ["y"])), samples=1)
    assert checked.verdict == "ok" and not checked.unproven and not checked.notes


@pytest.mark.parametrize("seed", [0, 1])
def test_what_follows_no_scale_depends_on_its_inputs(seed: int, tmp_path: Path) -> None:
    """The change is not in the direction of the inputs, which a norm takes out."""
    nodes = (
        helper.make_node("ReduceL2", ["x"], ["n"], axes=[1], keepdims=1), helper.make_node("Div", ["x", "n"], ["y"]),
    )  # fmt: skip
    checked = edgec.check(_model(tmp_path, *nodes), samples=1, seed=seed)
    assert checked.verdict == "ok" and not checked.unproven


def test_an_output_that_never_depends_on_its_inputs_is_told(tmp_path: Path) -> None:
    nodes = (
        helper.make_node("Mul", ["x", "huge"], ["z"]), helper.make_node("Tanh", ["z"], ["t"]),
        helper.make_node("Mul", ["t", "t"], ["u"]), helper.make_node("Add", ["u", "half"], ["fixed"]),
        helper.make_node("Add", ["x", "half"], ["y"]),
    )  # fmt: skip
    checked = edgec.check(_model(tmp_path, *nodes, outputs=("fixed", "y")), samples=1)
    assert checked.verdict == "ok" and list(checked.unproven) == ["fixed"]
    assert "does not depend on the inputs" in checked.unproven["fixed"]


def test_bench_takes_a_sample(tmp_path: Path) -> None:
    pictures = np.random.default_rng(0).uniform(0, 1, (3, 1, 8, 8)).astype(np.float32)
    np.savez(tmp_path / "pictures.npz", image=pictures)
    built = edgec.build(DIGITS, tmp_path / "out")
    assert edgec.bench(built, inputs=tmp_path / "pictures.npz", seconds=0.01, rounds=1).timing.calls

    def folder_bench(inputs: Path) -> int:
        done = bench_built(tmp_path / "out", threads=1, seconds=0.01, rounds=1, progress=silent, inputs=inputs)
        return done.timing.calls

    assert folder_bench(tmp_path / "pictures.npz")
    np.savez(tmp_path / "wrong.npz", image=pictures[:, :, :7])
    np.savez(tmp_path / "other.npz", picture=pictures)
    for name, words in (("wrong", "and the array|expected"), ("other", "no array for input 'image'")):
        with pytest.raises(EdgecError, match=words):
            folder_bench(tmp_path / f"{name}.npz")


def test_a_number_alone_is_drawn_smaller_too(tmp_path: Path) -> None:
    values = [helper.make_tensor("big", TensorProto.FLOAT, [], [4e4])]
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "big"], ["z"]), helper.make_node("Tanh", ["z"], ["y"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [])], values,
    )  # fmt: skip
    path = tmp_path / "number.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    checked = edgec.check(path, samples=1)
    assert checked.ok and "y" in checked.unproven


@pytest.mark.parametrize("dtype", ["i64", "bool"])
def test_decisions_are_checked_near_where_they_change(dtype: str) -> None:
    """A threshold that is a hundredth of the values off is found; drawn inputs of the usual sizes never change it."""
    x = placeholder("x", Type("f32", (1, 4)))
    total = ops.node("reduce", x, combine="add", axes=(1,))

    def graph(threshold: float) -> Graph:
        above = ops.node("lt", constant(np.array([threshold], np.float32)), total)
        return Graph((x,), (("y", above if dtype == "bool" else ops.node("cast", above, to="i64")),))

    right, wrong = (partial(run_graph, graph(t)) for t in (4.0, 4.1))

    def draw(k: int) -> dict[str, np.ndarray]:
        return {"x": np.random.default_rng(k + 3).standard_normal((1, 4)).astype(np.float32)}

    sets = [draw(-k) for k in (3, 2, 1)]
    assert all(np.array_equal(right(s)["y"], wrong(s)["y"]) for s in sets)
    near = both_sides(graph(4.0), right, sets, draw, halvings=8)
    assert near and all(right(a)["y"] != right(b)["y"] for a, b in zip(near[::2], near[1::2], strict=True))
    assert any(right(s)["y"] != wrong(s)["y"] for s in near)
    assert all(np.abs(a["x"] - b["x"]).max() < 0.3 for a, b in zip(near[::2], near[1::2], strict=True))
    assert not both_sides(Graph((x,), (("y", total),)), right, sets, draw, halvings=8)

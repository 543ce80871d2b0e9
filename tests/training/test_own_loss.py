"""Losses that are ONNX graphs of the user's own: trained with, and refused where they are no losses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from small_models import model, node, weights
from trained_models import DEVICES, floats, linear

import edgec
from edgec.artifact.folder import read_lock
from edgec.artifact.trainer import Trainer
from edgec.check.training import check_training
from edgec.errors import EdgecError, UsageError

Nodes = list[onnx.NodeProto]


def huber() -> Nodes:
    """Squares near the target, distances far from it: d^2 / 2 below 1, d - 1/2 above."""
    return [
        node("Sub", ["a", "t"], ["off"]), node("Abs", ["off"], ["d"]), node("Mul", ["off", "off"], ["square"]),
        node("Mul", ["square", "half"], ["near"]), node("Sub", ["d", "half"], ["far"]),
        node("Less", ["d", "one"], ["is_near"]), node("Where", ["is_near", "near", "far"], ["each"], "choice"),
        node("ReduceMean", ["each"], ["loss"], "mean", keepdims=0),
    ]  # fmt: skip


def loss_file(
    path: Path, nodes: Nodes, answers: Any = ("n", 3), targets: Any = ("n", 3), kind: int = TensorProto.FLOAT,
    outputs: tuple[str, ...] = ("loss",), inputs: tuple[str, ...] = ("a", "t"),
) -> Path:  # fmt: skip
    shapes = {"a": answers, "t": targets}
    given = [
        helper.make_tensor_value_info(name, kind if name == "t" else TensorProto.FLOAT, shapes.get(name, [1]))
        for name in inputs
    ]
    held = [weights("half", np.float32(0.5)), weights("one", np.float32(1)), weights("axis", np.array([1]))]
    onnx.save(model(nodes, given, outputs, held), path)
    return path


@pytest.mark.parametrize("device", DEVICES, ids=["c", "cuda"])
def test_a_huber_loss(device: dict[str, Any], tmp_path: Path) -> None:
    loss = loss_file(tmp_path / "huber.onnx", huber())
    folder = edgec.build(linear(), tmp_path / "out", loss=str(loss), optimizer="sgd:lr=0.1", **device).folder
    with Trainer(folder) as net:
        assert net.said["loss"] == "huber.onnx"
        assert check_training(net, vs=None, steps=20).ok
        x, target = floats(5, 4), floats(5, 3, scale=2)
        w, b = (net.weights[n].astype(np.float64) for n in ("w", "b"))
        off = x @ w + b - target
        assert (abs(off) < 1).any() and (abs(off) >= 1).any()
        found = net.step(x, target)
        assert found == pytest.approx(np.where(abs(off) < 1, off**2 / 2, abs(off) - 0.5).mean(), rel=1e-5)
        by = np.clip(off, -1, 1) / off.size
        np.testing.assert_allclose(net.weights["w"], w - 0.1 * x.T @ by, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(net.weights["b"], b - 0.1 * by.sum(0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("device", DEVICES, ids=["c", "cuda"])
def test_classes_as_targets(device: dict[str, Any], tmp_path: Path) -> None:
    """The logarithm of the share of a class, which is gathered: a class outside of the network is told."""
    nodes = [
        node("LogSoftmax", ["a"], ["shares"], axis=1), node("Unsqueeze", ["t", "axis"], ["places"]),
        node("GatherElements", ["shares", "places"], ["picked"], "pick", axis=1), node("Neg", ["picked"], ["each"]),
        node("ReduceMean", ["each"], ["loss"], keepdims=0),
    ]  # fmt: skip
    loss = loss_file(tmp_path / "own.onnx", nodes, targets=("n",), kind=TensorProto.INT64)
    proto, x = linear(), floats(5, 4)
    losses = {}
    for name, given in (("own", str(loss)), ("theirs", "cross_entropy")):
        folder = edgec.build(proto, tmp_path / name, loss=given, optimizer="adam:lr=0.01", **device).folder
        with Trainer(folder) as net:
            losses[name] = [net.step(x, np.array([0, 2, 1, 1, 0])) for _ in range(10)]
            with pytest.raises(UsageError, match="target is"):
                net.step(x, np.array([0, 2, 3, 1, 0]))
    np.testing.assert_allclose(losses["own"], losses["theirs"], rtol=1e-5)


def test_of_another_output_and_batch(tmp_path: Path) -> None:
    loss = loss_file(tmp_path / "huber.onnx", huber(), answers=None, targets=("n", 3))
    with pytest.raises(UsageError, match="does not follow from the answers"):
        edgec.build(linear(), tmp_path / "out", loss=str(loss), compile=False)
    loss = loss_file(tmp_path / "huber.onnx", huber())
    built = edgec.build(linear(1), tmp_path / "out", loss=f"{loss}:y", batch=4, compile=False)
    assert read_lock(built.folder)["training"]["target"]["shape"] == [4, 3]


def mean(of: str = "a") -> Nodes:
    return [node("ReduceMean", [of], ["loss"], keepdims=0), node("Abs", ["t"], ["unused"])]


REFUSED: dict[str, tuple[Nodes, dict[str, Any], str]] = {
    "three inputs": (huber(), {"inputs": ("a", "t", "x")}, "this one has 3"),
    "no scalar": (huber()[:-1], {"outputs": ("each",)}, "a loss is one float of 32 bits"),
    "two outputs": (huber(), {"outputs": ("loss", "each")}, "a loss is one float of 32 bits"),
    "another shape": (huber(), {"answers": ("n", 4), "targets": ("n", 4)}, r"answers of shape \[5, 3\]"),
    "another batch": (huber(), {"answers": (2, 3), "targets": (2, 3)}, r"answers of shape \[5, 3\]"),
    "one name, two extents": (huber(), {"answers": ("n", "n")}, r"answers of shape \[5, 3\]"),
    "unknown targets": (huber(), {"targets": ("m", 3)}, "does not follow from the answers"),
    "steps": ([node("Round", ["a"], ["r"]), *mean("r")], {}, "does not follow its answers"),
    "of the targets alone": (mean("t"), {}, "does not follow its answers"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str, tmp_path: Path) -> None:
    nodes, given, message = REFUSED[case]
    loss = loss_file(tmp_path / "loss.onnx", nodes, **given)
    with pytest.raises(EdgecError, match=message) as raised:
        edgec.build(linear(), tmp_path / "out", loss=str(loss), compile=False)
    assert raised.value.hint
    assert not (tmp_path / "out").exists()


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(EdgecError, match="cannot read the model"):
        edgec.build(linear(), tmp_path / "out", loss=str(tmp_path / "none.onnx"), compile=False)
    (tmp_path / "text.onnx").write_text("no model")
    with pytest.raises(EdgecError, match="not an ONNX file"):
        edgec.build(linear(), tmp_path / "out", loss=str(tmp_path / "text.onnx"), compile=False)

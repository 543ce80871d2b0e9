"""Networks on labelled data: metrics, whose labels, and what a drop does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import edgec
from edgec.check.compare import Difference, compare_all, quantized_outputs
from edgec.check.metrics import metrics
from edgec.check.score import labelled
from edgec.errors import UsageError
from edgec.frontend.source import import_graph, read
from edgec.resources import data_folder

DIGITS = data_folder("apps") / "digits" / "digits.onnx"


def digits(folder: Path) -> Path:
    with np.load(data_folder("apps") / "digits" / "digits_test.npz") as data:
        arrays = {name: data[name] for name in data.files}
    graph = import_graph(read(DIGITS), {})
    (x,) = graph.inputs
    pictures = next(a for a in arrays.values() if a.ndim > 1)
    labels = next(a for a in arrays.values() if a.ndim == 1)
    pictures = pictures.reshape(-1, *x.type.shape).astype(np.float32)
    np.savez(folder / "digits.npz", **{x.attributes["name"]: pictures[:120], "labels": labels[:120]})
    return folder / "digits.npz"


def test_metrics_say_what_they_mean(tmp_path: Path) -> None:
    known = metrics()
    scores = np.array([[[0.1, 0.9]], [[0.8, 0.2]], [[0.4, 0.6]], [[0.3, 0.7]]])
    assert known["top1"](scores, np.array([1, 0, 0, 1]).reshape(4, 1)) == 75
    sequences = np.eye(3)[np.array([[0, 1, 2], [2, 2, 2]])]
    assert known["exact"](sequences, np.array([[0, 1, 2], [2, 1, 2]])) == 50
    mask = np.array([[[0.9, 0.9], [0.1, 0.2]]])
    assert known["iou"](mask, np.array([[[1, 0], [0, 0]]])) == pytest.approx(100 * (1 / 2 + 2 / 3) / 2)
    assert known["cosine"](np.eye(2), np.eye(2)[::-1]) == 0 and known["cosine"](mask, mask) == pytest.approx(100)
    with pytest.raises(UsageError, match="do not fit"):
        known["top1"](scores, np.zeros((4, 7)))
    (tmp_path / "mine.py").write_text(
        "from edgec.check.metrics import metric\n\n@metric('half')\ndef half(outputs, labels):\n    return 50.0\n"
    )
    assert metrics([tmp_path])["half"](scores, scores) == 50
    (tmp_path / "wrong.py").write_text("1 / 0\n")
    for folder, message in ((tmp_path, "ZeroDivision"), (tmp_path / "none", "no such folder")):
        with pytest.raises(UsageError, match=message):
            metrics([folder])


def test_a_network_is_scored_beside_its_reference(tmp_path: Path) -> None:
    data = digits(tmp_path)
    found = edgec.score(DIGITS, data, quantize="int8", calibrate=data_only(data, tmp_path))
    assert [v.name for v in found.variants][1:] == ["compiled", "int8"]
    reference, compiled, narrow = found.variants
    assert found.ok and found.labels == "the data" and found.samples == 120
    assert reference.value > 90 and compiled.value == reference.value and compiled.agrees == 100
    assert abs(narrow.value - reference.value) <= 2


def data_only(data: Path, folder: Path) -> Path:
    with np.load(data) as file:
        np.savez(folder / "calibration.npz", **{k: file[k][:12] for k in file.files if k != "labels"})
    return folder / "calibration.npz"


def test_data_without_labels_are_compared_with_the_reference(tmp_path: Path) -> None:
    found = edgec.score(DIGITS, data_only(digits(tmp_path), tmp_path))
    assert found.labels != "the data" and [v.value for v in found.variants] == [100, 100]


def test_odd_data_are_refused(tmp_path: Path) -> None:
    graph = import_graph(read(DIGITS), {})
    (x,) = graph.inputs
    name, one = x.attributes["name"], np.zeros((3, *x.type.shape), np.float32)
    for file, arrays, message in (
        ("short", {name: one, "labels": np.zeros(2)}, "3 inputs and 2 labels"),
        ("two", {name: one, "a": np.zeros(3), "b": np.zeros(3)}, "which of a, b"),
        ("none", {"labels": np.zeros(3)}, "missing"),
    ):
        np.savez(tmp_path / f"{file}.npz", **arrays)
        with pytest.raises(UsageError, match=message):
            labelled(graph, tmp_path / f"{file}.npz")
    with pytest.raises(UsageError, match="no data"):
        labelled(graph, tmp_path / "missing")
    with pytest.raises(UsageError, match="no metric 'guess'"):
        edgec.score(DIGITS, data_only(digits(tmp_path), tmp_path), "guess")


def test_a_dequantized_output_may_be_one_step_off() -> None:
    from edgec import ops
    from edgec.ir.graph import Graph, constant, placeholder
    from edgec.ir.types import Type

    q = placeholder("q", Type("u8", (4,)))
    scale = np.float32(1 / 255)
    y = ops.node("mul", ops.node("cast", q, to="f32"), constant(scale.reshape(())))
    steps = quantized_outputs(Graph((q,), (("y", y), ("z", ops.node("exp", y)))))
    assert steps == {"y": pytest.approx(1 / 255)}
    want = {"y": np.array([0, 1, 2, 255], np.float32) * scale}
    for off, passes in ((1, True), (2, False)):
        (found,) = compare_all({"y": want["y"] + np.float32(off) * scale}, want, steps)
        assert isinstance(found, Difference) and found.within(1e-4) == passes

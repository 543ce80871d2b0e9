"""Batch normalization by the statistics of each batch: beside PyTorch and numpy, and what the network answers then."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from chance import RANDOM
from onnx import numpy_helper
from trained_models import convolutions

import edgec
from edgec.artifact.trainer import LossError, Trainer
from edgec.check.training import check_training
from edgec.errors import UsageError


def _built(folder: Path, *, batch: int = 6, model: onnx.ModelProto | None = None, **more: object) -> Path:
    asked = {"loss": "cross_entropy", "optimizer": "sgd:lr=0.05,momentum=0.9", "batch_norm": "batch", **more}
    edgec.build(model or convolutions("n"), folder / "out", batch=batch, **asked)  # type: ignore[arg-type]
    return folder / "out"


def _batch(count: int = 6) -> tuple[np.ndarray, np.ndarray]:
    image = (RANDOM.standard_normal((count, 2, 8, 8)) * 2 + 3).astype(np.float32)
    return image, RANDOM.integers(0, 5, count)


def _by_hand(model: onnx.ModelProto, image: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """The running statistics of the first convolution's results, whose weights are not trained."""
    held = {t.name: numpy_helper.to_array(t).astype(np.float64) for t in model.graph.initializer}
    padded = np.pad(image.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))[:, :, ::2, ::2]
    made = np.einsum("nchwij,ocij->nohw", windows, held["w1"])
    mean, variance = held["mean"], held["variance"]
    for _ in range(steps):
        mean = 0.9 * mean + 0.1 * made.mean((0, 2, 3))
        variance = 0.9 * variance + 0.1 * made.var((0, 2, 3))
    return mean, variance


@pytest.mark.parametrize("vs", [None, "torch"])
@pytest.mark.parametrize("more", [{}, {"accumulate": 2}, {"optimizer": "adamw:lr=0.01,clip=1"}])
def test_beside_a_reference(vs: str | None, more: dict[str, object], tmp_path: Path) -> None:
    if vs == "torch":
        pytest.importorskip("torch")
    with Trainer(_built(tmp_path, **more)) as trainer:
        assert trainer.statistics == {"mean", "variance"}
        found = check_training(trainer, vs=vs, steps=20)
    assert found.ok, found
    assert found.weights < 1e-4


def test_statistics_stay_finite(tmp_path: Path) -> None:
    """A variance that overflows leaves a loss that does not: values over an infinite one are zero."""
    image, label = _batch()
    image[2, 1, 3, 3] = 1e25
    with Trainer(_built(tmp_path, update="last:1")) as trainer:
        before = trainer.state["variance"].copy()
        assert np.isfinite(trainer.step(image, label))
        assert all(np.isfinite(value).all() for value in trainer.state.values())
        assert np.array_equal(trainer.state["variance"], before)


def test_statistics_follow_the_batches(tmp_path: Path) -> None:
    image, label = _batch()
    model = convolutions("n")
    with Trainer(_built(tmp_path, model=model, update="last:1")) as trainer:
        for _ in range(3):
            trainer.step(image, label)
        mean, variance = _by_hand(model, image, 3)
        np.testing.assert_allclose(trainer.weights["mean"], mean, rtol=1e-5)
        np.testing.assert_allclose(trainer.weights["variance"], variance, rtol=1e-5)
        assert set(trainer.weights) == {"w3", "b3", "mean", "variance"}


def test_a_refused_step_leaves_statistics_as_they_were(tmp_path: Path) -> None:
    image, label = _batch()
    with Trainer(_built(tmp_path)) as trainer:
        trainer.step(image, label)
        before = {name: array.copy() for name, array in trainer.state.items()}
        image[0, 0, 0, 0] = np.nan
        with pytest.raises(LossError):
            trainer.step(image, label)
        for name, array in trainer.state.items():
            np.testing.assert_array_equal(array, before[name])


def test_the_network_answers_by_the_running_statistics(tmp_path: Path) -> None:
    image, label = _batch()
    with Trainer(_built(tmp_path)) as trainer:
        begun = trainer(image[:1]) if trainer.network.inputs[0].shape[0] == 1 else trainer(image)
        for _ in range(20):
            trainer.step(image, label)
        given = image[: begun.shape[0]]
        answers = trainer(given)
        trainer.export_onnx(tmp_path / "trained.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "trained.onnx", providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"image": given})
    np.testing.assert_allclose(answers, expected, rtol=1e-4, atol=1e-5)
    assert np.abs(answers - begun).max() > 1e-2


def test_what_has_no_statistics_is_refused(tmp_path: Path) -> None:
    bare = convolutions("n")
    for node in bare.graph.node:
        if node.op_type == "BatchNormalization":
            node.op_type = "Identity"
            del node.input[1:], node.attribute[:]
    with pytest.raises(UsageError, match="no batch normalization"):
        _built(tmp_path, model=bare)
    old = convolutions("n")
    old.opset_import[0].version = 13
    with pytest.raises(UsageError, match="operator set 13"):
        _built(tmp_path, model=old)
    computed = convolutions("n")
    next(n for n in computed.graph.node if n.op_type == "BatchNormalization").input[4] = "scale_of_batch"
    computed.graph.node.insert(0, onnx.helper.make_node("Abs", ["variance"], ["scale_of_batch"]))
    with pytest.raises(UsageError, match="no constant of the file"):
        _built(tmp_path, model=computed)
    with pytest.raises(UsageError, match="no source of statistics"):
        _built(tmp_path, batch_norm="running")
    with pytest.raises(UsageError, match="not written for GPUs"):
        _built(tmp_path, device="cuda_sm90", compile=False)
    with pytest.raises(UsageError, match="without a loss"):
        edgec.build(convolutions(), tmp_path / "other", batch_norm="batch")

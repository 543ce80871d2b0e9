"""Training on CUDA, in the emulation: the step beside the step's graph and the processor's, its statuses, its state."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from chance import RANDOM
from trained_models import attention, convolutions, linear, rooted

import edgec
from edgec import Trainer
from edgec.artifact.trainer import LossError
from edgec.check.training import batch_of, check_training
from edgec.errors import UsageError

ON_GPU: dict[str, Any] = {"device": "cuda_sm90", "compiler": "emulated"}
CLASSES: dict[str, Any] = {"loss": "cross_entropy", "batch": 4}


@pytest.fixture(scope="module")
def network() -> onnx.ModelProto:
    return convolutions()


@pytest.fixture(scope="module")
def folder(network: onnx.ModelProto, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("training") / "out"
    edgec.build(network, path, optimizer="adam:lr=0.01,clip=1", **CLASSES, **ON_GPU)
    return path


@pytest.fixture
def trainer(folder: Path) -> Iterator[Trainer]:
    with edgec.load(folder) as opened:
        yield opened


@pytest.mark.parametrize("optimizer", ["sgd:lr=0.1", "sgd:lr=0.1,momentum=0.9,weight_decay=0.01", "adamw"])
@pytest.mark.parametrize("update", ["all", "bias"])
def test_steps_are_those_of_the_graph(optimizer: str, update: str, tmp_path: Path) -> None:
    given: dict[str, Any] = {"loss": "mse", "optimizer": optimizer, "update": update}
    edgec.build(linear(), tmp_path / "out", **given, **ON_GPU)
    with edgec.load(tmp_path / "out") as built:
        found = check_training(built, vs=None, steps=60)
    assert found.ok
    assert found.weights < 1e-4


def test_steps_of_a_network_are_those_of_the_graph(trainer: Trainer) -> None:
    found = check_training(trainer, vs=None, steps=60)
    assert found.ok
    assert found.weights < 1e-4


def test_steps_are_those_of_the_processor(network: onnx.ModelProto, folder: Path, tmp_path: Path) -> None:
    """Losses, states and deltas; what one saves the other restores."""
    edgec.build(network, tmp_path / "cpu", optimizer="adam:lr=0.01,clip=1", **CLASSES)
    with edgec.load(tmp_path / "cpu") as cpu, edgec.load(folder) as gpu:
        for k in range(20):
            batch, rate = batch_of(cpu, k), 0.01 / (k + 1)
            assert gpu.step(*batch, learning_rate=rate) == pytest.approx(cpu.step(*batch, learning_rate=rate), abs=1e-4)
        for name, value in gpu.state.items():
            want = cpu.state[name]
            np.testing.assert_allclose(value, want, rtol=0, atol=1e-3 * max(np.abs(want).max(), 1e-3))
        gpu.save(tmp_path / "state.npz")
        cpu.restore(tmp_path / "state.npz")
        assert all(np.array_equal(value, cpu.weights[name]) for name, value in gpu.weights.items())
        changes = [np.sort(d[d != 0]) for d in (gpu.delta(), cpu.delta())]
        assert len(changes[0]) and np.array_equal(*changes)  # they are the same, in another order
        image = RANDOM.standard_normal((1, 2, 8, 8)).astype(np.float32)
        np.testing.assert_allclose(gpu(image), cpu(image), rtol=0, atol=1e-5)


def test_a_refused_step_changes_nothing(trainer: Trainer) -> None:
    image, target = batch_of(trainer, 0)
    trainer.step(image, target)
    before = {name: value.copy() for name, value in trainer.state.items()}
    for wrong in (np.full_like(target, -1), np.full_like(target, 5)):
        with pytest.raises(UsageError, match="no class of the network"):
            trainer.step(image, wrong)
    with pytest.raises(LossError, match="the loss is nan"):
        trainer.step(np.full_like(image, np.inf), target)
    assert all(np.array_equal(value, before[name]) for name, value in trainer.state.items())
    assert trainer.step(image, target) > 0


def test_an_infinite_gradient_changes_nothing(tmp_path: Path) -> None:
    edgec.build(rooted(), tmp_path / "out", loss="mse", optimizer="sgd:lr=0.1", **ON_GPU)
    with edgec.load(tmp_path / "out") as built:
        before = built.weights["w"].copy()
        with pytest.raises(LossError, match="a gradient is no finite number"):
            built.step(np.zeros((1, 4), np.float32), np.ones((1, 3), np.float32))
        assert np.array_equal(built.weights["w"], before)


def test_steps_are_the_same_whatever_the_arena_held(trainer: Trainer) -> None:
    """The same bits, twice, and with an arena of other content."""
    batches, found = [batch_of(trainer, k) for k in range(5)], []
    for poisons in (False, True):
        trainer.reset()
        for batch in batches:
            if poisons:
                trainer.stepping.poison()  # type: ignore[attr-defined]
            trainer.step(*batch)
        found.append({name: value.copy() for name, value in trainer.state.items()})
    assert all(np.array_equal(found[0][name], value) for name, value in found[1].items())


def test_what_is_written_to_weights_counts(trainer: Trainer) -> None:
    batch = batch_of(trainer, 0)
    first = trainer.step(*batch)
    for value in trainer.weights.values():
        value[...] = 0
    assert trainer.step(*batch) == pytest.approx(np.log(5), abs=1e-5)
    trainer.reset()
    assert trainer.step(*batch) == first


def test_gradients_are_added_up(network: onnx.ModelProto, tmp_path: Path) -> None:
    """Two steps of two samples as one of four, and no new graph for another learning rate."""
    given: dict[str, Any] = {"loss": "cross_entropy", "optimizer": "sgd:lr=0.1,momentum=0.9"}
    edgec.build(network, tmp_path / "one", batch=4, **given, **ON_GPU)
    edgec.build(network, tmp_path / "two", batch=2, accumulate=2, **given, **ON_GPU)
    with edgec.load(tmp_path / "one") as one, edgec.load(tmp_path / "two") as two:
        for k in range(4):
            image, target = batch_of(one, k)
            for part in (slice(2), slice(2, 4)):
                two.step(image[part], target[part], learning_rate=0.01 / (k + 1))
            one.step(image, target, learning_rate=0.01 / (k + 1))
        for name, value in one.weights.items():
            np.testing.assert_allclose(two.weights[name], value, rtol=0, atol=1e-4 * np.abs(value).max())


@pytest.mark.parametrize(("precision", "bound"), [("fp32", 1e-5), ("fp16", 5e-3)])
def test_attention_goes_backwards_without_scores_in_memory(precision: str, bound: float, tmp_path: Path) -> None:
    given: dict[str, Any] = {"loss": "cross_entropy", "batch": 3, "optimizer": "sgd:lr=0.1"}
    built = edgec.build(attention(), tmp_path / "out", precision=precision, **given, **ON_GPU)
    assert built.program.training is not None
    kernels = built.program.training.step.kernels
    assert [k.template for k in kernels].count("attention_gradients") == 2  # statistics of rows, and gradients
    scores = 3 * 2 * 40 * 40
    assert all(b.elements < scores for k in kernels for b in k.touches if b.space == "arena")
    with edgec.load(tmp_path / "out") as opened:
        found = check_training(opened, vs=None, steps=10)
    assert found.ok
    assert found.gradients < bound

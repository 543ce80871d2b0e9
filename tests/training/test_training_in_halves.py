"""Training on CUDA in fp16 and TF32, in the emulation: weights in fp32, a scaled loss, and steps that overflow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_models import model, node, tensor_input, weights
from trained_models import convolutions, floats, rooted

import edgec
from edgec import Trainer
from edgec.artifact.trainer import LossError
from edgec.check.training import batch_of, check_training
from edgec.differentiate.scaling import FIRST, MOST
from edgec.errors import UsageError

ON_GPU: dict[str, Any] = {"device": "cuda_sm90", "compiler": "emulated"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("training") / "out"
    given: dict[str, Any] = {"loss": "cross_entropy", "batch": 4, "optimizer": "sgd:lr=0.1,momentum=0.9"}
    edgec.build(convolutions(), path, precision="fp16", **given, **ON_GPU)
    return path


@pytest.fixture
def trainer(folder: Path) -> Iterator[Trainer]:
    with edgec.load(folder) as opened:
        yield opened


def test_steps_in_halves_are_near_those_of_the_graph(trainer: Trainer) -> None:
    found = check_training(trainer, vs=None, steps=8)
    assert found.ok
    assert 1e-5 < found.gradients < 5e-3  # factors have 11 bits
    assert found.losses < 1e-2
    assert trainer.loss_scale == FIRST


def wide() -> Any:
    """Two products with 36 thousand weights each, and a small one."""
    nodes = [
        node("MatMul", ["x", "w1"], ["h1"], "first"), node("Tanh", ["h1"], ["r1"]),
        node("MatMul", ["r1", "w2"], ["h2"], "second"), node("Tanh", ["h2"], ["r2"]),
        node("MatMul", ["r2", "w3"], ["y"], "third"),
    ]  # fmt: skip
    held = {"w1": floats(176, 208, scale=0.08), "w2": floats(208, 176, scale=0.08), "w3": floats(176, 3)}
    return model(nodes, [tensor_input("x", [1, 176])], ["y"], [weights(n, v) for n, v in held.items()])


def test_large_weights_are_copied_in_halves_once_a_step(tmp_path: Path) -> None:
    """All products that read them read the copy, which follows the updates; small weights have none."""
    given: dict[str, Any] = {"loss": "mse", "batch": 112, "optimizer": "sgd:lr=0.05"}
    built = edgec.build(wide(), tmp_path / "out", precision="fp16", **given, **ON_GPU)
    training = built.program.training
    assert training is not None
    with edgec.load(tmp_path / "out") as trainer:
        found = check_training(trainer, vs=None, steps=6)
        assert found.ok and found.gradients < 5e-3 and found.losses < 1e-2
    parts = [part for k in training.step.kernels for part in (k.schedule.shared_steps or (k,))]
    read = [k.operands[:-1] for k in parts if k.template == "contract"]
    large = [[b for b in operands if b.elements >= 1 << 14] for operands in read]
    assert all(b.dtype == "f16" for operands in large for b in operands)
    copies = [b for operands in large for b in operands if b.elements == 176 * 208]
    assert len(copies) == 3 and len(set(copies)) == 2  # the second's is read again, backwards
    assert sum(any(b.name == "w3" and b.dtype == "f32" for b in operands) for operands in read) == 2


def test_steps_in_tf32_are_near_those_of_the_graph(tmp_path: Path) -> None:
    edgec.build(convolutions(), tmp_path / "out", loss="cross_entropy", batch=4, precision="tf32", **ON_GPU)
    with edgec.load(tmp_path / "out") as built:
        found = check_training(built, vs=None, steps=20)
        assert found.ok and 1e-5 < found.gradients < 5e-3
        assert built.loss_scale == 1.0
        assert not any("scale" in name for name in built.state.keys() - built.weights.keys())


def test_a_step_that_overflows_halves_the_factor_and_changes_no_weight(trainer: Trainer) -> None:
    batch = batch_of(trainer, 0)
    first = trainer.step(*batch)
    trainer.reset()
    trainer.state["loss_scale"][...] = MOST - FIRST
    before = {name: w.copy() for name, w in trainer.weights.items()}
    for expected in (MOST / 2, MOST / 4):
        assert trainer.step(*batch) == pytest.approx(first)
        assert trainer.loss_scale == expected
        assert all(np.array_equal(w, before[name]) for name, w in trainer.weights.items())
    found = [trainer.loss_scale]
    while len(found) < 2 or found[-1] < found[-2]:
        trainer.step(*batch)
        found.append(trainer.loss_scale)
    assert 1 < found[-1] <= MOST / 4
    assert any(not np.array_equal(w, before[name]) for name, w in trainer.weights.items())


def test_the_factor_is_doubled_after_steady_steps(trainer: Trainer) -> None:
    batch = batch_of(trainer, 0)
    trainer.state["loss_scale_steps"][...] = 1998.0
    for expected in (FIRST, 2 * FIRST, 2 * FIRST):
        trainer.step(*batch, learning_rate=0.0)
        assert trainer.loss_scale == expected
    with pytest.raises(LossError, match="the loss is nan"):  # no matter of the factor
        trainer.step(np.full_like(batch[0], np.inf), batch[1])
    assert trainer.loss_scale == 2 * FIRST


def test_gradients_that_are_infinite_at_any_factor_are_told(tmp_path: Path) -> None:
    edgec.build(rooted(), tmp_path / "out", loss="mse", precision="fp16", **ON_GPU)
    with edgec.load(tmp_path / "out") as built:
        given = np.zeros((1, 4), np.float32), np.ones((1, 3), np.float32)
        before = built.weights["w"].copy()
        while built.loss_scale > 1:
            built.step(*given)
        with pytest.raises(LossError, match="a gradient is no finite number"):
            built.step(*given)
        assert np.array_equal(built.weights["w"], before)


@pytest.mark.parametrize(("device", "precision"), [("host", "fp16"), ("host", "bf16")])
def test_other_precisions_are_refused(device: str, precision: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"takes no --precision {precision}"):
        edgec.build(convolutions(), tmp_path / "out", loss="cross_entropy", device=device, precision=precision)

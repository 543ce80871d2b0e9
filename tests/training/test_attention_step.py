"""Steps of networks with attention: the kernel of its gradients gives what its formula means, on any threads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from chance import RANDOM
from trained_models import attention

import edgec
from edgec import Trainer
from edgec.check.training import check_training


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("attention") / "out"
    edgec.build(attention(), path, loss="cross_entropy", optimizer="sgd:lr=0.1", batch=3, threads=2)
    return path


@pytest.fixture
def trainer(folder: Path) -> Iterator[Trainer]:
    with edgec.load(folder) as opened:
        yield opened


def test_the_step_has_the_kernel_and_learns(folder: Path, trainer: Trainer) -> None:
    assert any("attention_gradients" in path.read_text() for path in folder.glob("*kernels*.[ch]"))
    x, target = RANDOM.standard_normal((3, 40, 12)).astype(np.float32), np.array([0, 1, 2])
    losses = [trainer.step(x, target) for _ in range(40)]
    assert losses[-1] < 0.5 * losses[0]


def test_one_and_two_threads_give_the_same_bits(folder: Path, trainer: Trainer) -> None:
    with edgec.load(folder, threads=2) as other:
        for _ in range(5):
            x, target = RANDOM.standard_normal((3, 40, 12)).astype(np.float32), RANDOM.integers(0, 3, 3)
            assert trainer.step(x, target) == other.step(x, target)
        for name, value in trainer.state.items():
            assert np.array_equal(value, other.state[name]), name


def test_steps_are_those_of_the_formulas(trainer: Trainer) -> None:
    assert check_training(trainer, vs=None, steps=10).ok

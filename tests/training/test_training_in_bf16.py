"""Training on CUDA in bf16, in the emulation: weights in fp32, no scaled loss, gradients beside those in fp32.

A number in bf16 is off by 2^-8 of itself at most. A gradient of L products one after the other has passed 2 L of them,
forwards and backwards, each of two rounded factors: 4 L roundings.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from small_models import model, node, tensor_input, weights
from trained_models import attention, convolutions, floats

import edgec
from edgec.artifact.trainer import LossError
from edgec.check.training import batch_of, check_training, gradients_of
from edgec.errors import UsageError

ON_GPU: dict[str, Any] = {"device": "cuda_sm90", "compiler": "emulated"}
CLASSES: dict[str, Any] = {"loss": "cross_entropy", "batch": 3, "optimizer": "sgd:lr=0.1"}
ROUNDING = 2.0**-8


def wide() -> Any:
    """An MLP with a residual: products of 36 thousand weights, which are copied in bf16."""
    nodes = [
        node("MatMul", ["x", "w1"], ["h1"], "first"), node("Tanh", ["h1"], ["r1"]),
        node("MatMul", ["r1", "w2"], ["h2"], "second"), node("Tanh", ["h2"], ["r2"]), node("Add", ["r2", "x"], ["s"]),
        node("MatMul", ["s", "w3"], ["y"], "third"),
    ]  # fmt: skip
    held = {"w1": floats(176, 208, scale=0.08), "w2": floats(208, 176, scale=0.08), "w3": floats(176, 3)}
    return model(nodes, [tensor_input("x", [1, 176])], ["y"], [weights(n, v) for n, v in held.items()])


CASES: dict[str, tuple[Any, dict[str, Any], int]] = {
    "mlp": (wide, {"loss": "mse", "batch": 112, "optimizer": "sgd:lr=0.05"}, 3),
    "convolutions": (convolutions, CLASSES, 3),
    "attention": (attention, CLASSES, 6),
}


@pytest.mark.parametrize("name", CASES)
def test_gradients_and_losses_are_near_those_in_fp32(name: str, tmp_path: Path) -> None:
    make, given, products = CASES[name]
    network = make()
    found: dict[str, tuple[dict[str, np.ndarray], list[float]]] = {}
    for precision in ("fp32", "bf16"):
        built = edgec.build(network, tmp_path / precision, precision=precision, **given, **ON_GPU)
        with edgec.load(tmp_path / precision) as trainer:
            assert trainer.loss_scale == 1.0
            assert not any("scale" in n for n in trainer.state.keys() - trainer.weights.keys())
            assert all(w.dtype == np.float32 for w in trainer.weights.values())
            gradients = gradients_of(trainer, batch_of(trainer, 0))
            trainer.reset()
            losses = [trainer.step(*batch_of(trainer, k % 4), learning_rate=0.01) for k in range(20)]
            found[precision] = gradients, losses
    (exact, wanted), (rounded, losses) = found["fp32"], found["bf16"]
    # Of all gradients together: a small one alone may be what large ones leave when they cancel.
    moved = sum(float(((rounded[n] - g) ** 2).sum()) for n, g in exact.items())
    apart = float(np.sqrt(moved / sum(float((g**2).sum()) for g in exact.values())))
    assert ROUNDING / 64 < apart < 4 * products * ROUNDING
    assert max(abs(a - b) / max(1.0, abs(b)) for a, b in zip(losses, wanted)) < 2 * products * ROUNDING
    assert built.program.training is not None
    kernels = built.program.training.step.kernels
    stored = {b.dtype for k in kernels for b in k.touches}
    assert "f16" not in stored
    if name == "mlp":
        assert "bf16" in stored
    if name == "attention":
        tiles = [k.schedule.tile for k in kernels if k.template == "attention_gradients"]  # type: ignore[attr-defined]
        assert len(tiles) == 2 and all(t.element == "bf16" for t in tiles)


def test_check_updates_and_status(tmp_path: Path) -> None:
    """The check passes; updates below bf16's last bit add up in the weights; a loss that is NaN changes nothing."""
    given: dict[str, Any] = {"loss": "mse", "batch": 112, "optimizer": "sgd:lr=0.05"}
    edgec.build(wide(), tmp_path / "out", precision="bf16", **given, **ON_GPU)
    with edgec.load(tmp_path / "out") as trainer:
        assert check_training(trainer, vs=None, steps=4).ok
        trainer.reset()
        batch = batch_of(trainer, 0)
        gradient = gradients_of(trainer, batch)["w2"]
        trainer.reset()
        before = trainer.weights["w2"].copy()
        rate = float(np.abs(before).max() * 2.0**-14 / np.abs(gradient).max())
        for _ in range(4):
            trainer.step(*batch, learning_rate=rate)
        after = trainer.weights["w2"].copy()
        same = before.astype(ml_dtypes.bfloat16) == after.astype(ml_dtypes.bfloat16)
        assert same.mean() > 0.8 and (before != after).mean() > 0.9
        np.testing.assert_allclose(after - before, -4 * rate * gradient, rtol=0, atol=rate * np.abs(gradient).max())
        with pytest.raises(LossError, match="the loss is nan"):
            trainer.step(np.full_like(batch[0], np.nan), batch[1])
        assert np.array_equal(trainer.weights["w2"], after)


@pytest.mark.parametrize(("device", "said"), [("host", "takes no"), ("jetson_nano", "no kernels in bf16")])
def test_devices_without_bf16_training_say_so(device: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=said):
        edgec.build(convolutions(), tmp_path / "out", precision="bf16", **{**CLASSES, "device": device})

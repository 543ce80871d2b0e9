"""A built training: the compiled step beside the executor, threads, files, and C programs around it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from chance import RANDOM
from sanitized import ADDRESS_ALONE
from small_models import model, node, tensor_input, weights
from trained_models import Unopened, convolutions, floats, linear, rooted

import edgec
from edgec import Trainer
from edgec.artifact.folder import read_lock
from edgec.check.numpy_training import InNumpy
from edgec.check.training import batch_of, check_training
from edgec.cli.main import main
from edgec.differentiate.losses import LOSSES
from edgec.differentiate.optimizers import optimizer_of
from edgec.differentiate.step import Choices, training_step
from edgec.differentiate.update import trained, update_of
from edgec.errors import ModelError, UsageError
from edgec.frontend.onnx.importer import import_model
from edgec.frontend.onnx.model import read
from edgec.frontend.onnx.trainable import weights_of, with_batch, with_inputs
from edgec.ir.evaluate import run

ADAM = "adam:lr=0.01,clip=1"
STRICT = ["-std=gnu11", "-O1", "-march=native", "-Wall", "-Wextra", "-Werror", "-fno-math-errno"]


@pytest.fixture(scope="module")
def network() -> onnx.ModelProto:
    return convolutions()


@pytest.fixture(scope="module")
def folder(network: onnx.ModelProto, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four samples a step, for two threads."""
    path = tmp_path_factory.mktemp("training") / "out"
    edgec.build(network, path, loss="cross_entropy", optimizer=ADAM, batch=4, threads=2)
    return path


@pytest.fixture
def trainer(folder: Path) -> Iterator[Trainer]:
    with edgec.load(folder) as opened:
        yield opened


def samples(count: int) -> tuple[np.ndarray, np.ndarray]:
    return RANDOM.standard_normal((count, 2, 8, 8)).astype(np.float32), RANDOM.integers(0, 5, count)


def test_steps_are_those_of_the_executor(network: onnx.ModelProto, trainer: Trainer) -> None:
    parsed = read(network)
    chosen = trained(weights_of(parsed), update_of("all"), "model")
    opened = with_batch(with_inputs(parsed, chosen, ["g"]), {"image": (4, 2, 8, 8)})
    choices = Choices(LOSSES["cross_entropy"], optimizer_of(ADAM), tuple(w.name for w in chosen))
    step = training_step(import_model(opened), choices)
    types = {str(n.attributes["name"]): n.type for n in step.graph.inputs}
    states = {name: np.zeros(types[name].shape, np.float32) for name in step.states}
    states |= {w.name: w.value for w in chosen}
    assert set(states) == set(trainer.state)
    for k in range(10):
        image, target = samples(4)
        rate = 0.01 / (k + 1)
        given = {"image": image, "target": target, "learning_rate": np.float32(rate)}
        found = run(step.graph, {**given, **states})
        states = {name: found[new] for name, new in step.states.items()}
        assert abs(trainer.step(image, target, learning_rate=rate) - found["loss"]) < 1e-4
    for name, value in trainer.state.items():
        np.testing.assert_allclose(value, states[name], rtol=0, atol=1e-4 * max(np.abs(states[name]).max(), 1e-3))


def test_one_and_two_threads_give_the_same_bits(folder: Path, trainer: Trainer) -> None:
    with edgec.load(folder, threads=2) as other:
        for _ in range(5):
            image, target = samples(4)
            assert trainer.step(image, target) == other.step(image, target)
        for name, value in trainer.state.items():
            assert np.array_equal(value, other.state[name]), name


def test_fit_learns_and_is_repeatable(trainer: Trainer) -> None:
    image, target = samples(18)
    first = trainer.fit({"image": image, "target": target}, epochs=12).losses
    assert len(first) == 12 and first[-1] < 0.7 * first[0]
    trainer.reset()
    assert trainer.fit([image, target], epochs=12).losses == first
    trainer.reset()
    assert trainer.fit([image, target], epochs=1, learning_rate=lambda k: 0.0).losses != first[:1]
    assert not trainer.delta().any()


def test_files(trainer: Trainer, tmp_path: Path) -> None:
    """A trained network goes on from a file, and is a model of ONNX that gives the same answers."""
    image, target = samples(4)
    trainer.step(image, target)
    trainer.save(tmp_path / "state.npz")
    trainer.export_onnx(tmp_path / "trained.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "trained.onnx", providers=["CPUExecutionProvider"])
    wanted = session.run(None, {"image": image[:1]})[0]
    np.testing.assert_allclose(trainer(image[:1]), wanted, rtol=0, atol=1e-5)
    after = trainer.step(image, target)
    trainer.reset()
    trainer.restore(tmp_path / "state.npz")
    assert trainer.step(image, target) == after
    before = {name: value.copy() for name, value in trainer.state.items()}
    last = list(before)[-1]
    others: list[dict[str, np.ndarray]] = [
        {"w1": np.zeros(3, np.float32)},
        *({**before, last: np.zeros(before[last].shape, dtype)} for dtype in (np.float64, np.complex64, np.int32)),
    ]
    for k, other in enumerate(others):
        np.savez(tmp_path / "other.npz", **{n: a + (n != last) for n, a in other.items()})  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="holds no numbers" if k == 2 else "not saved by this training"):
            trainer.restore(tmp_path / "other.npz")
        assert all(np.array_equal(value, before[name]) for name, value in trainer.state.items())


def test_broken_steps_are_told_and_change_nothing(trainer: Trainer) -> None:
    image, target = samples(4)
    trainer.step(image, target)
    before = {name: value.copy() for name, value in trainer.state.items()}
    with pytest.raises(UsageError, match="no class"):
        trainer.step(image, np.array([0, 1, 5, 2]))
    with pytest.raises(ModelError, match="the loss is nan"):
        trainer.step(image * np.float32(np.nan), target)
    with pytest.raises(UsageError, match=r"'target' is int64\[3\]"):
        trainer.step(image, target[:3])
    with pytest.raises(UsageError, match="'target' is float64"):
        trainer.step(image, target.astype(np.float64))
    with pytest.raises(UsageError, match="a step takes 2"):
        trainer.step(image)
    with pytest.raises(UsageError, match="make no step of 4"):
        trainer.fit([image[:3], target[:3]])
    for name, value in trainer.state.items():
        assert np.array_equal(value, before[name]), name


@pytest.mark.parametrize("optimizer", ["sgd:momentum=0.5", "adam", "adamw:clip=1"])
def test_infinite_gradients_are_told_and_change_no_weight(optimizer: str, tmp_path: Path) -> None:
    """Moments neither, where gradients are kept until all are known, as a norm of them has it."""
    edgec.build(rooted(), tmp_path / "out", loss="mse", optimizer=optimizer)
    with edgec.load(tmp_path / "out") as trainer:
        x, target = RANDOM.standard_normal((1, 4)).astype(np.float32), np.ones((1, 3), np.float32)
        trainer.step(x, target)
        before = {name: value.copy() for name, value in trainer.state.items()}
        with pytest.raises(ModelError, match="a gradient is no finite number"):
            trainer.step(np.zeros_like(x), target)
        kept = trainer.state if "clip" in optimizer else trainer.weights
        assert all(np.array_equal(value, before[name]) for name, value in kept.items())
        trainer.step(x, target)
        assert not np.array_equal(trainer.weights["w"], before["w"])
        assert all(np.isfinite(value).all() for value in trainer.state.values())


_PROGRAM = """
#include "net_training.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static _Alignas(64) unsigned char arena[NET_STEP_ARENA_BYTES + 1], small[NET_ARENA_BYTES + 1];
static _Alignas(64) unsigned char state[NET_STATE_BYTES], other[NET_STATE_BYTES];

int main(void) {
  static float delta[NET_TRAINED_BYTES / sizeof(float)], after[NET_TRAINED_BYTES / sizeof(float)];
  float image[4 * 2 * 8 * 8], answers[5], again[5], loss = -1, first = 0;
  int64_t target[4] = {0, 1, 2, 3};
  memset(arena, 0xff, NET_STEP_ARENA_BYTES);
  for (int i = 0; i < 4 * 2 * 8 * 8; ++i) image[i] = (float)((i * 37) % 19) / 19 - 0.5f;
  net_state_init(state);
  for (int k = 0; k < 50; ++k) {
    const int status = net_step(net_weights, state, arena, 0, image, target, NET_LEARNING_RATE, &loss);
    if (status) return 100 + status;
    if (!k) first = loss;
  }
  net_export_delta(state, delta);
  net_state_init(other);
  net_import_delta(other, delta);
  if (net_predict(net_weights, state, small, 0, image, answers)) return 2;
  if (net_predict(net_weights, other, small, 0, image, again)) return 3;
  for (int i = 0; i < 5; ++i)
    if (answers[i] - again[i] > 1e-5f || again[i] - answers[i] > 1e-5f) return 4;
  memcpy(other, state, NET_STATE_BYTES);
  const int64_t wrong[] = {5, -1, INT64_MIN, INT64_MAX, 1LL << 32};
  for (int k = 0; k < 5; ++k) {
    target[2] = wrong[k];
    if (net_step(net_weights, state, arena, 0, image, target, 0.1f, &loss) != NET_BAD_TARGET) return 5;
    if (memcmp(other, state, NET_STATE_BYTES)) return 9;
  }
  target[2] = 2;
  const float broken[] = {NAN, INFINITY, -INFINITY};
  net_export_delta(state, delta);
  for (int k = 0; k < 3; ++k)
    for (int all = 0; all < 2; ++all) {
      float spoiled[4 * 2 * 8 * 8];
      memcpy(spoiled, image, sizeof image);
      for (int i = 77; i < (all ? 4 * 2 * 8 * 8 : 78); ++i) spoiled[i] = broken[k];
      const int status = net_step(net_weights, state, arena, 0, spoiled, target, 0.1f, &loss);
      if (status != NET_LOSS_NOT_FINITE && status != NET_GRADIENT_NOT_FINITE) return 20 + status;
      if (status == NET_LOSS_NOT_FINITE && memcmp(other, state, NET_STATE_BYTES)) return 10;
      net_export_delta(state, after);
      if (memcmp(delta, after, sizeof delta)) return 11;
      memcpy(state, other, NET_STATE_BYTES);
    }
  for (int i = 0; i < 4 * 2 * 8 * 8; ++i) image[i] = NAN;
  if (net_step(net_weights, state, arena, 0, image, target, 0.1f, &loss) != NET_LOSS_NOT_FINITE) return 6;
  if (net_step(net_weights, state + 4, arena, 0, image, target, 0.1f, &loss) != NET_STEP_MISALIGNED) return 7;
  if (net_step(net_weights, 0, arena, 0, image, target, 0.1f, &loss) != NET_STEP_NULL_POINTER) return 8;
  printf("%g %g\\n", (double)first, (double)loss);
  return 0;
}
"""


def test_in_c_under_a_sanitizer(folder: Path, tmp_path: Path) -> None:
    """The whole project without a warning, and a program around it without an error."""
    (tmp_path / "program.c").write_text(_PROGRAM)
    sources = [folder / s for s in read_lock(folder)["sources"]]
    flags = [*STRICT, *ADDRESS_ALONE, "-fsanitize=undefined", "-fno-sanitize-recover=all", f"-I{folder}"]
    command = ["gcc", *flags, "program.c", *map(str, sources), "-o", "program", "-lm", "-lpthread"]
    made = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr[:3000]
    done = subprocess.run([tmp_path / "program"], capture_output=True, text=True)
    assert done.returncode == 0, (done.returncode, done.stderr[:3000])
    assert float(done.stdout.split()[0]) > 0


@pytest.mark.parametrize("optimizer", ["sgd:momentum=0.5", "sgd:momentum=0.5,weight_decay=0.01"])
def test_moments_that_decay_take_no_arena(optimizer: str, tmp_path: Path) -> None:
    """The kernel of a weight's gradient reads its moment and writes it: no gradient lies in memory beside it."""
    wide = model([node("MatMul", ["x", "w"], ["y"])], [tensor_input("x", [3, 200])], ["y"],
                 [weights("w", floats(200, 190))])  # fmt: skip
    edgec.build(wide, tmp_path / "out", loss="mse", optimizer=optimizer)
    facts = read_lock(tmp_path / "out")["training"]
    assert facts["arena_bytes"] < 4 * 200 * 190
    with edgec.load(tmp_path / "out") as trainer:
        reference = InNumpy(trainer)
        for k in range(3):
            batch = batch_of(trainer, k)
            assert abs(trainer.step(*batch) - reference.step(*batch)) < 1e-4


def test_frozen_weights_stay_constants(network: onnx.ModelProto, tmp_path: Path) -> None:
    built = edgec.build(network, tmp_path / "out", loss="cross_entropy", update="last:1", compile=False)
    lock = read_lock(built.folder)
    assert [p["onnx_name"] for p in lock["training"]["state"] if p["trained"]] == ["w3", "b3"]
    assert [p["onnx_name"] for p in lock["inputs"]] == ["image", "w3", "b3"]
    held = 4 * sum(w.value.size for w in weights_of(read(network)) if w.name in ("w1", "w2"))
    assert held <= lock["weights_bytes"] < 2 * held + 1000  # once, though two programs read them


def test_check_and_bench_of_a_built_training(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*words: str) -> tuple[int, dict[str, Any]]:
        with pytest.raises(SystemExit) as ended:
            main([*words, "--json"])
        return int(ended.value.code or 0), json.loads(capsys.readouterr().out)

    code, found = run("check", str(folder), "--steps", "12", "--threads", "2")
    assert code == 0 and found["ok"] and found["steps"] == 12
    assert found["gradients"] < 1e-5 and found["losses"] < 1e-4
    code, found = run("bench", str(folder), "--seconds", "0.05", "--rounds", "1")
    assert code == 0 and [s["name"] for s in found["steps"]] == ["edgec"] and found["steps"][0]["median_ms"] > 0
    for verb in ("check", "bench"):
        code, found = run(verb, str(folder), "--vs", "onnxruntime")
        assert code == 2 and "no peer of a training" in found["error"]["message"]


@pytest.mark.parametrize("optimizer", ["sgd", "sgd:momentum=0.9,weight_decay=0.01", "adam", "adamw:clip=1"])
@pytest.mark.parametrize("loss", ["cross_entropy", "mse", "l1", "bce", "hinge"])
def test_beside_torch(loss: str, optimizer: str, tmp_path: Path) -> None:
    """Losses and optimizers are PyTorch's: the graph of a step in numpy, with the same weights and data."""
    pytest.importorskip("torch", reason="pip install torch")
    from edgec.check.torch_training import TorchTraining

    built = edgec.build(linear(), tmp_path / "out", compile=False, loss=loss, optimizer=optimizer)
    outside: Any = Unopened(built.folder)
    ours, theirs = InNumpy(outside), TorchTraining(outside, is_double=True)
    for k in range(20):
        batch = batch_of(outside, k)
        assert abs(ours.step(*batch) - theirs.step(*batch)) < 1e-4
    for name, value in theirs.weights().items():
        np.testing.assert_allclose(ours.weights()[name], value, rtol=0, atol=2e-5)


def test_a_wrong_step_is_found(trainer: Trainer) -> None:
    """A check that a mistake survives is none: weights that do not begin where the model's do."""
    assert check_training(trainer, vs=None, steps=3).ok
    begin = trainer.reset

    def elsewhere() -> None:
        begin()
        trainer.weights["w3"][0] *= np.float32(1.01)

    trainer.reset = elsewhere  # type: ignore[method-assign]
    assert not check_training(trainer, vs=None, steps=3).ok


@pytest.mark.parametrize(("of_narrow", "passes"), ((0.0, False), (2e-4, False), (6e-4, True)))
def test_gradients_may_be_as_far_as_those_of_the_reference(trainer: Trainer, of_narrow: float, passes: bool) -> None:
    """Twice the distance of the reference in single precision, and not more."""

    class Off(InNumpy):
        def __init__(self, by: float) -> None:
            super().__init__(trainer)
            self.by = by

        def gradients(self) -> dict[str, np.ndarray]:
            return {name: g * (1 + self.by) for name, g in super().gradients().items()}

    found = check_training(trainer, vs=None, steps=2, peer=lambda: Off(1e-3), narrow=lambda: Off(1e-3 + of_narrow))
    assert found.narrow_gradients == pytest.approx(of_narrow, abs=1e-5) and found.ok == passes
    exact = check_training(trainer, vs=None, steps=2, peer=lambda: Off(0.0), narrow=lambda: Off(of_narrow))
    assert exact.ok and exact.narrow_gradients is None and exact.bounds[0] == 1e-4


@pytest.mark.parametrize(("of_narrow", "passes"), ((0.0, False), (2e-3, False), (6e-3, True)))
def test_losses_may_be_as_far_as_those_of_the_reference(trainer: Trainer, of_narrow: float, passes: bool) -> None:
    """Steps that rounding leads apart: twice the distance of the reference in single precision, and not more."""

    class Off(InNumpy):
        def __init__(self, by: float) -> None:
            super().__init__(trainer)
            self.by = by

        def step(self, *arrays: np.ndarray, rate: float | None = None) -> float:
            loss = super().step(*arrays, rate=rate)
            return loss + self.by * max(1.0, abs(loss))

    found = check_training(trainer, vs=None, steps=3, peer=lambda: Off(1e-2), narrow=lambda: Off(1e-2 + of_narrow))
    assert found.narrow_losses == pytest.approx(of_narrow, rel=0.05, abs=1e-5) and found.ok == passes
    exact = check_training(trainer, vs=None, steps=3, peer=lambda: Off(0.0), narrow=lambda: Off(of_narrow))
    assert exact.ok and exact.narrow_losses is None and exact.bounds[1] == 1e-3

"""Replicas of a step, which threads run side by side on other micro-batches: bits, memory, errors, and their price."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from compiled import STRICT
from sanitized import ADDRESS_ALONE, THREAD
from small_models import model, node, tensor_input, weights
from trained_models import convolutions, floats, linear

import edgec
from edgec import Trainer
from edgec.artifact.folder import read_lock
from edgec.build import Built
from edgec.check.training import batch_of, check_training
from edgec.device.load import load_device
from edgec.errors import ModelError, UsageError
from edgec.pipeline import replicas as module
from edgec.pipeline.replicas import is_kept
from edgec.schedule.program import Program
from edgec.schedule.replicas import Replicas
from edgec.schedule.thread_count import meeting_cycles

MOMENTUM = "sgd:lr=0.01,momentum=0.9,weight_decay=0.01"


@cache
def network() -> onnx.ModelProto:
    return convolutions()


def built(folder: Path, threads: int, batch: int = 8, **further: Any) -> Built:
    given = {"loss": "cross_entropy", "optimizer": MOMENTUM, **further}
    return edgec.build(network(), folder, batch=batch, threads=threads, **given)


def step_of(made: Built) -> tuple[Program, Replicas]:
    training = made.program.training
    assert training is not None and training.replicas is not None
    return training.step, training.replicas


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("replicas") / "out", 2).folder


@pytest.mark.parametrize(("threads", "batch", "count"), [(2, 8, 2), (2, 5, 2), (4, 8, 4), (3, 8, 3)])
def test_bits_follow_from_the_build_alone(threads: int, batch: int, count: int, tmp_path: Path) -> None:
    """As many threads as there are replicas, fewer or none beside the caller's: the same losses and states."""
    made = built(tmp_path / "out", threads, batch)
    program, replicas = step_of(made)
    assert program.threads == 1 and replicas.count == count
    assert read_lock(made.folder)["training"]["replicas"] == count
    with Trainer(made.folder) as alone:
        assert check_training(alone, vs=None, steps=6).ok
        for several in range(2, threads + 1):
            alone.reset()
            with Trainer(made.folder, several) as other:
                assert other.network._net._pool
                for k in range(3):
                    assert alone.step(*batch_of(alone, k)) == other.step(*batch_of(alone, k))
                assert all(np.array_equal(value, other.state[name]) for name, value in alone.state.items())


def test_a_step_is_that_of_one_replica_but_for_rounding(folder: Path, tmp_path: Path) -> None:
    single = built(tmp_path / "out", 1)
    assert single.program.training is not None and single.program.training.replicas is None
    with Trainer(folder, 2) as several, Trainer(single.folder) as one:
        for k in range(4):
            np.testing.assert_allclose(several.step(*batch_of(one, k)), one.step(*batch_of(one, k)), rtol=1e-6)
        for name, value in one.state.items():
            np.testing.assert_allclose(several.state[name], value, rtol=1e-5, atol=1e-7)


def test_errors_of_any_replica(folder: Path) -> None:
    """The weights stay, and the loss is that of the first sample that has none, whichever thread came upon it."""
    for threads in (1, 2):
        with Trainer(folder, threads) as trainer:
            image, target = batch_of(trainer, 0)
            trainer.step(image, target)
            before = {name: value.copy() for name, value in trainer.state.items()}
            with pytest.raises(UsageError, match="no class"):
                trainer.step(image, np.where(np.arange(8) == 7, 5, target))
            assert all(np.array_equal(value, before[name]) for name, value in trainer.state.items())
            for sample in (1, 6):
                broken = image.copy()
                broken[sample] = np.nan
                with pytest.raises(ModelError, match="the loss is nan"):
                    trainer.step(broken, target)
                assert all(np.array_equal(value, before[name]) for name, value in trainer.weights.items())
            trainer.step(*batch_of(trainer, 1))
            assert all(np.isfinite(value).all() for value in trainer.state.values())


_PROGRAM = """
#include "net_training.h"
#include "ec_pool.h"
#include <stdlib.h>
#include <string.h>

static _Alignas(64) unsigned char state[NET_STATE_BYTES], other[NET_STATE_BYTES];

int main(void) {
  unsigned char *const arena = aligned_alloc(64, (NET_STEP_ARENA_BYTES + 63) / 64 * 64);
  void *const memory = malloc(ec_pool_bytes(2));
  ec_pool *const pool = ec_pool_init(memory, 2);
  float image[8 * 2 * 8 * 8], loss = -1, again = -2;
  int64_t target[8] = {0, 1, 2, 3, 4, 0, 1, 2};
  for (int i = 0; i < 8 * 2 * 8 * 8; ++i) image[i] = (float)((i * 37) % 19) / 19 - 0.5f;
  net_state_init(state);
  net_state_init(other);
  for (int k = 0; k < 3; ++k) {
    memset(arena, 0xff, NET_STEP_ARENA_BYTES);
    if (net_step(net_weights, state, arena, 0, image, target, 0.1f, &loss)) return 2;
    memset(arena, 0xff, NET_STEP_ARENA_BYTES);
    if (net_step(net_weights, other, arena, pool, image, target, 0.1f, &again)) return 3;
    if (loss != again || memcmp(state, other, NET_STATE_BYTES)) return 4;
  }
  if (net_step(net_weights, state, arena, pool, 0, target, 0.1f, &loss) != NET_STEP_NULL_POINTER) return 5;
  if (net_step(net_weights, state, arena, pool, image, 0, 0.1f, &loss) != NET_STEP_NULL_POINTER) return 6;
  if (net_step(net_weights, state, 0, pool, image, target, 0.1f, &loss) != NET_STEP_NULL_POINTER) return 7;
  if (net_step(net_weights, state, arena + 4, pool, image, target, 0.1f, &loss) != NET_STEP_MISALIGNED) return 8;
  ec_pool_destroy(pool);
  free(memory);
  free(arena);
  return 0;
}
"""


@pytest.mark.parametrize("sanitizer", [[*ADDRESS_ALONE, "-fsanitize=undefined"], THREAD], ids=["address", "thread"])
def test_in_c_under_sanitizers(sanitizer: list[str], tmp_path: Path) -> None:
    """Inside of the bytes of the macro, from any content of them, and without a race."""
    folder = built(tmp_path / "out", 2, device="generic", compile=False).folder
    (tmp_path / "program.c").write_text(_PROGRAM)
    sources = [folder / s for s in read_lock(folder)["sources"]]
    flags = [*STRICT, *sanitizer, "-fno-sanitize-recover=all", f"-I{folder}"]
    command = ["gcc", *flags, "program.c", *map(str, sources), "-o", "program", "-lm", "-lpthread"]
    made = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr[:3000]
    done = subprocess.run([tmp_path / "program"], capture_output=True, text=True)
    assert done.returncode == 0, (done.returncode, done.stderr[:3000])


def test_memory_is_counted(folder: Path) -> None:
    """Two arenas, and between them the sums of the second replica."""
    facts = read_lock(folder)["training"]
    sums = sum(-(-4 * p["elements"] // 64) * 64 for p in facts["state"] if not p["trained"])
    assert facts["replicas"] == 2 and facts["arena_bytes"] % 64 == 0
    assert facts["arena_bytes"] > 2 * sums and (facts["arena_bytes"] - sums) % 128 == 0


def test_where_replicas_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where they save time, and memory allows it: not on one thread, of one sample, or within a limit of memory."""

    def replicas(threads: int = 2, batch: int = 8, **further: Any) -> Replicas | None:
        given: dict[str, Any] = {"loss": "cross_entropy", "optimizer": MOMENTUM, "device": "x86_64_avx2", **further}
        made = edgec.build(network(), compile=False, batch=batch, threads=threads, **given)
        assert made.program.training is not None
        return made.program.training.replicas

    assert replicas() is not None
    assert replicas(threads=1) is None and replicas(batch=1) is None and replicas(ram="1M") is None
    assert replicas(optimizer="adam") is None  # a batch stays whole
    monkeypatch.setattr(module, "SMALL", 0)
    monkeypatch.setattr(module, "SHARE", 1)
    assert replicas() is None
    monkeypatch.setattr(module, "SHARE", 100)
    assert replicas() is not None
    monkeypatch.setattr(module, "GAIN", 0.99)
    assert replicas() is None


def dense() -> onnx.ModelProto:
    """A convolution of 3 channels and one of 8, whose gradients are computed in another order than the state has."""
    nodes = [
        node("Conv", ["image", "w1", "b1"], ["c1"], "first", kernel_shape=[5, 5], pads=[2, 2, 2, 2]),
        node("Relu", ["c1"], ["r1"], "relu"),
        node("MaxPool", ["r1"], ["m"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["m", "w2"], ["c2"], "second", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("Flatten", ["c2"], ["f"], "flat"),
        node("MatMul", ["f", "w3"], ["scores"], "classes"),
    ]
    held = {"w1": floats(8, 3, 5, 5), "b1": floats(8), "w2": floats(16, 8, 3, 3), "w3": floats(1024, 5)}
    held = {name: value * np.float32(0.1) for name, value in held.items()}
    return model(nodes, [tensor_input("image", [1, 3, 16, 16])], ["scores"], [weights(n, v) for n, v in held.items()])


@pytest.mark.parametrize("device", ["host", "x86_64_avx2"])
def test_sums_that_are_read_in_another_order(device: str, tmp_path: Path) -> None:
    """Their sums over replicas are what the new weights are made of, step after step."""
    given: dict[str, Any] = {"loss": "cross_entropy", "optimizer": MOMENTUM, "device": device, "batch": 8}
    network = dense()
    made = [edgec.build(network, tmp_path / str(threads), threads=threads, **given) for threads in (1, 2)]
    assert step_of(made[1])[1].reordered
    with Trainer(made[0].folder) as one, Trainer(made[1].folder, 2) as several:
        for k in range(5):
            np.testing.assert_allclose(several.step(*batch_of(one, k)), one.step(*batch_of(one, k)), rtol=1e-5)
        for name, value in one.state.items():
            np.testing.assert_allclose(several.state[name], value, rtol=1e-5, atol=1e-6 * np.abs(value).max())


def test_numbers_of_one_micro_batch_are_none_of_the_batch() -> None:
    """No replicas where kernels for the last micro-batch read a number of it that is no sum of gradients."""
    made = edgec.build(dense(), compile=False, loss="cross_entropy", optimizer=MOMENTUM, threads=2, batch=8,
                       device="x86_64_avx2")  # fmt: skip
    assert made.program.training is not None
    program, step = step_of(made)[0], SimpleNamespace(trained=trained(made), early=made.program.training.early)
    last = next(b for name, b, _ in program.inputs if name.startswith("last_micro_batch"))
    late = [k for k, kernel in enumerate(program.kernels) if (last, True) in kernel.guards]
    assert module.reordered_sums(program, step, late)  # type: ignore[arg-type]
    number = next(k.writes for k in program.kernels if k.writes.space == "arena" and k.writes.dtype == "f32")
    reading = replace(program.kernels[late[0]], operands=(*program.kernels[late[0]].operands[:-1], number,
                                                          program.kernels[late[0]].writes))  # fmt: skip
    other = replace(program, kernels=tuple(reading if k == late[0] else v for k, v in enumerate(program.kernels)))
    assert module.reordered_sums(other, step, late) is None  # type: ignore[arg-type]


def trained(made: Built) -> set[str]:
    return {name for name, _, _ in made.program.inputs}


def test_what_late_kernels_read_is_there_in_the_end() -> None:
    """Of a program whose other kernels would write over it, there are no replicas."""
    made = edgec.build(linear(6), compile=False, loss="mse", optimizer=MOMENTUM, threads=2, device="x86_64_avx2")
    program, _ = step_of(made)
    last = next(b for name, b, _ in program.inputs if name.startswith("last_micro_batch"))
    late = [k for k, kernel in enumerate(program.kernels) if (last, True) in kernel.guards]
    assert late and is_kept(program, late)
    own = {s.writes for k in late for s in program.kernels[k].steps}
    written = [k.writes for k in program.kernels[: late[0]] if k.writes.space == "arena"]
    first = program.kernels[late[0]]
    victim = written[0]
    reading = replace(first, operands=(victim, *first.operands))
    kernels = [k for n, k in enumerate(program.kernels) if n != late[0]]
    early = replace(program, kernels=(*program.kernels[:1], reading, *kernels[1:]))
    assert victim not in own and not is_kept(early, [1])


def test_the_price_of_meeting() -> None:
    device = load_device("x86_64_avx512")
    costs = device.costs.threads
    assert meeting_cycles(10, 0, device, 2) == 10 * costs.barrier
    assert meeting_cycles(0, 1200, device, 2) == 300 / costs.exchange
    assert meeting_cycles(0, 1200, device, 4) == 225 / costs.exchange


def test_inputs_are_called_what_they_are(tmp_path: Path) -> None:
    """Names of a model that the code of a step has for itself, too."""
    model = network()
    renamed = onnx.ModelProto()
    renamed.CopyFrom(model)
    graph = renamed.graph
    old = graph.input[0].name
    for name in ("losses", "batch", "status", "held"):
        graph.input[0].name = name
        for n in graph.node:
            n.input[:] = [name if i == old else i for i in n.input]
        old = name
        made = edgec.build(renamed, tmp_path / name, batch=8, threads=2, loss="cross_entropy", optimizer=MOMENTUM)
        assert step_of(made)[1].count == 2
        with Trainer(made.folder, 2) as trainer:
            assert np.isfinite(trainer.step(*batch_of(trainer, 0)))

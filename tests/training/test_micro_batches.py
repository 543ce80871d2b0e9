"""Batches in micro-batches: where samples do not meet, and what a step of them leaves behind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from chance import RANDOM
from small_models import model, node, tensor_input, weights
from trained_models import convolutions, floats, linear

import edgec
from edgec import Trainer
from edgec.check.training import batch_of, check_training
from edgec.differentiate.optimizers import is_added_up, optimizer_of
from edgec.errors import ModelError, UsageError
from edgec.frontend.onnx.importer import import_model
from edgec.ir.evaluate import run
from edgec.ir.graph import Graph
from edgec.pipeline.micro_batches import fewest, largest, portion

MOMENTUM = "sgd:lr=0.01,momentum=0.9,weight_decay=0.01"


def network(nodes: list[onnx.NodeProto], **held: np.ndarray) -> Graph:
    """A network from x [4, 6] to y."""
    return import_model(model(nodes, [tensor_input("x", [4, 6])], ["y"], [weights(n, v) for n, v in held.items()]))


def test_samples_that_do_not_meet() -> None:
    """Heads become rows beside the batch and come back; each part is the same graph of fewer samples."""
    shapes = {"heads": np.array([8, 3]), "flat": np.array([-1, 6]), "w": floats(6, 5)}
    nodes = [
        node("Reshape", ["x", "heads"], ["h"]), node("Softmax", ["h"], ["s"], axis=1),
        node("Reshape", ["s", "flat"], ["f"]), node("MatMul", ["f", "w"], ["y"]),
    ]  # fmt: skip
    found = portion(network(nodes, **shapes), (), 2)
    assert found is not None
    assert [str(n.type) for n in (*found.inputs, *(n for _, n in found.outputs))] == ["f32[2,6]", "f32[2,5]"]
    assert portion(network(nodes, **shapes), (), 3) is None


@pytest.mark.parametrize(
    "meeting",
    [
        [node("ReduceMean", ["x"], ["m"], axes=[0]), node("Sub", ["x", "m"], ["y"])],
        [node("Add", ["x", "place"], ["y"])],
        [node("Transpose", ["x"], ["t"], perm=[1, 0]), node("MatMul", ["x", "t"], ["y"])],
        [node("Slice", ["x", "begin", "end", "axes", "back"], ["y"])],
    ],
    ids=["mean of the batch", "constants by place", "all with all", "in reverse"],
)
def test_samples_that_meet(meeting: list[onnx.NodeProto]) -> None:
    held = {"place": floats(4, 1), "begin": np.array([-1]), "end": np.array([-9]), "axes": np.array([0])}
    used = {name for n in meeting for name in n.input}
    given = {n: v for n, v in {**held, "back": np.array([-1])}.items() if n in used}
    assert portion(network(meeting, **given), (), 2) is None


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("micro") / "out"
    built = edgec.build(convolutions(), path, loss="cross_entropy", optimizer=MOMENTUM, batch=8, threads=2)
    assert built.program.training is not None
    assert built.program.training.micro_batches == 8
    kernels = built.program.training.step.kernels
    states = {new for new in built.program.training.step.states if new.name.endswith("velocity_next")}
    decays = [k for k in kernels if any("first_micro_batch" in b.name for b in k.reads)]
    assert decays and all(k.writes in states for k in decays)  # moments decay where gradients are added to them
    late = [k for k in kernels if k.guards]
    assert late and all(k.writes not in states for k in late)
    return path


def test_the_arena_takes_as_much_as_the_state() -> None:
    """Parts are as large as they may be: each reads all weights and adds to all moments."""
    training = edgec.build(convolutions(), compile=False, loss="cross_entropy", optimizer=MOMENTUM, threads=2)
    assert training.program.training is not None
    step = replace(training.program.training.step, threads=2)
    state, found = step.arena_bytes, dict[int, int]()
    for parts in (1, 2, 3, 4, 5, 8, 9):
        found[parts] = fewest(8, step, -(-state // parts))
    assert found == {1: 1, 2: 2, 3: 4, 4: 4, 5: 8, 8: 8, 9: 8}
    assert largest(8, 2, 1000) == 4000  # with a larger arena, parts are as small as they can be


def test_little_memory_divides_a_batch_no_further_than_it_must() -> None:
    """Between one micro-batch and one for each sample there are others."""
    held = {"w": floats(8, 3, 3, 3), "v": floats(8, 200), "u": floats(200, 200), "t": floats(200, 10)}
    nodes = [
        node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]), node("Relu", ["c"], ["r"]),
        node("GlobalAveragePool", ["r"], ["p"]), node("Flatten", ["p"], ["f"]), node("MatMul", ["f", "v"], ["a"]),
        node("Relu", ["a"], ["b"]), node("MatMul", ["b", "u"], ["d"]), node("MatMul", ["d", "t"], ["y"]),
    ]  # fmt: skip
    proto = model(nodes, [tensor_input("x", [1, 3, 16, 16])], ["y"], [weights(n, v) for n, v in held.items()])
    asked = {"loss": "cross_entropy", "optimizer": MOMENTUM, "batch": 16, "threads": 1, "compile": False}
    whole = edgec.build(proto, device="x86_64_avx2", **asked).program.training
    assert whole is not None and whole.micro_batches == 1
    kept = sum(b.bytes for b in whole.step.states.values())
    room = kept + int(0.7 * whole.step.arena_bytes) + (1 << 16)
    parts = edgec.build(proto, device="x86_64_avx2", ram=room, **asked).program.training
    assert parts is not None and 1 < parts.micro_batches < 16


def test_steps_are_those_of_whole_batches(folder: Path) -> None:
    with Trainer(folder) as trainer, Trainer(folder, 2) as other:
        assert trainer.batch == 8
        assert check_training(trainer, vs=None, steps=12).ok
        batch = batch_of(trainer, 3)
        for _ in range(3):
            assert trainer.step(*batch) == other.step(*batch)
        assert all(np.array_equal(value, other.state[name]) for name, value in trainer.state.items())


def test_a_broken_sample_leaves_the_weights(folder: Path) -> None:
    with Trainer(folder) as trainer:
        image, target = batch_of(trainer, 0)
        trainer.step(image, target)
        before = {name: value.copy() for name, value in trainer.state.items()}
        wrong = np.where(np.arange(8) == 7, 5, target)
        with pytest.raises(UsageError, match="no class"):
            trainer.step(image, wrong)
        assert all(np.array_equal(value, before[name]) for name, value in trainer.state.items())
        image[5] = np.nan
        with pytest.raises(ModelError, match="the loss is nan"):
            trainer.step(image, target)
        assert all(np.array_equal(value, before[name]) for name, value in trainer.weights.items())
        with pytest.raises(UsageError, match="the learning rate is nan"):
            trainer.step(image, target, learning_rate=float("nan"))
        trainer.step(*batch_of(trainer, 1))
        assert all(np.isfinite(value).all() for value in trainer.state.values())


def test_losses_whose_sum_overflows(tmp_path: Path) -> None:
    built = edgec.build(linear(), tmp_path / "out", loss="mse", optimizer=MOMENTUM, threads=1)
    assert built.program.training is not None and built.program.training.micro_batches == 5
    with Trainer(tmp_path / "out") as trainer:
        inputs, target = batch_of(trainer, 0)
        assert trainer.step(inputs, np.full_like(target, 1e19)) == pytest.approx(1e38, rel=1e-4)


def test_gradients_that_are_needed_together() -> None:
    assert is_added_up(optimizer_of(MOMENTUM))
    assert not any(is_added_up(optimizer_of(o)) for o in ("sgd:lr=0.1", "adam", "sgd:momentum=0.9,clip=1"))


def test_regrouped_rows_agree() -> None:
    """The graph of a part computes what the whole does, at every place."""
    nodes = [node("Reshape", ["x", "heads"], ["h"]), node("Softmax", ["h"], ["s"], axis=1),
             node("Reshape", ["s", "flat"], ["y"])]  # fmt: skip
    whole = network(nodes, heads=np.array([8, 3]), flat=np.array([-1, 6]))
    part = portion(whole, (), 2)
    assert part is not None
    x = RANDOM.standard_normal((4, 6)).astype(np.float32)
    halves = [run(part, {"x": x[k : k + 2]})["y"] for k in (0, 2)]
    np.testing.assert_array_equal(np.concatenate(halves), run(whole, {"x": x})["y"])

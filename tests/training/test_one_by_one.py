"""Batches of files for one sample: together where samples do not meet, one by one, or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from small_models import model, node, tensor_input, weights
from trained_models import floats

import edgec
from edgec import Trainer
from edgec.check.training import batch_of, check_training
from edgec.errors import EdgecError, UsageError
from edgec.frontend.values import Value
from edgec.ir import registry
from edgec.ir.graph import Node

SGD, ADAM = "sgd:lr=0.01,momentum=0.9", "adam:lr=0.01"


def attention(tokens: tuple[int, int, int]) -> onnx.ModelProto:
    """Self-attention of 6 tokens of a sample; ``tokens`` is the shape that the file gives them."""
    nodes = [
        node("MatMul", ["x", "w"], ["p"]), node("Reshape", ["p", "tokens"], ["t"], "to tokens"),
        node("Transpose", ["t"], ["c"], perm=[0, 2, 1]), node("MatMul", ["t", "c"], ["s"]),
        node("Softmax", ["s"], ["a"], axis=-1), node("MatMul", ["a", "t"], ["o"]),
        node("Reshape", ["o", "back"], ["y"], "to samples"),
    ]  # fmt: skip
    held = {"w": floats(4, 8), "tokens": np.array(tokens), "back": np.array([-1, 6, 8])}
    return model(nodes, [tensor_input("x", [1, 6, 4])], ["y"], [weights(n, v) for n, v in held.items()])


SHAPES = {"together": (-1, 6, 8), "one by one": (1, 6, 8), "meeting": (1, -1, 8)}


@pytest.mark.parametrize("optimizer", [SGD, "sgd:lr=0.01", "sgd:lr=0.1,momentum=0.9,clip=0.1", "adamw:lr=0.01", ADAM])
@pytest.mark.parametrize("way", SHAPES)
def test_batches_of_a_file_for_one_sample(way: str, optimizer: str, tmp_path: Path) -> None:
    """Three samples learn as three steps with gradients added up do, whatever the file says of its first dimension."""
    given: dict[str, Any] = {"loss": "mse", "optimizer": optimizer}
    network = attention(SHAPES[way])
    built = edgec.build(network, tmp_path / "batch", batch=3, **given)
    summed = edgec.build(network, tmp_path / "summed", accumulate=3, **given)
    chance = np.random.default_rng(3)
    x, target = (chance.standard_normal(shape).astype(np.float32) for shape in ((3, 6, 4), (3, 6, 8)))
    with Trainer(built.folder) as batch, Trainer(summed.folder) as alone:
        assert batch.one_by_one == (1 if way == "together" else 3)
        found = check_training(batch, vs=None, steps=3)
        assert found.ok and found.gradients > 0
        for _ in range(2):
            loss = batch.step(x, target)
            losses = [alone.step(x[k : k + 1], target[k : k + 1]) for k in range(3)]
            np.testing.assert_allclose(loss, np.mean(losses), rtol=1e-5)
        for name in batch.weights:
            np.testing.assert_allclose(batch.weights[name], alone.weights[name], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("way", ["one by one", "meeting"])
@pytest.mark.parametrize(
    "more", [{"batch_norm": "batch"}, {"accumulate": 2}, {"dropout": "0.5"}, {"device": "cuda_sm90"}]
)
def test_what_needs_all_samples_at_once(way: str, more: dict[str, Any]) -> None:
    """The error names what is as good."""
    proto = attention(SHAPES[way])
    if "dropout" in more:
        proto.graph.node[0].output[0] = "q"
        proto.graph.node.insert(1, node("Dropout", ["q"], ["p"]))
    if "batch_norm" in more:
        proto.graph.node[-1].output[0] = "q"
        proto.graph.node.append(node("BatchNormalization", ["q", "scale", "shift", "mean", "spread"], ["y"]))
        held = ("scale", "shift", "mean", "spread")
        proto.graph.initializer.extend(numpy_helper.from_array(np.ones(6, np.float32), name) for name in held)
    with pytest.raises(UsageError, match="one sample a run") as raised:
        edgec.build(proto, loss="mse", batch=3, compile=False, **more)
    instead = f"--accumulate {3 * more.get('accumulate', 1)} in place of --batch 3"
    assert ("leave out --batch" if "batch_norm" in more else instead) in str(raised.value)


@pytest.mark.parametrize("last", ["Tanh", "Log"])
def test_samples_without_a_proof_are_tried(last: str) -> None:
    """A gather by a table that the data choose has no proof, and answers of samples that stay apart: of random data,
    some logarithms are no numbers."""
    nodes = [
        node("MatMul", ["x", "w"], ["p"]), node("ArgMax", ["p"], ["k"], axis=1, keepdims=1),
        node("GatherElements", ["p", "k"], ["g"], axis=1), node("Mul", ["g", "p"], ["m"]), node(last, ["m"], ["y"]),
    ]  # fmt: skip
    chosen = model(nodes, [tensor_input("x", [1, 4])], ["y"], [weights("w", floats(4, 5))])
    built = edgec.build(chosen, loss="mse", optimizer=ADAM, batch=3, compile=False)
    assert built.program.training is not None
    assert built.program.training.said["samples"] == "together"


@pytest.mark.parametrize("optimizer", [SGD, "sgd:lr=0.01", "sgd:lr=0.1,momentum=0.9,clip=0.1", ADAM])
def test_what_a_network_demands_is_looked_at_for_each_sample(optimizer: str, tmp_path: Path) -> None:
    """Numbers of words have to be within the table, in every run of a step: others change nothing."""
    proto = attention(SHAPES["one by one"])
    proto.graph.input[0].CopyFrom(tensor_input("words", [1, 6], onnx.TensorProto.INT64))
    proto.graph.initializer.append(weights("table", floats(9, 4)))
    proto.graph.node.insert(0, node("Gather", ["table", "words"], ["x"]))
    built = edgec.build(proto, tmp_path / "out", loss="mse", optimizer=optimizer, batch=3)
    chance = np.random.default_rng(3)
    words, target = chance.integers(0, 9, (3, 6)), chance.standard_normal((3, 6, 8)).astype(np.float32)
    with Trainer(built.folder) as trainer:
        assert trainer.one_by_one == 3
        losses = [trainer.step(words, target) for _ in range(3)]
        assert losses[0] > losses[-1]
        before = {n: w.copy() for n, w in trainer.weights.items()}
        for number in range(3):
            (wrong := words.copy())[number, 2] = 99
            with pytest.raises(UsageError, match="does not take such inputs"):
                trainer.step(wrong, target)
        assert all(np.array_equal(before[n], w) for n, w in trainer.weights.items())


def test_a_wrong_derivative_is_found_without_pytorch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The step and its graph in numpy share the rules of derivatives: slopes of the loss do not."""
    right = registry.adjoint_of("matmul")
    assert right is not None

    def wrong(product: Node, slope: Node, operand: int) -> Node | None:
        found = right(product, slope, operand)
        return None if found is None else (Value(found) * 1.01).node

    network = attention(SHAPES["together"])
    with Trainer(edgec.build(network, tmp_path / "right", loss="mse").folder) as trainer:
        found = check_training(trainer, vs=None, steps=1)
        assert found.ok and found.differences is not None
    monkeypatch.setitem(registry._ADJOINTS, "matmul", wrong)
    with Trainer(edgec.build(network, tmp_path / "wrong", loss="mse").folder) as trainer:
        found = check_training(trainer, vs=None, steps=1)
        assert found.gradients <= found.bounds[0] and not found.ok


def test_a_sample_that_is_refused_leaves_the_next_step_right(tmp_path: Path) -> None:
    """The loss of the second of three samples is no number, then a gradient: sums of the first do not stay."""
    built = edgec.build(attention(SHAPES["one by one"]), tmp_path / "out", loss="mse", optimizer=ADAM, batch=3)
    chance = np.random.default_rng(3)
    x, target = (chance.standard_normal(shape).astype(np.float32) for shape in ((3, 6, 4), (3, 6, 8)))
    with Trainer(built.folder) as trainer:
        trainer.step(x, target)
        wanted = {n: w.copy() for n, w in trainer.weights.items()}
        trainer.reset()
        begun = {n: w.copy() for n, w in trainer.weights.items()}
        wrong = target.copy()
        wrong[1] = np.nan
        with pytest.raises(EdgecError):
            trainer.step(x, wrong)
        assert all(np.array_equal(begun[n], w) for n, w in trainer.weights.items())
        trainer.step(x, target)
        for name, w in trainer.weights.items():
            np.testing.assert_array_equal(w, wanted[name])


@pytest.mark.parametrize("optimizer", [SGD, "sgd:lr=0.1,momentum=0.9,clip=0.1", ADAM])
def test_threads_take_whole_samples(optimizer: str, tmp_path: Path) -> None:
    """Moments take in their gradients, or sums beside moments do: one thread and two give the same bits."""
    network = attention(SHAPES["one by one"])
    built = edgec.build(network, tmp_path / "out", batch=3, threads=2, loss="mse", optimizer=optimizer)
    assert built.program.training is not None and built.program.training.replicas is not None
    with Trainer(built.folder) as alone, Trainer(built.folder, 2) as other:
        assert check_training(alone, vs=None, steps=3).ok
        alone.reset()
        for k in range(3):
            batch = batch_of(alone, k)
            assert alone.step(*batch) == other.step(*batch)
        assert all(np.array_equal(value, other.state[name]) for name, value in alone.state.items())

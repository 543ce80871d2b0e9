"""Retraining: the graph of its step, samples, states to go on from, and networks that learn what compression lost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from chance import RANDOM
from small_models import model, node, tensor_input, weights

import edgec
from edgec import Built
from edgec.compress.calibrate import samples as calibration_samples
from edgec.compress.calibration import calibrated
from edgec.compress.layers import layers_of
from edgec.compress.quantize import quantized
from edgec.compress.retrain import Lesson, Retraining, lesson, parameters, taught, with_parameters
from edgec.compress.retrain.lesson import _opened
from edgec.compress.retrain.samples import Samples
from edgec.differentiate import gradients
from edgec.differentiate.optimizers import optimizer_of
from edgec.errors import EdgecError, UsageError
from edgec.frontend.onnx.importer import import_model
from edgec.frontend.values import Value, emit
from edgec.ir.evaluate import run
from edgec.ir.graph import Graph, placeholder
from edgec.ir.types import Type
from edgec.ir.verify import verify
from edgec.pipeline.retraining import RetrainingWarning
from edgec.progress import silent
from edgec.rewrite import simplify

Arrays = Mapping[str, np.ndarray]


def floats(*shape: int, scale: float | None = None) -> np.ndarray:
    size = (2 / np.prod(shape[1:])) ** 0.5 if scale is None else scale
    return (np.random.default_rng(len(shape) * 100 + shape[0]).standard_normal(shape) * size).astype(np.float32)


def convolutions() -> onnx.ModelProto:
    """Two convolutions, a mean over positions, and a classifier."""
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["c1"], "first", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("Relu", ["c1"], ["r1"]),
        node("Conv", ["r1", "w2", "b2"], ["c2"], "second", kernel_shape=[1, 1]),
        node("Relu", ["c2"], ["r2"]),
        node("GlobalAveragePool", ["r2"], ["g"]),
        node("Flatten", ["g"], ["f"]),
        node("Gemm", ["f", "w3", "b3"], ["y"], "classes", transB=1),
    ]
    held = {
        "w1": floats(32, 3, 3, 3), "b1": floats(32, scale=0.1), "w2": floats(64, 32, 1, 1),
        "b2": floats(64, scale=0.1), "w3": floats(10, 64), "b3": floats(10, scale=0.1),
    }  # fmt: skip
    return model(nodes, [tensor_input("x", [1, 3, 8, 8])], ["y"], [weights(n, v) for n, v in held.items()])


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Samples of 10 x 10 positions to train on, and their middle, 8 x 8, to calibrate by."""
    folder = tmp_path_factory.mktemp("samples")
    x = np.random.default_rng(1).standard_normal((32, 3, 10, 10)).astype(np.float32)
    np.savez(folder / "train.npz", x=x)
    np.savez(folder / "calibrate.npz", x=x[:, :, 1:9, 1:9])
    return folder / "train.npz", folder / "calibrate.npz"


def test_gradients_pass_a_rounding_where_they_are_told_to() -> None:
    x = placeholder("x", Type("f32", (4,)))
    y = (emit("round", Value(x) * 3.0) * Value(x)).sum([0], keep=False).node
    (cut,), (passed,) = gradients(y, [x]), gradients(y, [x], through=("round",))
    assert cut is not None and passed is not None
    given = RANDOM.standard_normal(4).astype(np.float32)
    found = run(Graph((x,), (("cut", cut), ("passed", passed))), {"x": given})
    np.testing.assert_allclose(found["cut"], np.round(3 * given), atol=1e-6)
    np.testing.assert_allclose(found["passed"], np.round(3 * given) + 3 * given, atol=1e-5)


def dense() -> Graph:
    return simplify(import_model(convolutions()))[0]


def sparse(graph: Graph) -> Graph:
    """The network with every other column of the weights of its second convolution 0."""
    values = {name: p.value.copy() for name, p in parameters(graph).items()}
    values["second"][:, ::2] = 0
    return with_parameters(graph, values)


def masks_of(graph: Graph) -> dict[str, np.ndarray]:
    return {name: p.value != 0 for name, p in parameters(graph).items() if not p.is_bias and (p.value == 0).any()}


def step() -> Lesson:
    graph = dense()
    pruned = sparse(graph)
    return lesson(graph, pruned, optimizer_of("adam:lr=0.01"), masks_of(pruned))


def test_parameters_are_those_of_layers() -> None:
    graph = dense()
    found = parameters(graph)
    assert [name for name, p in found.items() if not p.is_bias] == ["first", "second", "classes"]
    assert sum(p.is_bias for p in found.values()) == 3
    changed = with_parameters(graph, {name: p.value + 1 for name, p in found.items()})
    verify(changed)
    for name, p in parameters(changed).items():
        np.testing.assert_array_equal(p.value, found[name].value + 1)


def test_the_loss_is_the_distance_of_outputs_and_layers() -> None:
    own = step()
    verify(own.graph)
    x = RANDOM.standard_normal((1, 3, 8, 8)).astype(np.float32)
    found = run(own.graph, {**own.initial, "x": x, "learning_rate": np.float32(0)})
    graph = dense()
    pruned = sparse(graph)

    def distance(a: np.ndarray, b: np.ndarray) -> float:
        return float(np.square(a - b).sum() / np.square(b).sum())

    both = []
    for one in (pruned, graph):
        added = [n for n in one.operations() if n.op == "add"]
        results = run(Graph(one.inputs, tuple((f"r{k}", n) for k, n in enumerate(added))), {"x": x})
        both.append(list(results.values()))
    assert len(both[0]) == 3
    layers = [distance(a, b) for a, b in zip(*both)]
    output = distance(run(pruned, {"x": x})["y"], run(graph, {"x": x})["y"])
    assert output > 0 and abs(found["loss"] - (output + np.mean(layers))) < 1e-5


def numpy_bind(graph: Graph) -> Callable[..., Any]:
    """The step in numpy in place of compiled C."""

    def bind(given: Arrays, into: Arrays) -> tuple[Callable[[], None], Callable[[], dict[str, np.ndarray]]]:
        found: dict[str, np.ndarray] = {}

        def call() -> None:
            found.update(run(graph, given))
            for name, place in into.items():
                place[...] = found[name]

        return call, lambda: found

    return bind


def test_masked_weights_stay_zero_and_states_are_gone_on_from(files: tuple[Path, Path], tmp_path: Path) -> None:
    own = step()
    asked = Retraining(files[0], 12, optimizer_of("adam:lr=0.01"), state=tmp_path / "state.npz")
    samples = Samples(files[0], dense().inputs, 1)
    whole = taught(own, samples, Retraining(files[0], 12, asked.optimizer), numpy_bind(own.graph), silent)
    weights = whole.values["second"]
    assert not weights[:, ::2].any() and (weights[:, 1::2] != parameters(dense())["second"].value[:, 1::2]).all()

    class Stopped(Exception):
        pass

    def stop(stage: str, detail: str = "", part: float | None = None) -> None:
        if part is not None and part > 0.4:
            raise Stopped

    import edgec.compress.retrain.train as train

    usual, train.SECONDS = train.SECONDS, 0.0
    try:
        with pytest.raises(Stopped):
            taught(own, samples, asked, numpy_bind(own.graph), stop)
    finally:
        train.SECONDS = usual
    again = taught(own, samples, asked, numpy_bind(own.graph), silent)
    assert (again.first, again.last) == (whole.first, whole.last)
    for name, value in whole.values.items():
        np.testing.assert_array_equal(again.values[name], value)
    other = Retraining(files[0], 13, asked.optimizer, state=asked.state)
    with pytest.raises(UsageError, match="another retraining"):
        taught(own, samples, other, numpy_bind(own.graph), silent)


def test_rounded_networks_compute_what_int8_does(files: tuple[Path, Path]) -> None:
    graph = dense()
    layers = layers_of(graph)
    found = calibrated(graph, layers, list(calibration_samples(files[1], graph)), "minmax")
    learnable = parameters(graph)
    inputs = {p.node: placeholder(f"p{k}", p.node.type) for k, p in enumerate(learnable.values())}
    rounded = _opened(graph, inputs, (layers, found))
    rounded = Graph((*graph.inputs, *inputs.values()), rounded.outputs)
    x = RANDOM.standard_normal((1, 3, 8, 8)).astype(np.float32) * 2
    given = {f"p{k}": p.value for k, p in enumerate(learnable.values())}
    got, want = run(rounded, {"x": x, **given})["y"], run(quantized(graph, layers, found), {"x": x})["y"]
    exact = run(graph, {"x": x})["y"]
    assert np.abs(got - want).max() < 1e-5 < np.abs(exact - want).max()


def test_samples_are_cut_and_mirrored(tmp_path: Path) -> None:
    x = np.arange(5 * 2 * 6 * 7, dtype=np.float32).reshape(5, 2, 6, 7)
    np.savez(tmp_path / "x.npz", x=x)
    inputs = [placeholder("x", Type("f32", (4, 2, 5, 4)))]
    own = Samples(tmp_path / "x.npz", inputs, 4, ("mirror",))
    places, flipped = set(), set()
    for k in range(40):
        made = own.step(k, 0)["x"]
        np.testing.assert_array_equal(made, own.step(k, 0)["x"])
        for sample in made:
            plain = sample if sample[0, 0, 0] < sample[0, 0, 1] else sample[..., ::-1]
            i, _, row, column = np.argwhere(x == plain[0, 0, 0])[0]
            np.testing.assert_array_equal(plain, x[i, :, row : row + 5, column : column + 4])
            places.add((int(row), int(column)))
            flipped.add(plain is sample)
    assert places == {(r, c) for r in range(2) for c in range(4)} and flipped == {True, False}
    mixed = Samples(tmp_path / "x.npz", inputs, 4, ("mix",)).step(3, 0)["x"]
    plain = Samples(tmp_path / "x.npz", inputs, 4).step(3, 0)["x"]
    share = (mixed - np.roll(plain, 1, 0))[:, 0, 0, 0] / (plain - np.roll(plain, 1, 0))[:, 0, 0, 0]
    assert ((share > 0) & (share < 1)).all()
    shares = share.reshape(4, 1, 1, 1)
    np.testing.assert_allclose(mixed, plain * shares + np.roll(plain, 1, 0) * (1 - shares), rtol=1e-4)


def test_samples_are_enlarged(tmp_path: Path) -> None:
    """A part of a plane is a plane of a lesser slope, over places of the sample."""
    rows, columns = np.mgrid[0:9, 0:11].astype(np.float32)
    np.savez(tmp_path / "x.npz", x=np.stack([rows, columns])[None].repeat(3, axis=0))
    own = Samples(tmp_path / "x.npz", [placeholder("x", Type("f32", (2, 2, 8, 10)))], 2, ("zoom",))
    slopes = []
    for k in range(30):
        made = own.step(k, 0)["x"]
        np.testing.assert_array_equal(made, own.step(k, 0)["x"])
        for first, second in made:
            assert (first == first[:, :1]).all() and (second == second[:1]).all()
            inside = np.diff(first[1:-1, 0]), np.diff(second[0, 1:-1])
            assert all(np.ptp(steps) < 1e-5 for steps in inside)
            assert first.min() >= 0 and first.max() <= 8 and second.max() <= 10
            slopes.append((inside[0][0] * 8 / 9, inside[1][0] * 10 / 11))
    found = np.array(slopes)
    assert 0.4 <= found.min() < 0.5 and 0.9 < found.max() <= 1.0 + 1e-5
    assert abs(np.corrcoef(found.T)[0, 1]) < 0.5
    with pytest.raises(UsageError, match="of two dimensions or more"):
        Samples(tmp_path / "x.npz", [placeholder("x", Type("i64", (2, 2, 8, 10)))], 2, ("zoom",))


def test_every_sample_comes_once_before_one_comes_again(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.arange(12, dtype=np.int64).reshape(12, 1))
    own = Samples(tmp_path / "x.npz", [placeholder("x", Type("i64", (3, 1)))], 3)
    for epoch in range(3):
        seen = np.concatenate([own.step(4 * epoch + k, 7)["x"] for k in range(4)])
        assert sorted(seen.reshape(-1)) == list(range(12))


def error(built: Built, dense: Built) -> float:
    x = np.random.default_rng(2).standard_normal((30, 1, 3, 8, 8)).astype(np.float32)
    got, want = (np.concatenate([net(a) for a in x]) for net in (built, dense))
    return float(np.square(got - want).sum() / np.square(want).sum())


def test_a_pruned_network_learns_what_it_lost(files: tuple[Path, Path]) -> None:
    pruned = {"prune": "vector=16", "sparsity": 0.75, "device": "host"}
    learned = {"retrain": files[0], "retrain_steps": 150, "optimizer": "adam:lr=0.01"}
    plain = edgec.build(convolutions())
    before = edgec.build(convolutions(), **pruned)  # type: ignore[arg-type]
    after = edgec.build(convolutions(), **pruned, **learned)  # type: ignore[arg-type]
    found = after.stages.compressed
    assert found is not None and found.retrained is not None
    assert found.retrained.batch == 8 and found.retrained.last < 0.5 * found.retrained.first
    assert error(after, plain) < 0.6 * error(before, plain)
    assert set(before.masks) == set(after.masks)
    for name, p in parameters(found.graph).items():
        if name in after.masks:
            kept = after.masks[name]
            assert not p.value[~kept.reshape(p.value.shape)].any() if p.value.ndim == 4 else True


def test_a_retraining_without_a_gain_is_told(files: tuple[Path, Path]) -> None:
    asked = {"prune": "vector=16", "sparsity": 0.75, "retrain": files[0], "retrain_steps": 3, "device": "host"}
    with pytest.warns(RetrainingWarning, match="worse than without --retrain"):
        edgec.build(convolutions(), optimizer="adam:lr=1e-7", **asked)  # type: ignore[arg-type]


def test_weights_in_int8_are_retrained(files: tuple[Path, Path]) -> None:
    """The distance falls while operands and weights are rounded; what is built is int8."""
    asked = {"quantize": "int8", "calibrate": files[1], "retrain": files[0], "retrain_steps": 60}
    built = edgec.build(convolutions(), **asked)  # type: ignore[arg-type]
    found = built.stages.compressed
    assert found is not None and found.retrained is not None and found.report is not None
    assert found.retrained.last < found.retrained.first
    assert any(row.precision == "int8" for row in found.report.layers)
    assert error(built, edgec.build(convolutions())) < 1e-3


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, "makes up for what pruning or int8 lost"),
    "channels": ({"prune": "channel", "sparsity": 0.3}, "without some of its channels"),
    "bound": ({"prune": "vector", "max_loss": "cosine=0.9", "calibrate": "random"}, "bounds what is lost before"),
    "no file": ({"prune": "vector", "sparsity": 0.5, "retrain": "missing.npz"}, "no such file of samples"),
    "steps": ({"prune": "vector", "sparsity": 0.5, "retrain_steps": 0}, "0 steps"),
    "augment": ({"prune": "vector", "sparsity": 0.5, "augment": "turn"}, "not changed by 'turn'"),
    "loss": ({"prune": "vector", "sparsity": 0.5, "loss": "mse"}, "takes no --"),
    "batch": ({"prune": "vector", "sparsity": 0.5, "batch": 0}, "a batch of 0"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_not_retrained(case: str, files: tuple[Path, Path]) -> None:
    given, message = WRONG[case]
    with pytest.raises(EdgecError, match=message) as raised:
        edgec.build(convolutions(), compile=False, **{"retrain": files[0], **given})
    assert raised.value.hint


def test_samples_that_do_not_fit(files: tuple[Path, Path], tmp_path: Path) -> None:
    inputs = [placeholder("x", Type("f32", (4, 2, 5, 4)))]
    wrong = {
        "no such array": {"y": np.zeros((4, 2, 5, 4))},
        "it is": {"x": np.zeros((9, 2, 5, 3))},
        "infinities": {"x": np.full((9, 2, 5, 4), np.inf)},
        "or none": {"x": np.zeros((0, 2, 5, 4))},
    }
    for message, arrays in wrong.items():
        np.savez(tmp_path / "x.npz", **arrays)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match=message):
            Samples(tmp_path / "x.npz", inputs, 4)
    with pytest.raises(UsageError, match="nothing is retrained without data"):
        edgec.build(convolutions(), compile=False, retrain_steps=5)

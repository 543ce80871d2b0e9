"""Pruning without training: structure, repair, bounds, masks; and channels that really go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from chance import RANDOM
from small_graphs import conv, graph, pad, pool, relu, value
from typer.testing import CliRunner

import edgec
from edgec import ops
from edgec.cli.main import app
from edgec.compress.calibrate import labels
from edgec.compress.layers import Layer, layers_of, results
from edgec.compress.max_loss import MaxLoss
from edgec.compress.prune.channels import without_channels
from edgec.compress.prune.choose import METHODS, Statistics, chosen, repaired
from edgec.compress.prune.levels import _taken, furthest, ordered
from edgec.compress.prune.operands import candidates, prunable
from edgec.compress.prune.scheme import kept, parsed
from edgec.errors import CheckError, UsageError
from edgec.frontend.onnx.export import runnable
from edgec.ir.graph import Graph, Node, constant
from edgec.ir.verify import verify


def weights(*shape: int) -> Node:
    fan = int(np.prod(shape[1:])) if len(shape) > 2 else shape[0]
    return constant((RANDOM.standard_normal(shape) * fan**-0.5).astype(np.float32))


def biased(x: Node, channels: int) -> Node:
    shape = (1, channels, *([1] * (x.type.rank - 2)))
    return ops.node("add", x, constant(RANDOM.standard_normal(shape).astype(np.float32) * 0.1))


def network() -> Graph:
    """Two 3x3 convolutions with a residual, a pointwise one, a pool, a dense layer."""
    x = value("x", 1, 16, 10, 10)
    first = relu(biased(conv(pad(x, 1, 1), weights(32, 16, 3, 3)), 32))
    second = relu(ops.node("add", biased(conv(pad(first, 1, 1), weights(32, 32, 3, 3)), 32), first))
    wide = relu(biased(conv(second, weights(96, 32, 1, 1)), 96))
    small = pool(wide, "max", (5, 5), 5)
    flat = ops.node("reshape", small, shape=(1, 96 * 4))
    return graph(ops.node("matmul", flat, weights(96 * 4, 12)))


GRAPH = network()


def data(folder: Path, count: int = 12) -> Path:
    path = folder / "data.npz"
    np.savez(path, x=np.random.default_rng(count).standard_normal((count, 16, 10, 10)).astype(np.float32))
    return path


# ---- masks


@pytest.mark.parametrize("text", ["vector", "vector=4", "block=8x4", "pattern=4of9", "2:4"])
def test_what_goes_goes_together(text: str) -> None:
    scheme = parsed(text, 16)
    stay = kept(RANDOM.random((3, 20 * 9)), scheme, 9, 0.75)
    grid = stay.reshape(3, 20, 9)
    if scheme.kind == "pattern":
        assert set(np.unique(grid.sum(2))) <= {0, 4}
        assert stay.mean() == pytest.approx(0.25, abs=0.02)
    elif scheme.kind == "nm":
        assert (grid.reshape(3, 5, 4, 9).sum(2) == 2).all()
    else:
        blocks = grid.reshape(3, 20 // scheme.inputs, scheme.inputs, 9)
        assert (blocks == blocks[:, :, :1]).all()
        assert stay.mean() == pytest.approx(0.25, abs=0.02)


@pytest.mark.parametrize("text", ["", "vector=0", "block=8", "pattern=9of9", "4:2", "rows", "block=8x0"])
def test_other_words_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="no way to prune"):
        parsed(text, 16)


def test_something_always_stays() -> None:
    assert kept(np.zeros((2, 40)), parsed("vector", 16), 1, 0.9999).sum() == 1


# ---- repair


def correlated(rows: int, columns: int) -> np.ndarray:
    return RANDOM.standard_normal((rows, columns // 3)) @ RANDOM.standard_normal((columns // 3, columns)) + (
        0.1 * RANDOM.standard_normal((rows, columns))
    )


def test_weights_are_solved_for_what_is_kept() -> None:
    errors: Counter[tuple[str, bool]] = Counter()
    for _ in range(4):  # one layer alone may have no luck
        errors.update(errors_of_half())
    for method in METHODS:
        assert errors[method, True] < 0.3 * errors[method, False], errors
    assert errors["obs", True] < 0.8 * errors["magnitude", True], errors


def errors_of_half() -> dict[tuple[str, bool], float]:
    """Error of a random layer with half of its weights, by method, and by whether the rest is solved for."""
    x, w = correlated(900, 60) + 1.0, RANDOM.standard_normal((32, 60))
    y = x @ w.T
    statistics = Statistics.of(x, y, w)
    errors = {}
    for method in METHODS:
        for repair in (True, False):
            new = chosen(w, 1, parsed("vector=16", 16), 0.5, method, statistics, repair)
            assert (new.matrix[~new.mask] == 0).all() and new.mask.mean() == pytest.approx(0.5)
            got = x @ new.matrix.T + (0 if new.shift is None else new.shift)
            errors[method, repair] = float(np.square(y - got).mean() / y.var())
    return errors


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_both_systems_give_the_same_weights(share: float) -> None:
    """Few columns left out are solved for by themselves; what comes out is least squares on what is kept."""
    random = np.random.default_rng(5)
    x, w = random.standard_normal((200, 24)), random.standard_normal((10, 24))
    known = Statistics.of(x, x @ w.T, w)
    stay = random.random((3, 24)) >= share
    new = repaired(w, stay, parsed("vector=4", 16), known).matrix
    for p, mine in enumerate(stay):
        panel, (k,) = slice(4 * p, 4 * p + 4), np.nonzero(mine)
        want = np.linalg.solve(known.hessian[np.ix_(k, k)], known.cross[k, panel]).T
        np.testing.assert_allclose(new[panel][:, k], want, atol=1e-9)
        assert not new[panel][:, ~mine].any()


def test_where_data_say_nothing_weights_stay() -> None:
    w = RANDOM.standard_normal((16, 40))
    x = np.zeros((50, 40))
    new = chosen(w, 1, parsed("vector", 16), 0.5, "obs", Statistics.of(x, x @ w.T, w))
    np.testing.assert_allclose(new.matrix, np.where(new.mask, w, 0))


# ---- networks


def test_a_pruned_network_runs_on_sparse_kernels(tmp_path: Path) -> None:
    built = edgec.build(
        GRAPH, tmp_path / "net", start="simplify", device="host", prune="vector", sparsity=0.8,
        calibrate=data(tmp_path),
    )  # fmt: skip
    assert sum(k.template == "sparse" for k in built.program.kernels) >= 2
    report = built.stages["compress"].pruned.report
    assert report.method == "obs" and report.samples == 12
    done = [row for row in report.layers if not row.reason]
    assert len(done) >= 2 and all(row.zeros >= 0.28 and row.gain > 1 for row in done)
    assert 0.6 < report.zeros < 0.83  # no layer loses more than 95 %
    x = RANDOM.standard_normal((1, 16, 10, 10)).astype(np.float32)
    (want,) = results(built.stages["compress"].graph, [{"x": x}])
    assert np.abs(built(x) - want["y0"]).max() <= 1e-4 * np.abs(want["y0"]).max()


def test_answers_stay_dense() -> None:
    """Of 150 pictures, 88 were read right with zeros in the last layer alone, and 129 without: its results are the
    answers, and no layer behind it makes up for them."""
    found = layers_of(GRAPH)
    assert [layer.name for layer in candidates(GRAPH)] == [layer.name for layer in found if prunable(layer)][:-1]
    alone = graph(conv(value("x", 1, 16, 6, 6), constant(found[0].weights)))
    assert len(candidates(alone)) == 1


def figure(graph: Graph, samples: list[Mapping[str, np.ndarray]]) -> float:
    pairs = list(zip(results(GRAPH, samples), results(graph, samples)))
    return float(np.mean([np.square(a["y0"] - b["y0"]).mean() / a["y0"].var() for a, b in pairs]))


def test_data_make_up_for_what_is_lost(tmp_path: Path) -> None:
    path = data(tmp_path, 24)
    fresh = [{"x": RANDOM.standard_normal((1, 16, 10, 10)).astype(np.float32)} for _ in range(4)]
    options = {"start": "simplify", "compile": False, "prune": "vector", "sparsity": 0.5, "device": "x86_64_avx512"}
    by_data = edgec.build(GRAPH, tmp_path / "a", calibrate=path, **options)
    alone = edgec.build(GRAPH, tmp_path / "b", **options)
    assert alone.stages["compress"].pruned.report.method == "magnitude"
    assert figure(by_data.stages["compress"].graph, fresh) < 0.8 * figure(alone.stages["compress"].graph, fresh)


def test_as_much_as_the_budget_allows(tmp_path: Path) -> None:
    options = {"start": "simplify", "compile": False, "prune": "vector", "calibrate": data(tmp_path)}
    loose = edgec.build(GRAPH, tmp_path / "a", max_loss="cosine=0.5", **options).stages["compress"].pruned.report
    tight = edgec.build(GRAPH, tmp_path / "b", max_loss="cosine=0.97", **options).stages["compress"].pruned.report
    assert loose.value >= 0.5 and tight.value >= 0.97 and tight.max_loss == "cosine=0.97"
    assert loose.zeros > tight.zeros > 0
    with pytest.raises(CheckError, match="nothing within max_abs=1e-07 is faster"):
        edgec.build(GRAPH, max_loss="max_abs=1e-7", **options)
    with pytest.raises(CheckError, match="pruned it is cosine="):
        edgec.build(GRAPH, max_loss="cosine=0.9999", sparsity=0.9, **options)


def test_steps_are_ordered_by_error_for_time() -> None:
    one, two, three = (replace(layer) for layer in layers_of(GRAPH)[:3])
    gains = {
        (one, 0.3): 10.0,
        (one, 0.5): 20.0,
        (one, 0.7): 30.0,
        (two, 0.5): 10.0,
        (three, 0.3): 5.0,
        (three, 0.5): 4.0,
    }
    errors = {(one, 0.3): 8.0, (one, 0.5): 4.0, (one, 0.7): 40.0, (two, 0.5): 1.0, (three, 0.3): 3.0, (three, 0.5): 9.0}
    # one's 30 % are beaten by its 50 %, and nobody wants more zeros that gain less.
    assert ordered(gains, errors) == [(two, 0.5), (one, 0.5), (three, 0.3), (one, 0.7)]


def test_a_layer_that_breaks_the_budget_holds_nobody_up() -> None:
    layers = [replace(x) for x in layers_of(GRAPH) * 3]
    steps = [(x, level) for x in layers for level in (0.3, 0.5)]
    asked: list[int] = []

    def figure(levels: Mapping[Layer, float]) -> float:
        asked.append(len(levels))
        return 5.0 if levels.get(layers[1]) == 0.5 else 100.0 if layers[4] in levels else 1.0

    taken, first = _taken(steps, figure, MaxLoss("top1_drop", 2.0))
    assert first == 1.0 and taken == [s for s in steps if s != (layers[1], 0.5) and s[0] is not layers[4]]
    assert len(asked) < len(steps)
    assert furthest(10, lambda count: count <= 7, 5) == 7 and furthest(3, lambda count: False, 5) == 0


def test_labels_say_which_decisions_can_be_lost(tmp_path: Path) -> None:
    wanted = [{"y": np.eye(3, dtype=np.float32)[k][None]} for k in (0, 1, 2, 0)]
    got = [{"y": np.eye(3, dtype=np.float32)[k][None]} for k in (0, 2, 0, 1)]
    max_loss = MaxLoss("top1_drop", 2.0)
    assert max_loss.of(wanted, got) == 75 and max_loss.of(wanted, got, [np.array(k) for k in (0, 0, 2, 1)]) == 25
    x = np.zeros((5, 16, 10, 10), np.float32)
    np.savez(tmp_path / "a.npz", x=x, labels=np.arange(5))
    assert labels(tmp_path / "a.npz", GRAPH) == [0, 1, 2, 3, 4]
    np.savez(tmp_path / "b.npz", x=x)
    assert labels(tmp_path, GRAPH) == labels("random", GRAPH) == []
    np.savez(tmp_path / "b.npz", x=x, labels=np.arange(4))
    with pytest.raises(UsageError, match=r"'labels' is \[4\], and there are 5 inputs"):
        labels(tmp_path, GRAPH)


def test_masks_go_out_and_come_back(tmp_path: Path) -> None:
    options = {"start": "simplify", "compile": False}
    built = edgec.build(GRAPH, tmp_path / "a", prune="vector", sparsity=0.7, **options)
    built.write_masks(tmp_path / "masks.npz")
    again = edgec.build(GRAPH, tmp_path / "b", masks=tmp_path / "masks.npz", **options)
    assert {k: v.shape for k, v in built.masks.items()} == {k: v.shape for k, v in again.masks.items()}
    assert all((again.masks[k] == m).all() for k, m in built.masks.items())
    assert again.stages["compress"].graph.outputs == built.stages["compress"].graph.outputs
    np.savez(tmp_path / "other.npz", nobody=np.ones(3))
    name, mask = next(iter(built.masks.items()))
    np.savez(tmp_path / "small.npz", **{name: mask[:-1]})
    for file, message in {"other": "no layer 'nobody'", "small": "its weights are", "none": "cannot be read"}.items():
        with pytest.raises(UsageError, match=message):
            edgec.build(GRAPH, masks=tmp_path / f"{file}.npz", **options)


def test_masks_for_training_spare_small_layers() -> None:
    masks = edgec.masks(runnable(GRAPH), prune="vector=1", sparsity=0.9)
    kept = {name: float(m.mean()) for name, m in masks.items()}
    assert sum(m.sum() for m in masks.values()) == pytest.approx(0.1 * sum(m.size for m in masks.values()), rel=0.01)
    by_size = sorted(masks, key=lambda name: masks[name].size)
    assert kept[by_size[0]] > 2 * kept[by_size[-1]]
    everything = edgec.masks(runnable(GRAPH), prune="vector=1", sparsity=0.05)
    assert everything[by_size[0]].all() and len(everything) == len(masks)


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"sparsity": 0.5}, "zeros of no kind"),
        ({"prune": "vector", "sparsity": 1.5}, "no share of zeros"),
        ({"prune": "vector", "sparsity": "most"}, "no share of zeros"),
        ({"prune": "vector"}, "cannot be found out"),
        ({"prune": "rows", "sparsity": 0.5}, "no way to prune"),
        ({"prune": "vector", "sparsity": 0.5, "prune_by": "dice"}, "way to choose zeros"),
        ({"prune": "vector=1", "sparsity": 0.4}, "gains nothing"),
        ({"prune": "pattern=4of25"}, "nothing to prune"),
        ({"prune": "2:4", "sparsity": 0.9}, "'2:4' makes 50% zeros, not 90%"),
        ({"prune": "pattern=4of9", "sparsity": 0.3}, "'pattern=4of9' makes 56% zeros, not 30%"),
        ({"prune": "channel"}, "removed by a share"),
        ({"max_loss": "cosine=0.9"}, "nothing whose loss could be bounded"),
    ],
)
def test_what_makes_no_sense_is_told(settings: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        edgec.build(GRAPH, start="simplify", compile=False, **settings)  # type: ignore[arg-type]


# ---- channels


def branching() -> Graph:
    """Residual, concatenation, depthwise, upsampling by a shuffle, a dense layer: all that ties channels together."""
    x = value("x", 1, 3, 12, 12)
    stem = relu(biased(conv(pad(x, 1, 1), weights(32, 3, 3, 3)), 32))
    inner = relu(biased(conv(stem, weights(48, 32, 1, 1)), 48))
    deep = relu(biased(conv(pad(inner, 1, 1), weights(48, 1, 3, 3), 1, 1, 48), 48))
    back = ops.node("add", biased(conv(deep, weights(32, 48, 1, 1)), 32), stem)
    down = relu(biased(conv(pad(back, 1, 1), weights(40, 32, 3, 3), 2), 40))
    up = conv(down, weights(4 * 24, 40, 1, 1))
    up = ops.node("reshape", up, shape=(1, 24, 2, 2, 6, 6))
    up = ops.node("transpose", up, perm=(0, 1, 4, 2, 5, 3))
    both = ops.node("concat", ops.node("reshape", up, shape=(1, 24, 12, 12)), back, axis=1)
    last = relu(biased(conv(pad(both, 1, 1), weights(32, 56, 3, 3)), 32))
    mean = ops.node("reduce", last, combine="add", axes=(2, 3))
    return graph(ops.node("matmul", ops.node("reshape", mean, shape=(1, 32)), weights(32, 10)), last)


@pytest.mark.parametrize("with_data", [False, True])
def test_channels_leave_every_tensor_they_are_part_of(with_data: bool) -> None:
    g = branching()
    samples = [{"x": RANDOM.standard_normal((1, 3, 12, 12)).astype(np.float32)} for _ in range(6)]
    smaller, removed = without_channels(g, 0.5, samples if with_data else [])
    verify(smaller)
    shapes = [shape for _, shape, _ in removed]
    assert shapes == [
        (16, 3, 3, 3), (24, 16, 1, 1), (24, 1, 3, 3), (16, 24, 1, 1), (24, 16, 3, 3), (4 * 16, 24, 1, 1),
        (32, 32, 3, 3), (32, 10),
    ]  # fmt: skip
    assert [n.type for _, n in smaller.outputs] == [n.type for _, n in g.outputs]
    session = onnxruntime.InferenceSession(runnable(smaller).SerializeToString(), providers=["CPUExecutionProvider"])
    for sample in samples:
        (want,) = results(smaller, [sample])
        for name, got in zip(want, session.run(None, sample)):
            np.testing.assert_allclose(got, want[name], atol=1e-4 * np.abs(want[name]).max())


def test_channels_that_matter_least_go() -> None:
    """Weights of some channels are all but nothing: without them the network is all but the same."""
    x = value("x", 1, 8, 6, 6)
    first = RANDOM.standard_normal((32, 8, 1, 1)).astype(np.float32)
    second = RANDOM.standard_normal((16, 32, 1, 1)).astype(np.float32)
    quiet = RANDOM.permutation(32)[:16]
    second[:, quiet] *= 1e-6
    g = graph(conv(relu(conv(x, constant(first))), constant(second)))
    smaller, removed = without_channels(g, 0.5, [])
    assert removed[0][1] == (16, 8, 1, 1)
    sample = {"x": RANDOM.standard_normal((1, 8, 6, 6)).astype(np.float32)}
    want, got = (results(n, [sample])[0]["y0"] for n in (g, smaller))
    np.testing.assert_allclose(got, want, atol=1e-4)


def test_the_smaller_network_is_written(tmp_path: Path) -> None:
    model = runnable(network())
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    files = [str(tmp_path / "net.onnx"), "-o", str(tmp_path / "out"), "--write-onnx", str(tmp_path / "small.onnx")]
    arguments = ["build", *files, "--prune", "channel", "--sparsity", "0.4"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    session = onnxruntime.InferenceSession(str(tmp_path / "small.onnx"), providers=["CPUExecutionProvider"])
    x = RANDOM.standard_normal((1, 16, 10, 10)).astype(np.float32)
    (want,) = session.run(None, {"x": x})
    got = next(iter(edgec.Network(tmp_path / "out").run({"x": x}).values()))
    np.testing.assert_allclose(got, want, atol=1e-4 * np.abs(want).max())
    assert (tmp_path / "small.onnx").stat().st_size < 0.7 * (tmp_path / "net.onnx").stat().st_size


def test_operators_without_a_form_in_onnx_are_named() -> None:
    x = value("x", 3, 4)
    with pytest.raises(UsageError, match="'argsort"):
        runnable(graph(ops.node("argsort", x, axis=1, descending=False)))


REFUSED = (
    ("host_pocl", {"prune": "vector"}), ("host_pocl", {"prune": "2:4"}), ("cuda_sm86", {"prune": "block=8x4"}),
    ("cuda_sm86", {"prune": "block=2x2", "sparsity": 0.9}),
)  # fmt: skip


@pytest.mark.parametrize("device, given", REFUSED)
def test_advice_where_nothing_is_gained_is_true(device: str, given: dict[str, Any]) -> None:
    """A hint with options builds with them; where it says that nothing gains, all zeros are refused."""
    model = runnable(GRAPH)
    asked = {"device": device, "compile": False} | ({} if given["prune"] == "2:4" else {"sparsity": 0.5}) | given
    with pytest.raises(UsageError, match="gains nothing on this device") as refusal:
        edgec.build(model, **asked)
    hint = refusal.value.hint
    assert hint is not None
    if "leave out --prune" in hint:
        for zeros in ({"prune": "vector", "sparsity": 0.9}, {**asked, "sparsity": 0.9}):
            if zeros["prune"] != "2:4":
                with pytest.raises(UsageError, match="gains nothing"):
                    edgec.build(model, **{**asked, **zeros})
        return
    words = hint.partition(" gains")[0].split()
    options = {name.removeprefix("--"): value for name, value in zip(words[::2], words[1::2])}
    assert "sparsity" in options
    edgec.build(model, **{**asked, **options, "sparsity": float(options["sparsity"])})

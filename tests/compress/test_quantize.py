"""Networks of floats quantized by calibration data: products of bytes, and results that stay near."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chance import RANDOM

import edgec
from edgec import ops
from edgec.compress import OBSERVERS, Request, observe
from edgec.compress import compress as compressed
from edgec.compress.calibrate import CalibrationWarning, samples
from edgec.compress.observe import quantized, scale_and_zero
from edgec.device.load import load_device
from edgec.errors import UsageError
from edgec.ir.evaluate import run
from edgec.ir.graph import Graph, constant, placeholder
from edgec.ir.types import Type
from edgec.report.compression import record
from edgec.rewrite import simplify
from edgec.rewrite.measure import is_widening

PLAIN = {"strides": (1, 1), "dilations": (1, 1)}


def compress(graph: Graph, *request: Any) -> Graph:
    return compressed(graph, Request(*request)).graph


def network() -> Graph:
    """Two convolutions with padding, a residual, a pool and a dense layer."""
    x = placeholder("x", Type("f32", (1, 3, 8, 8)))

    def conv(y, outputs):  # type: ignore[no-untyped-def]
        w = RANDOM.standard_normal((outputs, y.type.shape[1], 3, 3)).astype(np.float32) * 0.2
        padded = ops.node("pad", y, before=(0, 0, 1, 1), after=(0, 0, 1, 1), value=0.0)
        biased = ops.node("conv", padded, constant(w), **PLAIN)
        bias = constant(RANDOM.standard_normal((1, outputs, 1, 1)).astype(np.float32))
        return ops.node("add", biased, bias)

    zero = constant(np.zeros((), np.float32))
    first = ops.node("max", conv(x, 6), zero)
    second = ops.node("max", ops.node("add", conv(first, 6), first), zero)
    pooled = ops.node("pool", second, combine="max", kernel=(2, 2), strides=(2, 2), dilations=(1, 1))
    flat = ops.node("reshape", pooled, shape=(1, 96))
    dense = ops.node("matmul", flat, constant(RANDOM.standard_normal((96, 5)).astype(np.float32) * 0.1))
    return simplify(Graph((x,), (("y", dense),)))[0]


GRAPH = network()


@pytest.mark.parametrize("observer", OBSERVERS)
def test_all_products_are_of_bytes_and_results_stay_near(observer: str) -> None:
    graph, _ = simplify(compress(GRAPH, "int8", "random", observer))
    products = [n for n in graph.operations() if n.op in ("conv", "matmul")]
    assert len(products) == 3
    assert all(is_widening(a) and a.args[0].type.dtype in ("u8", "i8") for n in products for a in n.args)
    errors, size = [], 0.0
    for arrays in samples("random", GRAPH):
        expected = run(GRAPH, arrays)["y"]
        errors.append(float(np.abs(run(graph, arrays)["y"] - expected).max()))
        size = max(size, float(np.abs(expected).max()))
    assert max(errors) < 0.1 * size


def test_operands_are_rounded_to_the_nearest_level() -> None:
    """Weights of an identity matrix show the operand as it is stored: off by half a level, and in the mean by none."""
    x = placeholder("x", Type("f32", (4, 50)))
    graph = Graph((x,), (("y", ops.node("matmul", x, constant(np.eye(50, dtype=np.float32)))),))
    narrow = compress(graph, "int8", "random", "minmax")
    calibrated = list(samples("random", graph))
    low, high = (float(end(a["x"].min() if k == 0 else a["x"].max() for a in calibrated))
                 for k, end in enumerate((min, max)))  # fmt: skip
    level = (max(high, 0.0) - min(low, 0.0)) / 255
    given = calibrated[0]["x"]
    off = run(narrow, {"x": given})["y"] - given
    assert np.abs(off).max() > 0.3 * level
    assert np.abs(off).max() <= 0.501 * level + 1e-6
    assert np.abs(off.mean()) < 0.1 * level


def test_the_residual_reads_what_the_next_layer_reads() -> None:
    """A tensor is stored once: as bytes."""
    graph, _ = simplify(compress(GRAPH, "int8"))
    stored = [n for n in graph.operations() if n.op == "cast" and n.type.dtype == "u8"]
    assert len(stored) == 3  # the input, and what follows each convolution: pooled as bytes


def test_the_compiled_network_computes_the_same(tmp_path: Path) -> None:
    built = edgec.build(GRAPH, tmp_path / "net", start="compress", quantize="int8", calibrate="random")
    arrays = next(iter(samples("random", GRAPH)))
    expected = run(built.stages["compress"].graph, dict(arrays))["y"]
    (got,) = built(arrays["x"])
    assert np.abs(got - expected).max() <= 1e-4 * np.abs(expected).max()


def test_observers_leave_out_what_is_rare() -> None:
    values = np.concatenate([RANDOM.standard_normal(100_000), [400.0]])
    low, high = observe.minmax(values)
    assert high == 400.0
    for name in ("percentile", "entropy", "mse"):
        clipped_low, clipped_high = observe.OBSERVERS[name](values)
        assert low <= clipped_low <= 0 < clipped_high < high, name
    wide, narrow = (np.mean((quantized(values[:-1], low, h) - values[:-1]) ** 2) for h in (high, 5.0))
    assert narrow < wide


@pytest.mark.parametrize("low, high", [(0.0, 6.0), (-1.0, 3.0), (2.0, 5.0), (-4.0, -1.0), (0.0, 0.0), (-1e-12, 1e-12)])
def test_zero_is_always_a_level(low: float, high: float) -> None:
    scale, zero = scale_and_zero(low, high)
    assert scale > 0 and 0 <= zero <= 255
    assert quantized(np.zeros(1), low, high)[0] == 0
    for end in (low, high):
        assert abs(quantized(np.array([end]), low, high)[0] - end) <= scale


def test_calibration_data_come_in_stacks_and_files(tmp_path: Path) -> None:
    picture = RANDOM.standard_normal((1, 3, 8, 8)).astype(np.float32)
    np.savez(tmp_path / "a.npz", x=picture)
    np.savez(tmp_path / "b.npz", x=np.repeat(picture, 4, axis=0))
    np.savez(tmp_path / "c.npz", x=np.stack([picture] * 3))
    assert len(list(samples(tmp_path, GRAPH))) == 8
    assert len(list(samples(tmp_path / "b.npz", GRAPH))) == 4


def test_what_cannot_be_calibrated_by_is_told(tmp_path: Path) -> None:
    np.savez(tmp_path / "other.npz", y=np.zeros(3))
    np.savez(tmp_path / "small.npz", x=np.zeros((1, 3, 4, 4)))
    np.savez(tmp_path / "infinite.npz", x=np.full((1, 3, 8, 8), np.inf))
    (tmp_path / "none").mkdir()
    for name, message in {
        "missing": "no calibration data",
        "none": "no calibration data",
        "other.npz": "no array 'x'",
        "small.npz": r"\[1, 3, 4, 4\]",
        "infinite.npz": "infinities",
    }.items():
        with pytest.raises(UsageError, match=message):
            compress(GRAPH, "int8", tmp_path / name)
    x = placeholder("x", Type("f32", (2,)))
    with pytest.raises(UsageError, match="nothing to quantize"):
        compress(Graph((x,), (("y", ops.node("exp", x)),)), "int8")
    with pytest.raises(UsageError, match="precision 'int3'"):
        edgec.build(GRAPH, start="compress", quantize="int3")
    with pytest.raises(UsageError, match="observer 'guess'"):
        edgec.build(GRAPH, start="compress", quantize="int8", calibrate="random", observer="guess")


def test_without_being_asked_nothing_changes() -> None:
    assert compress(GRAPH) is GRAPH


def test_the_best_observer_is_that_of_the_least_noise_behind(tmp_path: Path) -> None:
    """Few elements are far out, where the layer's weights are zero: only the others matter."""
    x = placeholder("x", Type("f32", (1, 64, 32)))
    w = RANDOM.standard_normal((32, 8)).astype(np.float32)
    w[0] = 0
    graph = Graph((x,), (("y", ops.node("matmul", x, constant(w))),))
    values = RANDOM.standard_normal((4, *x.type.shape)).astype(np.float32)
    values[:, :, 5, 0] = 300.0
    path = tmp_path / "data.npz"
    np.savez(path, x=values)
    noises = {}
    for name in ("minmax", "best"):
        request = Request("int8", path, name, corrections=(), device=load_device("x86_64_avx512_vnni"))
        report = compressed(graph, request).report
        assert report is not None and report.observer == name
        noises[name] = report.layers[0].noise
    assert noises["best"] < 0.5 * noises["minmax"]


@pytest.mark.parametrize("asked", [{"quantize": "int8"}, {"quantize": "mixed"}, {"precision": "mixed:0.1"}])
def test_real_inputs_are_asked_for(asked: dict[str, str]) -> None:
    device = "cuda_sm86" if "precision" in asked else "host"
    with pytest.raises(UsageError, match="needs inputs like those") as refusal:
        edgec.build(GRAPH, start="compress", device=device, compile=False, **asked)
    assert "--calibrate DATA.npz" in str(refusal.value) and "--calibrate random" in str(refusal.value)


def test_drawn_inputs_are_told_of(tmp_path: Path) -> None:
    with pytest.warns(CalibrationWarning, match="random inputs"):
        built = edgec.build(GRAPH, start="compress", quantize="int8", calibrate="random", compile=False)
    assert record(built.stages.compressed.report)["drawn"]
    path = tmp_path / "x.npz"
    np.savez(path, x=RANDOM.standard_normal((4, 1, 3, 8, 8)).astype(np.float32))
    with warnings.catch_warnings():
        warnings.simplefilter("error", CalibrationWarning)
        real = edgec.build(GRAPH, start="compress", quantize="int8", calibrate=path, compile=False)
    assert not record(real.stages.compressed.report)["drawn"]

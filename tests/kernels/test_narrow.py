"""Floats that lie in memory in 16 bits: products of pairs of bf16, widened weights, tables that are looked up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from chance import RANDOM
from compiled import Compiled, Target, compile_graphs, program_of, target
from convnet import convnet
from needed import need
from sanitized import ADDRESS, THREAD, run_sanitized
from small_graphs import conv, gelu, graph, layernorm, pad, relu, softmax, transpose, value

import edgec
from edgec import ops
from edgec.device.device import Precision
from edgec.errors import UsageError
from edgec.ir import evaluate
from edgec.ir.graph import Graph, Node, constant
from edgec.ir.types import DTYPES
from edgec.schedule import storage
from edgec.schedule.contract.contract import Contract


def whole(*shape: int) -> Node:
    """Weights that 16 bits hold exactly, as do sums of a few of them."""
    return constant(RANDOM.integers(-8, 9, shape).astype(np.float32) / 8)


def cases() -> Iterator[tuple[str, Graph]]:
    for m, k, n in ((1, 1, 1), (1, 65, 33), (5, 2, 17), (9, 16, 8), (13, 7, 3), (31, 5, 16), (40, 33, 50), (3, 301, 9)):
        a = value("a", m, k)
        yield f"matmul {m}x{k}x{n}", graph(relu(ops.node("matmul", a, whole(k, n))))
        turned = transpose(value("b", k, m), 1, 0)
        yield f"matmul turned {m}x{k}x{n}", graph(ops.node("matmul", turned, whole(k, n)))
    yield "matmul of a formula", graph(ops.node("matmul", relu(value("a", 9, 12)), whole(12, 21)))
    yield "matmul both dynamic", graph(ops.node("matmul", value("a", 9, 12), value("b", 12, 21)))
    yield "matmul batch", graph(ops.node("matmul", value("a", 3, 5, 7), whole(3, 7, 18)))
    for c, n, size, taps in ((3, 5, 9, 3), (4, 17, 8, 3), (1, 16, 7, 5), (6, 33, 6, 1), (5, 4, 5, 2)):
        x = value("x", 1, c, size, size)
        yield f"conv {c}x{n}x{taps}", graph(relu(conv(x, whole(n, c, taps, taps))))
        padded = conv(pad(relu(x), 0, 0, (1, 1), (1, 1)), whole(n, c, taps, taps), 2)
        yield f"conv padded {c}x{n}x{taps}", graph(padded)
    x = value("x", 1, 16, 9, 9)
    wide = relu(conv(x, whole(19, 16, 1, 1)))
    deep = relu(conv(pad(wide, 0, 0, (1, 1), (1, 1)), whole(19, 1, 3, 3), groups=19))
    yield "depthwise", graph(conv(deep, whole(8, 19, 1, 1)))
    y = value("y", 12, 24)
    added = layernorm(ops.node("add", ops.node("matmul", gelu(y), whole(24, 24)), y), 1)
    yield "residual", graph(ops.node("add", ops.node("matmul", added, whole(24, 24)), added))
    yield "softmax", graph(ops.node("matmul", softmax(ops.node("matmul", y, whole(24, 17)), 1), whole(17, 5)))
    rows = ops.node("gather", whole(70, 64), value("i", 6, dtype="i64"), axis=0)
    yield "table", graph(ops.node("mul", rows, value("s", 64)))


CASES = dict(cases())
#: Of the largest value: sums of what is exact in 16 bits differ by rounding to fp32, what follows rounds to 16.
TOLERANCE = {"bf16": 2.0**-7, "fp16": 2.0**-10}


def given(graph: Graph) -> dict[str, np.ndarray]:
    made = {}
    for n in graph.inputs:
        shape = tuple(n.type.shape)
        large = 6 if n.type.dtype == "i64" else 9
        drawn = RANDOM.integers(-large if n.type.dtype == "f32" else 0, large, shape)
        made[n.attributes["name"]] = (drawn / (8 if n.type.dtype == "f32" else 1)).astype(DTYPES[n.type.dtype])
    return made


INPUTS = {name: given(g) for name, g in CASES.items()}


@pytest.fixture(autouse=True)
def everything_is_narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small tensors too, and copies for small products."""
    monkeypatch.setattr(storage, "LEAST", 1)
    monkeypatch.setattr(storage, "WORTH_A_COPY", 0)


def narrow(name: str, precision: Precision) -> Target:
    where = target(name)
    return replace(where, device=replace(where.device, precision=precision))


def check(name: str, got: dict[str, np.ndarray], precision: str) -> None:
    for port, want in evaluate.run(CASES[name], INPUTS[name]).items():
        assert got[port].dtype == want.dtype and np.isfinite(got[port]).all(), name
        most = np.abs(want).max(initial=1e-3)
        assert np.abs(got[port] - want).max(initial=0) <= TOLERANCE[precision] * most, f"{name} {port}"


def test_pairs_are_multiplied() -> None:
    where = narrow("host", "bf16").device
    found = [
        k.schedule for g in CASES.values() for k in program_of(g, where).kernels if isinstance(k.schedule, Contract)
    ]
    assert sum(p.dots is not None for p in found) > len(found) / 2
    assert {p.dots.rest for p in found if p.dots is not None} == {0, 1}


def test_exact_values_are_exact(tmp_path: Path) -> None:
    """Values that 16 bits represent exactly are multiplied and added without an error."""
    first = {n: g for n, g in CASES.items() if n.startswith(("matmul", "conv"))}
    where = narrow("host", "bf16")
    for name, network in compile_graphs(first, tmp_path, True, where.flags, where.device).items():
        assert isinstance(network, Compiled)
        for port, want in evaluate.run(CASES[name], INPUTS[name]).items():
            assert np.array_equal(network(INPUTS[name])[port], want), name


@pytest.mark.parametrize(
    ("device", "precision"),
    [("host", "bf16"), ("host", "fp16"), ("generic", "bf16"), ("generic", "fp16"), ("x86_64_avx2", "bf16")],
)
def test_within_rounding(device: str, precision: Precision, tmp_path: Path) -> None:
    where = narrow(device, precision)
    for name, network in compile_graphs(CASES, tmp_path, True, where.flags, where.device).items():
        assert isinstance(network, Compiled)
        alone = network(INPUTS[name])
        check(name, alone, precision)
        shared = network(INPUTS[name], 2)
        assert all(np.array_equal(alone[p], shared[p]) for p in alone), name


@pytest.mark.parametrize(("precision", "sanitizer"), [("bf16", ADDRESS), ("fp16", ADDRESS), ("bf16", THREAD)])
def test_stays_inside_its_buffers(precision: Precision, sanitizer: tuple[str, ...], tmp_path: Path) -> None:
    where = narrow("host", precision)
    threads = 2 if sanitizer is THREAD else 1
    for name, got in run_sanitized(CASES, INPUTS, tmp_path, where, sanitizer, threads=threads).items():
        check(name, got, precision)


def test_weights_take_half() -> None:
    g = CASES["matmul 40x33x50"]
    sizes = [program_of(g, narrow("host", p).device).weights_bytes for p in ("fp32", "bf16", "fp16")]
    assert max(sizes[1:]) < 0.55 * sizes[0]


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_a_network_is_checked_at_its_precision(precision: str) -> None:
    model = convnet()
    checked = edgec.check(model, precision=precision, blocks=True, samples=1)
    assert checked.ok and checked.tolerance == {"bf16": 2.0**-6, "fp16": 2.0**-9}[precision]
    assert max(d.max_rel for d in checked.outputs) > 1e-6  # it is rounded indeed


@pytest.mark.parametrize(
    ("device", "precision"), [("pixel_8", "bf16"), ("pixel_8", "fp16"), ("arm64", "bf16"), ("neoverse_v1", "bf16")]
)
def test_on_arm(device: str, precision: str) -> None:
    need("qemu-aarch64", "qemu-user")
    need("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross")
    model = convnet()
    assert edgec.check(model, device=device, precision=precision, link="qemu", samples=1).ok


def test_bf16_on_cuda() -> None:
    found = edgec.check(convnet(), device="cuda_sm90", compiler="emulated", precision="bf16", samples=1)
    assert found.ok and found.verdict == "ok"


def test_what_a_language_lacks_is_said(tmp_path: Path) -> None:
    model = convnet()
    for device, precision in (("host", "tf32"), ("jetson_nano", "bf16")):
        with pytest.raises(UsageError, match=precision):
            edgec.build(model, tmp_path / "out", device=device, precision=precision)

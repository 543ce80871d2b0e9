"""Sums of products in fp16, on an emulated 64-bit Arm: against float64, poisoned memory, the ends of the range."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from compiled import Target, program_of, target
from needed import need
from sanitized import ADDRESS, run_sanitized
from small_graphs import conv, graph, number, pad, relu, transpose, value

from edgec import ops
from edgec.fuse import plan
from edgec.ir import evaluate
from edgec.ir.graph import Graph, Node, constant, intern, rewrite
from edgec.schedule import storage
from edgec.schedule.build import schedule
from edgec.schedule.contract.contract import Contract
from edgec.schedule.contract.fp16_sums import Fp16Accumulation
from edgec.schedule.options import ScheduleOptions
from edgec.schedule.window import Window

RANDOM = np.random.default_rng(21)
#: Of the sum of the products' absolute values: the rounding of both factors, and of sums of at most TERMS in fp16.
BOUND = 2.0**-8
EMULATOR = ("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu")


def weights(*shape: int, scale: float = 1.0) -> Node:
    return constant((RANDOM.standard_normal(shape) * scale).astype(np.float32))


def products() -> Iterator[tuple[str, Graph]]:
    """One sum of products each, with rows, columns and sums of all kinds of lengths."""
    for m, k, n in ((1, 1, 1), (1, 65, 33), (5, 2, 17), (9, 64, 8), (13, 7, 3), (31, 130, 24), (3, 99, 9)):
        yield f"matmul {m}x{k}x{n}", graph(ops.node("matmul", value("a", m, k), weights(k, n)))
    for m, k, n in ((13, 7, 3), (23, 63, 50)):
        turned = transpose(value("b", k, m), 1, 0)
        yield f"matmul turned {m}x{k}x{n}", graph(ops.node("matmul", turned, weights(k, n)))
    yield "greatest", graph(ops.node("matmul", value("a", 6, 95), weights(95, 19)))
    yield "matmul batch", graph(ops.node("matmul", value("a", 3, 5, 70), weights(3, 70, 18)))
    for c, n, size, taps in ((3, 5, 9, 3), (48, 17, 8, 3), (1, 16, 7, 5), (33, 33, 6, 1), (80, 4, 5, 2)):
        x = pad(value("x", 1, c, size, size), 0, 0, (1, 1), (1, 1))
        yield f"conv {c}x{n}x{taps}", graph(transpose(conv(x, weights(n, c, taps, taps), 2), 0, 2, 3, 1))
    yield "large weights", graph(ops.node("matmul", value("a", 4, 96), weights(96, 12, scale=1e6)))
    yield "small weights", graph(ops.node("matmul", value("a", 4, 96), weights(96, 12, scale=1e-9)))
    columns = constant((RANDOM.standard_normal((70, 11)) * 10.0 ** np.arange(-5, 6)).astype(np.float32))
    yield "columns of all sizes", graph(ops.node("matmul", value("a", 6, 70), columns))
    yield "no weights", graph(ops.node("matmul", value("a", 6, 70), constant(np.zeros((70, 9), np.float32))))


def windows() -> Iterator[tuple[str, Graph]]:
    """One depthwise convolution each, whose operand lies in fp16 because a product made it; and what follows both."""
    for c, size, taps, step in ((8, 9, 3, 1), (5, 7, 3, 2), (20, 6, 5, 1), (12, 9, 2, 1), (16, 12, 3, 2)):
        x = ops.node("add", conv(value("x", 1, c, size, size), weights(c, c, 1, 1)), weights(c, 1, 1))
        padded = pad(ops.node("min", relu(x), number(6)), 0, 0, (1, 1), (1, 1))
        deep = conv(padded, weights(c, 1, taps, taps, scale=1 / taps), step, groups=c)
        last = conv(relu(ops.node("add", deep, weights(c, 1, 1))), weights(2 * c + 1, c, 1, 1))
        yield f"depthwise {c}x{size}x{taps}", graph(transpose(deep if step == 2 else last, 0, 2, 3, 1))


PRODUCTS, WINDOWS = dict(products()), dict(windows())
CASES = PRODUCTS | WINDOWS


def given(graph: Graph) -> dict[str, np.ndarray]:
    shapes = {n.attributes["name"]: n.type.shape for n in graph.inputs}
    return {name: RANDOM.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.fixture(params=["raspberry_pi_5", "cortex_a55"])
def arm(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Target:
    """A device that adds up fp16; small tensors lie in 16 bits too, and there are copies for small products."""
    need("qemu-aarch64", "qemu-user")
    need("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross")
    monkeypatch.setenv("CC", "aarch64-linux-gnu-gcc")
    monkeypatch.setattr(storage, "LEAST", 1)
    monkeypatch.setattr(storage, "WORTH_A_COPY", 0)
    where = target(request.param)
    return replace(where, device=replace(where.device, precision="fp16"))


def absolute(graph: Graph) -> Graph:
    """The same sums of the absolute values of constants."""
    return rewrite(
        graph, lambda n, args: constant(np.abs(n.value)) if n.is_const else intern(n.op, args, n.attributes, n.type)
    )


def off(name: str, got: dict[str, np.ndarray], inputs: dict[str, np.ndarray]) -> float:
    """The largest error of a result, of the sum of its products' absolute values."""
    g = CASES[name]
    wanted = evaluate.run(g, inputs)["y0"].astype(np.float64)
    most = evaluate.run(absolute(g), {port: np.abs(x) for port, x in inputs.items()})["y0"].astype(np.float64)
    assert np.isfinite(got["y0"]).all(), name
    return float((np.abs(got["y0"] - wanted) / np.where(most > 0, most, 1)).max())


def test_products_are_near_those_of_floats(arm: Target, tmp_path: Path) -> None:
    """On two threads, and on one alike within buffers; the greatest half is no reason for an infinite sum."""
    kernels = [k.main.schedule for g in CASES.values() for k in program_of(g, arm.device).kernels]
    found = [p.fp16 for p in kernels if isinstance(p, Contract)]
    assert len(found) > 25 and None not in found
    assert {h.is_whole for h in found if h is not None} == {True, False}
    assert [p.in_fp16 for p in kernels if isinstance(p, Window)] == [True] * len(WINDOWS)
    assert {p.end is None for p in (*found, *kernels) if isinstance(p, (Fp16Accumulation, Window))} == {True, False}
    inputs = {name: given(g) for name, g in CASES.items()}
    inputs["greatest"]["a"] = np.full((6, 95), 65504, np.float32)
    some = {name: g for k, (name, g) in enumerate(CASES.items()) if k % 3 == 0}
    shared = run_sanitized(CASES, inputs, tmp_path, arm, (), threads=2, emulator=EMULATOR)
    alone = run_sanitized(some, inputs, tmp_path, arm, ADDRESS, emulator=EMULATOR)
    for name, got in shared.items():
        assert off(name, got, inputs[name]) <= BOUND, name
        assert name not in alone or np.array_equal(got["y0"], alone[name]["y0"]), name


def test_exact_sums_are_of_floats() -> None:
    device = replace(target("raspberry_pi_5").device, precision="fp16")
    g = graph(ops.node("matmul", value("a", 64, 70), weights(70, 130)))
    ways = [schedule(plan(g), device, ScheduleOptions(numeric=numeric)) for numeric in ("reassociates", "exact")]  # type: ignore[arg-type]
    fp16 = [[k.schedule.fp16 for k in p.kernels if isinstance(k.schedule, Contract)] for p in ways]
    assert fp16[0] != [None] == fp16[1]

"""Blocks of weights as files have them, against numpy in fp64, and in no more bytes than in files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from chance import RANDOM
from compiled import Compiled, compile_graphs, program_of, target
from small_graphs import arrays, graph, value

from edgec import ops
from edgec.device.device import Device
from edgec.device.load import load_device
from edgec.fuse import plan
from edgec.ir.evaluate import run
from edgec.ir.graph import Graph, Node, constant
from edgec.ir.types import DTYPES
from edgec.rewrite.rule import Numeric
from edgec.schedule.build import schedule
from edgec.schedule.contract.few_bits import FewBits
from edgec.schedule.options import ScheduleOptions

N, K = 37, 512


def whole(low: int, high: int, dtype: str, *shape: int) -> Node:
    return constant(RANDOM.integers(low, high + 1, shape).astype(np.int16).astype(DTYPES[dtype]))


def real(dtype: str, *shape: int) -> Node:
    return constant((RANDOM.uniform(0.1, 1, shape) * RANDOM.choice([-1, 1], shape)).astype(DTYPES[dtype]))


def blocks(block: int, codes: Node, *numbers: Node) -> Node:
    return ops.node("dequantize", codes, *numbers, axis=1, block=block)


#: Formats, with the bits of a weight in a file.
FORMATS = {
    "Q8_0": (8.5, blocks(32, whole(-128, 127, "i8", N, K), real("f16", N, K // 32))),
    "Q4_0": (4.5, blocks(32, whole(-8, 7, "i4", N, K), real("f16", N, K // 32))),
    "Q4_1": (5.0, blocks(32, whole(0, 15, "u4", N, K), real("f16", N, K // 32), real("f16", N, K // 32))),
    "Q4_K": (
        4.625,  # its scales and offsets have six bits in a file, and eight here
        blocks(
            32,
            whole(0, 15, "u4", N, K),
            blocks(8, whole(0, 63, "u8", N, K // 32), real("f16", N, K // 256)),
            blocks(8, whole(0, 63, "u8", N, K // 32), real("f16", N, K // 256)),
        ),
    ),
    "Q6_K": (
        6.5625,
        blocks(
            16,
            whole(-32, 31, "i8", N, K),
            blocks(16, whole(-128, 127, "i8", N, K // 16), real("f16", N, K // 256)),
        ),
    ),
    "4 bits of 16": (4 + 2, blocks(16, whole(-8, 7, "i4", N, K), real("f32", N, K // 16))),
    "4 bits of 64 with zero points": (
        4 + 40 / 64,
        blocks(64, whole(0, 15, "u4", N, K), real("f32", N, K // 64), whole(0, 15, "u4", N, K // 64)),
    ),
    "4 bits of 256": (4 + 1 / 8, blocks(256, whole(0, 15, "u4", N, K), real("f32", N, K // 256))),
    "8 bits of 128 with zero points": (
        8 + 40 / 128,
        blocks(128, whole(0, 255, "u8", N, K), real("f32", N, K // 128), whole(0, 255, "u8", N, K // 128)),
    ),
    "8 bits of 32": (9, blocks(32, whole(0, 255, "u8", N, K), real("f32", N, K // 32))),
}


def product(rows: int, weights: Node) -> Graph:
    return graph(ops.node("matmul", value("a", rows, K), ops.node("transpose", weights, perm=(1, 0))))


CASES = {f"{name}, {m} rows": product(m, w) for name, (_, w) in FORMATS.items() for m in (1, 9)}
GIVEN = {name: arrays(g, 3) for name, g in CASES.items()}


def exact(name: str) -> np.ndarray:
    """The product in fp64."""
    (weights,) = run(Graph((), (("w", FORMATS[name.partition(",")[0]][1]),)), {}).values()
    return GIVEN[name]["a"].astype(np.float64) @ weights.astype(np.float64).T


def test_panels_are_no_larger_than_files() -> None:
    for name, (bits, weights) in FORMATS.items():
        (kernel,) = program_of(product(1, weights)).kernels
        found = kernel.schedule
        assert isinstance(found, FewBits) and found.packed is not None, name
        columns = found.panels * found.width
        assert found.packed.bytes * 8 <= bits * columns * K, name


@pytest.mark.parametrize("numeric", ["exact", "reassociates", "approximates"])
def test_kernels_say_what_they_multiply(numeric: Numeric) -> None:
    plan_of = plan(CASES["Q4_0, 1 rows"])
    (kernel,) = schedule(plan_of, load_device("x86_64_avx2"), ScheduleOptions(numeric=numeric)).kernels
    said = {"exact": "times fp32", "reassociates": "times 23-bit integers", "approximates": "times 8-bit integers"}
    assert said[numeric] in kernel.describe


@pytest.mark.parametrize("device", ["host", "generic", "x86_64_avx2"])
def test_every_format_in_c(device: str, tmp_path: Path) -> None:
    where = target(device)
    some = CASES if device == "host" else dict(list(CASES.items())[:: 1 if device == "x86_64_avx2" else 3])
    for name, network in compile_graphs(some, tmp_path, True, where.flags, where.device).items():
        assert isinstance(network, Compiled)
        (got,) = network(GIVEN[name]).values()
        want = exact(name)
        tolerance = 1e-5 if on_matrix_unit(CASES[name], where.device) else 3e-6
        assert np.abs(got - want).max() <= tolerance * np.abs(want).max(), (name, np.abs(got - want).max())


def on_matrix_unit(g: Graph, device: Device) -> bool:
    """Is its product computed in parts of bf16, which are nearly as exact as fp32?"""
    (kernel,) = schedule(plan(g), device, ScheduleOptions()).kernels
    return kernel.schedule.uses_tiles


def tied(weights: Node) -> Graph:
    """Rows of a table, and the product by all of its rows."""
    row = ops.node("gather", weights, value("i", 3, dtype="i64"), axis=0)
    scores = ops.node("matmul", value("a", 2, K), ops.node("transpose", weights, perm=(1, 0)))
    return graph(row, scores)


@pytest.mark.parametrize("device", ["host", "x86_64_avx2"])
def test_a_tied_table_is_stored_once(device: str, tmp_path: Path) -> None:
    where = target(device)
    graphs = {name: tied(FORMATS[name][1]) for name in ("Q8_0", "Q4_1", "Q4_K", "Q6_K")}
    for name, network in compile_graphs(graphs, tmp_path, True, where.flags, where.device).items():
        assert isinstance(network, Compiled)
        given = {"i": np.array([0, N - 1, 20]), "a": RANDOM.standard_normal((2, K)).astype(np.float32)}
        for port, want in run(graphs[name], given).items():
            assert np.abs(network(given)[port] - want).max() <= 3e-6 * np.abs(want).max(), name
        codes = FORMATS[name][1].args[0]
        assert all(b.bytes != codes.type.bytes for k in program_of(graphs[name], where.device).kernels for b in k.reads)

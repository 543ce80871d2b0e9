"""Many rows by weights of few bits on the matrix unit: when it is used, its memory, and its results."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from compiled import Compiled, compile_graphs, target
from sanitized import ADDRESS, run_sanitized
from small_graphs import arrays, gelu, graph, value
from test_few_bits import coded

from edgec import ops
from edgec.device.device import Device
from edgec.device.load import load_device
from edgec.emit.project import files
from edgec.fuse import plan
from edgec.ir import evaluate
from edgec.ir.graph import Graph
from edgec.rewrite.rule import Numeric
from edgec.schedule.build import schedule
from edgec.schedule.contract.few_bits import FewBits
from edgec.schedule.contract.matrix_unit import LEFT_BYTES, NEEDED, PARTS, RIGHT_BYTES, matrix_unit
from edgec.schedule.options import ScheduleOptions

#: Rows, length of the sum, columns and group: whole and broken blocks, last columns in one vector and in part of one,
#: several tasks of rows, several slabs, groups of half a step and of many.
SHAPES = (
    (8, 64, 17, 32), (9, 64, 33, 16), (31, 96, 49, 32), (33, 64, 64, 64), (47, 512, 40, 32), (64, 768, 32, 256),
    (129, 32, 48, 16), (300, 64, 31, 32), (7, 64, 48, 32), (40, 48, 48, 16), (40, 64, 16, 32),
)  # fmt: skip
ON_UNIT = SHAPES[:8]


def with_unit() -> Device:
    """A CPU with a matrix unit, whatever this one has."""
    device = load_device("x86_64_avx512")
    return replace(device, instruction_sets=tuple(dict.fromkeys((*device.instruction_sets, *NEEDED))))


def cases() -> dict[str, Graph]:
    found = {}
    for m, k, n, group in SHAPES:
        for is_symmetric in (True, False):
            product = ops.node("matmul", value("a", m, k), coded(k, n, group, is_symmetric))
            found[f"{m}x{k}x{n} of {group} {is_symmetric}"] = graph(gelu(product))
    batch = ops.node("matmul", value("a", 3, 12, 64), coded(64, 40, 32, batch=(3,)))
    return {
        **found,
        "batch": graph(batch),
        "shared": graph(ops.node("matmul", value("a", 3, 12, 64), coded(64, 40, 32))),
    }


CASES = cases()
GIVEN = {name: arrays(g, 7) for name, g in CASES.items()}


def unit_of(g: Graph, numeric: Numeric = "reassociates") -> FewBits:
    (kernel,) = schedule(plan(g), with_unit(), ScheduleOptions(numeric=numeric)).kernels
    assert isinstance(kernel.schedule, FewBits)
    return kernel.schedule


def test_rows_decide() -> None:
    for m, k, n, group in SHAPES:
        found = unit_of(CASES[f"{m}x{k}x{n} of {group} True"])
        assert found.uses_tiles == ((m, k, n, group) in ON_UNIT), (m, k, n, group)
        assert found.unit is None or found.scratch_bytes >= found.unit.scratch_bytes
    assert unit_of(CASES["33x64x64 of 64 True"], "exact").unit is None
    assert unit_of(CASES["33x64x64 of 64 True"], "approximates").unit != unit_of(CASES["33x64x64 of 64 True"]).unit


def test_other_devices_have_none() -> None:
    device = with_unit()
    for name in NEEDED:
        without = replace(device, instruction_sets=tuple(s for s in device.instruction_sets if s != name))
        assert matrix_unit(without, "reassociates", 64, 64, 32) is None
    assert matrix_unit(replace(device, precision="bf16"), "reassociates", 64, 64, 32) is None
    assert matrix_unit(device, "reassociates", 64, 64, 32) is not None


@pytest.mark.parametrize("length", [32, 768, 2048, 8192, 1 << 15])
def test_memory_is_bounded(length: int) -> None:
    for whole in (w for w in (16, 32, 256) if w <= length):
        found = matrix_unit(with_unit(), "reassociates", 4096, length, whole)
        assert found is not None and found.slab % whole == 0 and found.rows % 32 == 0
        assert found.left_bytes <= max(LEFT_BYTES, 32 * length * 2 * found.parts)
        assert found.right_bytes <= max(RIGHT_BYTES, max(32, whole) * 2 * found.parts * 32)


def test_only_networks_with_tiles_ask_for_them() -> None:
    for name, asks in (("33x64x64 of 64 True", True), ("7x64x48 of 32 True", False)):
        program = schedule(plan(CASES[name]), with_unit(), ScheduleOptions())
        assert (b"#define EC_USES_TILES" in files(program, with_unit(), "net")["net.c"]) == asks


@pytest.mark.parametrize("parts, tolerance", [(3, 1e-6), (1, 2e-2)])
def test_in_c(parts: int, tolerance: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PARTS, "reassociates", parts)
    where = target("host")
    for name, network in compile_graphs(CASES, tmp_path, True, where.flags, where.device).items():
        assert isinstance(network, Compiled)
        alone = network(GIVEN[name])
        for port, want in evaluate.run(CASES[name], GIVEN[name]).items():
            assert np.abs(alone[port] - want).max() <= tolerance * np.abs(want).max(), name
        assert all(np.array_equal(alone[p], y) for p, y in network(GIVEN[name], 2).items()), name


def test_stays_inside_its_buffers(tmp_path: Path) -> None:
    for name, got in run_sanitized(CASES, GIVEN, tmp_path, target("host"), ADDRESS).items():
        for port, want in evaluate.run(CASES[name], GIVEN[name]).items():
            assert np.abs(got[port] - want).max() <= 1e-5 * np.abs(want).max(), name

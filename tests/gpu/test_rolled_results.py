"""Results with many operations after a wide tile of groups of four warps: a loop finishes them, in emulation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from chance import SEED
from emulated import Emulated, emulate
from integer_cases import bytes_of, scales, wide
from small_graphs import arrays, graph, number, to_bytes, value, weights

from edgec import ops
from edgec.device.device import Device
from edgec.device.load import load_device
from edgec.fuse import plan
from edgec.ir import evaluate
from edgec.ir.graph import Graph, Node
from edgec.schedule.build import schedule
from edgec.schedule.gpu import tiles as gpu_tiles
from edgec.schedule.gpu.contract import GpuContract
from edgec.schedule.gpu.results import is_rolled
from edgec.schedule.gpu.tile import TensorTile
from edgec.schedule.gpu.tile_cycles import cycles
from edgec.schedule.options import ScheduleOptions


def _device() -> Device:
    return replace(load_device("cuda_sm90"), precision="fp16")


def _gelu(x: Node) -> Node:
    return ops.node("mul", x, ops.node("add", ops.node("erf", ops.node("mul", x, number(0.7))), number(1.0)))


def _of_bytes(m: int, n: int, k: int) -> Graph:
    sums = ops.node("matmul", wide(value("s", m, k, dtype="u8")), wide(bytes_of(k, n, dtype="i8")))
    made = ops.node("mul", ops.node("cast", sums, to="f32"), scales(n))
    return graph(to_bytes(_gelu(ops.node("mul", made, number(5e-3))), zero=15.0))


def _of_halves(m: int, n: int, k: int) -> Graph:
    made = _gelu(_gelu(ops.node("matmul", ops.node("tanh", value("x", m, k)), weights(k, n))))
    return graph(ops.node("matmul", made, weights(n, 256)))


def _only(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setattr(gpu_tiles, "offers", lambda *_: iter(()))
    monkeypatch.setattr(gpu_tiles, "GROUP_SHAPES", ((64, columns), (128, columns)))
    monkeypatch.setattr(gpu_tiles, "SPLITS", (1,))


@pytest.mark.parametrize("made", [_of_bytes(201, 384, 160), _of_bytes(64, 200, 96), _of_bytes(130, 256, 64)])
def test_bytes_are_those_of_the_formulas(made: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error function is coarse: few results lie so near the middle of two bytes that they are the other."""
    _only(monkeypatch, 192)
    (kernel,) = schedule(plan(made, gpu=True), _device(), ScheduleOptions(fp32_blocks=0)).kernels
    assert isinstance(kernel.schedule, GpuContract)
    assert is_rolled(kernel.schedule.tile, kernel.schedule.operations)
    network = emulate({"net": made}, tmp_path, _device())["net"]
    assert isinstance(network, Emulated)
    assert sum("in a loop: side by side" in path.read_text() for path in tmp_path.glob("*kernels*.cu")) == 1
    given = arrays(made, SEED)
    (want,), (got,) = evaluate.run(made, given).values(), network(given).values()
    off = np.abs(got.astype(int) - want.astype(int))
    assert np.ptp(want.astype(int)) > 20 and off.max() <= 1 and (off > 0).mean() < 0.01


def test_halves_are_those_of_the_formulas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = _of_halves(131, 256, 64)
    _only(monkeypatch, 256)
    network = emulate({"net": made}, tmp_path, _device())["net"]
    assert isinstance(network, Emulated)
    assert sum("in a loop: side by side" in path.read_text() for path in tmp_path.glob("*kernels*.cu")) == 1
    given = arrays(made, SEED)
    (want,), (got,) = evaluate.run(made, given).values(), network(given).values()
    assert np.abs(got - want).max() <= 4e-3 * np.abs(want).max()


def test_operations_are_in_the_price() -> None:
    """Of two tiles with as many thread blocks as there are multiprocessors, the larger one has more to finish."""
    for tile in gpu_tiles.group_offers(3136, 384, 96, _device(), "f16", True):
        plain, busy = (cycles(tile, 1, 3136, 384, 96, _device(), operations=n) for n in (0.0, 30.0))
        results = tile.m * tile.n / tile.threads
        assert isinstance(tile, TensorTile) and busy - plain >= results * 30 * 0.5


def test_few_operations_stay_in_registers() -> None:
    sums = ops.node("matmul", wide(value("s", 128, 64, dtype="u8")), wide(bytes_of(64, 256, dtype="i8")))
    made = graph(ops.node("mul", ops.node("cast", sums, to="f32"), scales(256)))
    (kernel,) = schedule(plan(made, gpu=True), _device(), ScheduleOptions(fp32_blocks=0)).kernels
    assert isinstance(kernel.schedule, GpuContract)
    assert kernel.schedule.operations <= 4 and not is_rolled(kernel.schedule.tile, kernel.schedule.operations)

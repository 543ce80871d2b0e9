"""Products of int8 and uint8 by groups of four warps, in emulation: both signs of factors, zero points, odd sizes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from chance import SEED
from emulated import Emulated, emulate, nvcc
from integer_cases import bias, bytes_of, scales, wide
from small_graphs import arrays, conv, graph, pad, transpose, value

from edgec import ops
from edgec.device.cuda import compile_cuda
from edgec.device.device import Device
from edgec.device.load import load_device
from edgec.emit.project import files
from edgec.fuse import plan
from edgec.ir import evaluate
from edgec.ir.graph import Graph, Node
from edgec.schedule.build import schedule
from edgec.schedule.gpu import tiles as gpu_tiles
from edgec.schedule.gpu.contract import GpuContract
from edgec.schedule.gpu.tile import TensorTile
from edgec.schedule.options import ScheduleOptions
from edgec.schedule.program import Program


@pytest.fixture
def groups_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other tiles are on offer, however small a product is."""
    monkeypatch.setattr(gpu_tiles, "offers", lambda *_: iter(()))


def _device(multiprocessors: int, capability: int = 90) -> Device:
    device = load_device("cuda_sm90")
    gpu = replace(device.gpu, multiprocessors=multiprocessors, compute_capability=capability)
    return replace(device, precision="fp16", gpu=gpu)


def _finished(sums: Node, columns: int, more: Node | None = None) -> Graph:
    """Sums with an integer bias, as floats with a scale for each column, and another value added."""
    made = ops.node("cast", ops.node("add", sums, bias(columns)), to="f32")
    made = ops.node("mul", made, scales(columns))
    return graph(made if more is None else ops.node("add", made, more))


def _of_weights(m: int, n: int, k: int, kinds: tuple[str, str], adds: bool = False) -> Graph:
    sums = ops.node("matmul", wide(value("s", m, k, dtype=kinds[0])), wide(bytes_of(k, n, dtype=kinds[1])))
    return _finished(sums, n, value("r", m, n) if adds else None)


def _of_values(m: int, n: int, k: int, kinds: tuple[str, str]) -> Graph:
    s, l = value("s", m, k, dtype=kinds[0]), value("l", n, k, dtype=kinds[1])
    return _finished(ops.node("matmul", wide(s), transpose(wide(l), 1, 0)), n)


def _convolved(channels: int, to: int) -> Graph:
    """A convolution, channels last, padded with ``to``."""
    x = pad(transpose(value("s", 1, 12, 12, channels, dtype="u8"), 0, 3, 1, 2), 1, 1, to=to)
    made = conv(wide(x), wide(bytes_of(128, channels, 3, 3)))
    return _finished(transpose(made, 0, 2, 3, 1), 128)


CASES = {
    "weights": _of_weights(128, 256, 512, ("i8", "i8")),
    "uint8 and weights, odd sizes": _of_weights(201, 301, 656, ("u8", "i8")),
    "uint8 weights, 192 columns": _of_weights(130, 192, 512, ("i8", "u8"), adds=True),
    "a sum whose pieces are no whole copies": _of_weights(129, 130, 521, ("u8", "u8"), adds=True),
    "a long sum": _of_weights(128, 128, 2100, ("i8", "i8")),
    "values": _of_values(131, 257, 528, ("i8", "u8")),
    "values of uint8": _of_values(128, 192, 640, ("u8", "u8")),
    "a convolution": _convolved(64, 131),
    "a convolution of odd channels": _convolved(60, 7),
}


def _program(made: Graph, device: Device) -> Program:
    return schedule(plan(made, gpu=True), device, ScheduleOptions(fp32_blocks=0))


def _tiles(program: Program) -> list[TensorTile]:
    found = [k.schedule.tile for k in program.kernels if isinstance(k.schedule, GpuContract)]
    return [t for t in found if isinstance(t, TensorTile)]


@pytest.mark.usefixtures("groups_alone")
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("multiprocessors", [1, 5])
def test_products_are_those_of_the_formulas(name: str, multiprocessors: int, tmp_path: Path) -> None:
    device, made = _device(multiprocessors), CASES[name]
    tiles = _tiles(_program(made, device))
    assert tiles and all(t.by_group and t.element == "s8" for t in tiles)
    network = emulate({"net": made}, tmp_path, device)["net"]
    assert isinstance(network, Emulated)
    given = arrays(made, SEED)
    want = evaluate.run(made, given)
    for port, got in network(given).items():
        assert np.abs(got - want[port]).max() <= 1e-6 * np.abs(want[port]).max(), port


def test_tiles_are_of_one_generation_and_fill_the_device() -> None:
    large = _of_weights(4096, 4096, 1024, ("i8", "i8"))
    assert [t.by_group for t in _tiles(_program(large, _device(132)))] == [True]
    for capability in (80, 100):
        assert not any(t.by_group for t in _tiles(_program(large, _device(132, capability))))


@pytest.mark.usefixtures("groups_alone")
@pytest.mark.parametrize("kinds", [("i8", "i8"), ("u8", "i8"), ("i8", "u8"), ("u8", "u8")])
def test_instructions_are_known_to_nvcc(kinds: tuple[str, str], tmp_path: Path) -> None:
    device = _device(1)
    compiler = nvcc(device)
    written = files(_program(_of_weights(256, 192, 512, kinds), device), device, "net")
    for path, content in written.items():
        if path.endswith((".cu", ".h")):
            (tmp_path / path).write_bytes(content)
    sources = [tmp_path / path for path in written if path.endswith(".cu") and "kernels" in path]
    reports = compile_cuda(compiler, device, sources, tmp_path / "all.so", link=False)
    assert any(r.name.endswith("contract_group") for r in reports)
    assert [r for r in reports if r.spill_bytes] == []

"""Products by groups of four warps, in emulation: every order of both factors, sizes around tiles, sums in parts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from chance import SEED
from emulated import Emulated, emulate
from small_graphs import arrays, doubled, graph, number, transpose, value, weights

from edgec import ops
from edgec.device.device import Device
from edgec.device.load import load_device
from edgec.fuse import plan
from edgec.ir import evaluate
from edgec.ir.graph import Graph, Node
from edgec.schedule.build import schedule
from edgec.schedule.gpu import tiles as gpu_tiles
from edgec.schedule.gpu.contract import GpuContract
from edgec.schedule.gpu.tile import TensorTile
from edgec.schedule.gpu.tile_cycles import cycles
from edgec.schedule.options import ScheduleOptions


@pytest.fixture
def groups_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other tiles are on offer, however small a product is."""
    monkeypatch.setattr(gpu_tiles, "offers", lambda *_: iter(()))


def _device(multiprocessors: int, precision: str = "fp16") -> Device:
    device = load_device("cuda_sm90")
    return replace(device, precision=precision, gpu=replace(device.gpu, multiprocessors=multiprocessors))


def _stored(name: str, *shape: int) -> Node:
    """A value that another kernel leaves in halves."""
    return ops.node("mul", value(name, *shape), number(0.5))


def _product(m: int, n: int, k: int, turns: str = "", epilogue: bool = False) -> Graph:
    s = transpose(_stored("s", k, m), 1, 0) if "s" in turns else _stored("s", m, k)
    l = _stored("l", k, n) if "l" in turns else transpose(_stored("l", n, k), 1, 0)
    made = ops.node("matmul", s, l)
    if epilogue:
        made = ops.node("max", ops.node("add", made, value("b", n)), number(0.0))
        made = ops.node("add", made, _stored("r", m, n))
    return graph(made)


def _tiles(g: Graph, device: Device) -> list[TensorTile]:
    program = schedule(plan(g, gpu=True), device, ScheduleOptions(fp32_blocks=0))
    found = [k.schedule.tile for k in program.kernels if isinstance(k.schedule, GpuContract)]
    return [t for t in found if isinstance(t, TensorTile)]


def _results(g: Graph, device: Device, folder: Path) -> list[tuple[np.ndarray, np.ndarray]]:
    """(result in emulation, that of the formulas in fp64) of every output."""
    network = emulate({"net": g}, folder, device)["net"]
    assert isinstance(network, Emulated)
    given = arrays(g, SEED)
    want = evaluate.run(doubled(g), {k: v.astype(np.float64) for k, v in given.items()})
    found = [(got, want[port]) for port, got in network(given).items()]
    assert found
    return found


CASES = {
    "rows and columns": _product(128, 256, 256),
    "s turned": _product(128, 256, 256, "s"),
    "l turned": _product(256, 128, 320, "l"),
    "both turned": _product(136, 264, 264, "sl"),
    "odd sizes": _product(201, 301, 299),
    "odd sizes turned": _product(201, 301, 299, "sl"),
    "pieces of 8 bytes": _product(132, 260, 260, "sl", epilogue=True),
    "a long sum": _product(128, 128, 1100, "l", epilogue=True),
    "an epilogue": _product(130, 272, 256, "", epilogue=True),
    "192 columns": _product(128, 192, 256, epilogue=True),
    "192 columns, turned": _product(130, 380, 260, "sl"),
}


@pytest.mark.usefixtures("groups_alone")
@pytest.mark.parametrize("name", CASES)
def test_products_are_those_of_the_formulas(name: str, tmp_path: Path) -> None:
    device, made = _device(1), CASES[name]
    tiles = _tiles(made, device)
    assert tiles and all(t.by_group for t in tiles)
    for got, want in _results(made, device, tmp_path):
        assert np.abs(got - want).max() <= 2e-3 * np.abs(want).max()


def _product_of_weights(m: int, n: int, k: int, turned: bool = False, epilogue: bool = False) -> Graph:
    s = transpose(_stored("s", k, m), 1, 0) if turned else _stored("s", m, k)
    made = ops.node("matmul", s, weights(k, n))
    if epilogue:
        made = ops.node("max", ops.node("add", made, value("b", n)), number(0.0))
        made = ops.node("add", made, _stored("r", m, n))
    return graph(made)


BY_WEIGHTS = {
    "stored tile by tile": _product_of_weights(128, 256, 256),
    "odd sizes": _product_of_weights(201, 301, 299),
    "turned": _product_of_weights(201, 301, 299, True),
    "turned, pieces of 16 bytes": _product_of_weights(136, 256, 264, True),
    "192 columns": _product_of_weights(130, 192, 100, epilogue=True),
    "32 columns": _product_of_weights(70, 32, 90, epilogue=True),
    "a sum in parts": _product_of_weights(128, 128, 2048, epilogue=True),
}


@pytest.mark.usefixtures("groups_alone")
@pytest.mark.parametrize("name", BY_WEIGHTS)
def test_tf32_rounds_what_it_multiplies(name: str, tmp_path: Path) -> None:
    device, made = _device(5, "tf32"), BY_WEIGHTS[name]
    tiles = _tiles(made, device)
    assert tiles and all(t.by_group and t.element == "tf32" for t in tiles)
    assert any(t.split > 1 for t in tiles) == (name == "a sum in parts")
    for got, want in _results(made, device, tmp_path):
        error = got - want
        assert np.abs(error).max() <= 1e-3 * np.abs(want).max()
        smaller = (error * want).sum() / (want**2).sum()
        assert abs(smaller) <= 1e-4  # results are 3.5e-4 smaller where a factor's bits are dropped, not rounded


@pytest.mark.usefixtures("groups_alone")
@pytest.mark.parametrize("precision, depth", [("fp16", 2112), ("tf32", 1152)])
def test_parts_of_a_sum_may_have_no_steps(
    precision: str, depth: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 33 or 36 rounds in 16 parts, the last parts have none."""
    monkeypatch.setattr(gpu_tiles, "SPLITS", (16,))
    device, made = _device(132, precision), _product_of_weights(64, 64, depth, epilogue=True)
    assert [t.split for t in _tiles(made, device)] == [16]
    for got, want in _results(made, device, tmp_path):
        assert np.abs(got - want).max() <= 2e-3 * np.abs(want).max()


@pytest.mark.usefixtures("groups_alone")
@pytest.mark.parametrize("turns", ["", "sl"])
def test_tiles_of_192_columns_are_taken_where_they_fill_the_device(turns: str) -> None:
    """Twelve by eight of them, where six of 256 columns would leave half of it without work."""
    assert [t.n for t in _tiles(_product(1500, 1536, 384, turns), _device(132))] == [192]


@pytest.mark.usefixtures("groups_alone")
def test_sums_come_in_parts_where_tiles_are_few(tmp_path: Path) -> None:
    made, device = _product(128, 256, 2048, "sl"), _device(5)
    assert [(t.by_group, t.split > 1) for t in _tiles(made, device)] == [(True, True)]
    for got, want in _results(made, device, tmp_path):
        assert np.abs(got - want).max() <= 2e-3 * np.abs(want).max()


def test_few_rows_other_types_and_other_generations_have_tiles_of_warps() -> None:
    large = _product(512, 512, 512)
    assert all(t.by_group for t in _tiles(large, _device(132)))
    assert not any(t.by_group for t in _tiles(_product(32, 512, 512), _device(2)))
    for precision in ("fp32", "tf32"):
        assert not any(t.by_group for t in _tiles(large, _device(2, precision)))
    constant = _product_of_weights(512, 512, 512)
    assert all(t.by_group for t in _tiles(constant, _device(2, "tf32")))
    assert not any(t.by_group for t in _tiles(constant, _device(2, "fp32")))
    for capability in (80, 100):
        device = _device(2)
        older = replace(device, gpu=replace(device.gpu, compute_capability=capability))
        assert not any(t.by_group for t in _tiles(large, older))


def test_clusters_that_have_no_room_wait_for_others() -> None:
    """Eight parts of 16 multiprocessors with a thread block each have room for two clusters of six, four of four."""
    device = _device(132)
    tile = TensorTile(128, 128, 64, 8, 1, 1, 4, 1, "f16", whole=True, by_group=True)
    assert device.largest_shared_bytes // tile.shared_bytes == 1

    def of(split: int, tiles: int) -> float:
        return cycles(replace(tile, split=split), 1, 128, 128 * tiles, 4608, device)

    for split, at_once in ((6, 15), (4, 30)):
        assert 1.5 < of(split, at_once + 1) / of(split, at_once) < 2.0
        assert of(split, at_once) == of(split, 1)

"""Fitted costs: tables of device files, inherited number by number; hostile ones are refused."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import get_type_hints

import pytest

from edgec.device.costs import Costs, root_table, usual_costs
from edgec.device.load import list_devices, load_device
from edgec.errors import DeviceError
from edgec.fuse import plan
from edgec.fuse.cost_model import CostModel
from edgec.schedule.gpu.tiles import tiles_for
from edgec.schedule.thread_count import thread_count
from tests.convnet import convnet

MINIMAL = 'description = "d"\narch = "aarch64"\n'


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / f"{name}.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_root_has_every_number() -> None:
    tables = {name: set(get_type_hints(record)) for name, record in get_type_hints(Costs).items()}
    assert tables == {name: set(table) for name, table in root_table().items()}
    assert asdict(usual_costs()) == root_table()


def test_costs_are_inherited_number_by_number(tmp_path: Path) -> None:
    write(tmp_path, "old", MINIMAL + "[costs.threads]\nwake = 7\nbarrier = 8.5\n")
    write(tmp_path, "new", 'base = "old"\n[costs.threads]\nbarrier = 9\n[costs.sparse]\nindex = 1\n')
    usual, found = usual_costs(), load_device("new", [tmp_path]).costs
    assert found.threads == replace(usual.threads, wake=7.0, barrier=9.0)
    assert found.sparse == replace(usual.sparse, index=1.0)
    assert (found.kernel, found.gpu, found.tensor_tile) == (usual.kernel, usual.gpu, usual.tensor_tile)
    probing = write(tmp_path, "here", "probe = true\n[costs.threads]\nwake = 5\n")
    assert load_device(probing).costs.threads.wake == 5.0


def test_files_with_an_underscore_are_no_devices(tmp_path: Path) -> None:
    write(tmp_path, "_half", MINIMAL)
    assert not any(device.name.startswith("_") for device in list_devices([tmp_path]))


@pytest.mark.parametrize(
    "text, said",
    [
        ("costs = 3", "must be tables"),
        ("[costs]\nwake = 3", "must be tables"),
        ("[costs]\nwake = 3\n[costs.threads]\nbarrier = 3", "must be tables"),
        ("[costs.thread]\nwake = 3", "did you mean 'threads'"),
        ("[costs.threads]\nbarriers = 3", "did you mean 'barrier'"),
        ("[costs.threads]\nbarrier = 0", "'costs.threads.barrier' must be a number"),
        ("[costs.threads]\nbarrier = -1", "must be a number"),
        ("[costs.threads]\nbarrier = true", "must be a number"),
        ('[costs.threads]\nbarrier = "1"', "must be a number"),
        ("[costs.threads]\nbarrier = inf", "must be a number"),
        ("[costs.threads]\nbarrier = nan", "must be a number"),
        ("[costs.threads]\nbarrier = 1e300", "must be a number"),
        ("[costs.threads]\nbarrier = 1e-300", "must be a number"),
        ("[costs.sparse]\nfar_bytes = 0", "must be a number"),
        ("[costs.tensor_tile]\ncopy = -0.5", "must be a number"),
        ("[costs.threads.barrier]\nof = 3", "must be a number"),
    ],
)
def test_hostile_costs_are_refused(text: str, said: str, tmp_path: Path) -> None:
    path = write(tmp_path, "bad", MINIMAL + text)
    with pytest.raises(DeviceError) as caught:
        load_device(path)
    assert said in str(caught.value) and str(path) in str(caught.value)


def test_what_may_cost_nothing(tmp_path: Path) -> None:
    path = write(tmp_path, "free", MINIMAL + "[costs.tensor_tile]\ncopy = 0\nbulk_start = 0\n")
    assert load_device(path).costs.tensor_tile.copy == 0.0


def test_costs_decide() -> None:
    """Kernels, threads and tiles each follow a number of their device."""
    import edgec

    graph = edgec.load(convnet()).graph
    host = load_device("x86_64_avx2")
    planned = plan(graph)
    block = planned.blocks[0]
    slow = replace(host, costs=replace(host.costs, kernel=replace(host.costs.kernel, launch_s=1.0)))
    assert CostModel(slow)(block) > 1.0 > CostModel(host)(block)
    free = replace(host.costs.threads, wake=1e-3, barrier=1e-3)
    assert thread_count(planned, host, 2) == 1
    assert thread_count(planned, replace(host, costs=replace(host.costs, threads=free)), 2) == 2
    gpu = load_device("cuda_sm90")
    dear = replace(gpu.costs.tensor_tile_fp32, split=1e9, cluster=1e9)
    whole = replace(gpu, costs=replace(gpu.costs, tensor_tile_fp32=dear))
    assert tiles_for(1, 196, 256, 2304, gpu, "", False)[0].split > 1
    assert tiles_for(1, 196, 256, 2304, whole, "", False)[0].split == 1

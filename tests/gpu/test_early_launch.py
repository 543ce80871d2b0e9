"""Small maps and reductions start the next kernel early; networks that have not run yet have no times."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_graphs import graph, layernorm, number, value
from small_models import model, node, tensor_input

import edgec
from edgec import ops
from edgec.device.device import Device
from edgec.device.load import load_device
from edgec.emit.project import files
from edgec.fuse import plan
from edgec.schedule.build import schedule
from edgec.schedule.gpu.loops import GpuMap, GpuReduce
from edgec.schedule.options import ScheduleOptions
from edgec.schedule.program import Program


def _device(multiprocessors: int = 132, capability: int = 90) -> Device:
    device = load_device("cuda_sm90")
    gpu = replace(device.gpu, multiprocessors=multiprocessors, compute_capability=capability)
    return replace(device, gpu=gpu)


def _program(rows: int, device: Device) -> Program:
    x = value("x", rows, 768)
    return schedule(plan(graph(layernorm(x, 1), ops.node("mul", x, number(2.0))), gpu=True), device, ScheduleOptions())


def _started(rows: int, device: Device) -> list[bool]:
    records = [step.schedule for k in _program(rows, device).kernels for step in k.steps]
    loops = [r for r in records if isinstance(r, (GpuMap, GpuReduce))]
    assert loops
    return [r.starts_next for r in loops]


def test_loops_of_a_thread_block_a_multiprocessor_start_the_next_kernel() -> None:
    assert all(_started(128, _device()))
    assert not any(_started(8192, _device()))
    assert not any(_started(128, _device(multiprocessors=4)))
    assert not any(_started(128, _device(capability=80)))


def test_the_next_kernel_starts_when_this_one_has_waited() -> None:
    device = _device()
    sources = [c.decode() for path, c in files(_program(128, device), device, "net").items() if "kernels_" in path]
    assert "".join(sources).count("ec_wait();\n  ec_let_next();\n") == 2


def test_a_network_that_has_not_run_has_no_times(tmp_path: Path) -> None:
    made = model([node("Relu", ["x"], ["y"])], [tensor_input("x", [4, 256])])
    built = edgec.build(made, tmp_path / "net", device="jetson", compiler="emulated")
    with pytest.raises(RuntimeError, match="run the network first"):
        built.network.profile()
    built.network.run({"x": np.zeros((4, 256), np.float32)})
    assert len(built.network.profile()) == built.kernels

"""Decisions of the planner and the scheduler for the graphs of the kernel tests, on devices of every family.

A line of ``decisions/GROUP.txt`` has a graph, a device, the schedules of its kernels, the bytes of the arena, of
weights and of scratch memory, and a checksum of the whole program as text. Results of kernels are right with most
decisions; that one changed shows here alone. ``pytest tests/golden --update-golden`` writes the lines; look at those
that changed before they are committed (``edgec.schedule.text.write_program`` prints all that the checksum covers).
"""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pytest
from chance import RANDOM
from kernel_cases import GROUPS

from edgec.device.load import load_device
from edgec.errors import EdgecError
from edgec.fuse import plan
from edgec.ir.graph import Graph
from edgec.schedule.build import schedule
from edgec.schedule.gpu.attention import largest_head
from edgec.schedule.options import ScheduleOptions
from edgec.schedule.text import write_program

FOLDER = Path(__file__).with_name("decisions")
#: Each graph is built for one of either.
CPUS = ("x86_64_avx512", "neoverse_v1", "cortex_m55", "cortex_a55", "x86_64_avx2", "riscv64_rvv", "cortex_m4")
GPUS = ("cuda_sm90", "generic_opencl", "jetson_orin_nano", "cuda_sm86", "adreno_740")
NUMERICS = ("reassociates", "approximates", "exact")


def decided(name: str, graph: Graph, device_name: str, k: int) -> str:
    """The line of a graph on a device; ``k`` chooses the options that it is built with."""
    device = load_device(device_name)
    options = ScheduleOptions(1 + k % 2 * 3, numeric=NUMERICS[k % 3], in_levels=k % 2 == 1)
    try:
        program = schedule(plan(graph, gpu=device.is_gpu, head=largest_head(device)), device, options)
    except EdgecError as error:
        return f"{name} | {device_name} | {error.message}".replace("\n", " ")
    kernels = " ".join(type(kernel.schedule).__name__ for kernel in program.kernels)
    memory = f"{program.arena_bytes} {program.weights_bytes} {program.scratch_bytes}"
    checksum = zlib.crc32(write_program(program).text.encode())
    return f"{name} | {device_name} | {kernels} | {memory} | {checksum:08x}"


@pytest.mark.parametrize("group", GROUPS)
def test_decisions(group: str, update_golden: bool) -> None:
    RANDOM.bit_generator.state = np.random.default_rng(1).bit_generator.state
    lines = []
    for k, (name, graph) in enumerate(GROUPS[group]()):
        lines += [decided(name, graph, devices[k % len(devices)], k) for devices in (CPUS, GPUS)]
    kept = FOLDER / f"{group}.txt"
    if update_golden:
        FOLDER.mkdir(exist_ok=True)
        kept.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert kept.read_text(encoding="utf-8").splitlines() == lines, "pytest tests/golden --update-golden"

"""Kernels that start the next one early.

Products of one vector do so before the kernel before them ends: a launch takes as long as a small product, so that
several kernels are on their way at once; all but one of them wait. A large product neither needs that nor is started
so early: its thread blocks would share the few multiprocessors that have room while others are still busy.

Maps and reductions do so where they have at most a thread block for each multiprocessor: these leave room everywhere,
and a product that follows asks for its weights meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod

from edgec.device.device import Device
from edgec.ir.nest import most
from edgec.schedule.gpu.few_queries import GpuFewQueries
from edgec.schedule.gpu.loops import GpuMap, GpuReduce
from edgec.schedule.gpu.together import GpuTogether, loop_groups
from edgec.schedule.gpu.vector import LIGHT, GpuVector
from edgec.schedule.program import Kernel

#: Results of maps and reductions that leave room for the thread blocks of the next kernel.
FEW = 1 << 12


def early_launches(kernels: Sequence[Kernel]) -> list[Kernel]:
    """``kernels``, of which light products of one vector start light ones and attention early."""
    result = [starting_next(k) if _is_light(k) and _is_light(following) else k for k, following in pairwise(kernels)]
    return [*result, *kernels[-1:]]


def early_after_loops(kernels: Sequence[Kernel], device: Device) -> list[Kernel]:
    """``kernels``, of which small maps and reductions start the next one early."""
    if device.language != "cuda" or device.gpu.compute_capability < 90:
        return list(kernels)
    return [_started(k) if 0 < loop_groups(k) <= device.gpu.multiprocessors else k for k in kernels]


def _started(kernel: Kernel) -> Kernel:
    record = kernel.schedule
    if isinstance(record, GpuTogether):
        return replace(kernel, schedule=replace(record, kernels=tuple(map(_started, record.kernels))))
    assert isinstance(record, (GpuMap, GpuReduce))
    return replace(kernel, schedule=replace(record, starts_next=True))


def _is_light(kernel: Kernel) -> bool:
    """Is it attention, products with few bytes of weights, or few maps and reductions in one launch?"""
    schedule = kernel.schedule
    if isinstance(schedule, GpuFewQueries):
        return True
    steps = schedule.kernels if isinstance(schedule, GpuTogether) else (kernel,)
    records = [step.schedule for step in steps]
    if isinstance(schedule, GpuTogether) and _are_loops(schedule):
        return sum(prod(most(v) for v in r.loops) for r in records if isinstance(r, (GpuMap, GpuReduce))) <= FEW
    tables = {b for record in records if isinstance(record, GpuVector) for b in record.tables}
    return all(isinstance(r, GpuVector) for r in records) and sum(b.bytes for b in tables) <= LIGHT


def _are_loops(record: GpuTogether) -> bool:
    return all(isinstance(k.schedule, (GpuMap, GpuReduce)) for k in record.kernels)


def starting_next(kernel: Kernel) -> Kernel:
    """The kernel, which starts the next one early if it consists of products of one vector, or of small loops."""
    record = kernel.schedule
    if isinstance(record, GpuTogether) and _are_loops(record):
        return replace(kernel, schedule=replace(record, starts_next=True))
    if isinstance(record, GpuTogether):
        return replace(kernel, schedule=replace(record, kernels=tuple(map(starting_next, record.kernels))))
    return replace(kernel, schedule=replace(record, starts_next=True)) if isinstance(record, GpuVector) else kernel

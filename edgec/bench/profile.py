"""Time of every kernel of a compiled network, in sequence on one thread, as in a run.

The compiled functions are called one by one on the memory of one execution, so that caches hold what the kernel before
left there. What a call from Python costs by itself is measured and taken off.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping
from functools import partial
from statistics import median

import numpy as np

from edgec.bench.timing import thread_seconds
from edgec.bench.turns import pinned
from edgec.build import Built
from edgec.execute.executor import ProgramRun
from edgec.execute.kernels import Kernels, library_of
from edgec.execute.samples import random_inputs
from edgec.schedule.program import Program

#: Runs of the whole network at least.
LEAST = 3


def kernel_seconds(built: Built, seconds: float = 0.5, seed: int = 0) -> list[float | None]:
    """Median seconds of every kernel in the order of the program; None for one that its guards skip.

    For networks in C that are compiled and run here; random inputs of the greatest sizes.
    """
    program = built.program
    kernels = Kernels(program, library_of(built), built.options.name, built.options.templates)
    return program_seconds(program, kernels, random_inputs(built.stages.graph, seed, greatest=True), seconds)


def program_seconds(
    program: Program, kernels: Kernels, inputs: Mapping[str, np.ndarray], seconds: float
) -> list[float | None]:
    """The same of a program on inputs by name, over so many seconds."""
    execution = ProgramRun(program, inputs)
    kernels.lend(execution)
    with pinned(1):
        calls = _first_run(program, kernels, execution)
        cost = _seconds_of_nothing()
        times: list[list[float]] = [[] for _ in calls]
        end = time.perf_counter() + seconds
        turns = 0
        while turns < LEAST or time.perf_counter() < end:
            turns += 1
            for call, taken in zip(calls, times):
                if call is not None:
                    taken.append(thread_seconds(call))
    return [max(median(t) - cost, 0.0) if t else None for t in times]


def launch_seconds(built: Built, seed: int = 0) -> list[float | None]:
    """Seconds of every launch of a network on a GPU, each many times in a row by the device's clock."""
    network = built.network
    network.run(random_inputs(built.stages.graph, seed, greatest=True))
    return [ms * 1e-3 if ms >= 0 else None for ms in network.profile()]


def _first_run(program: Program, kernels: Kernels, execution: ProgramRun) -> list[Callable[[], None] | None]:
    """Run everything once, so that sizes and guards are known; the calls, None where guards skip one."""
    calls: list[Callable[[], None] | None] = []
    for k, kernel in enumerate(program.kernels):
        if any(bool(execution.elements(buffer)[0]) != truth for buffer, truth in kernel.guards):
            calls.append(None)
            continue
        call = kernels.call(k, execution)
        call()
        calls.append(call)
        for size in () if kernel.block is None else execution.computed.get(kernel.writes, ()):
            execution.sizes[size] = min(max(int(execution.elements(kernel.writes)[0]), size.value.low), size.value.high)
    return calls


def _seconds_of_nothing() -> float:
    """Overhead of a function call from here, in seconds."""
    absolute = ctypes.CDLL(None).abs
    given = [ctypes.c_ssize_t(0)] * 6
    nothing = partial(absolute, *given)
    return median(thread_seconds(nothing) for _ in range(200))

"""Small kernels that wait for the same ones, in one launch: the gradients of weights, whose readers come last of all.

A launch costs as much as a small kernel does, and the backward pass has several a layer that only the optimizer reads.
Each kernel is put off for as long as nobody reads its result, and what is due at the same time shares launches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgec.schedule.gpu.contract import GpuContract
from edgec.schedule.gpu.loops import GpuMap, GpuReduce, threads_of
from edgec.schedule.gpu.tiles import TensorTile
from edgec.schedule.gpu.together import joined
from edgec.schedule.program import Buffer, Kernel

#: Kernels of a launch at most: each has its parameters, its code and its shared memory.
MOST = 24


def in_levels(kernels: Sequence[Kernel], states: Mapping[Buffer, Buffer]) -> list[Kernel]:
    """Kernels in another order, several to a launch; ``states`` has the state whose memory a next value takes."""
    readers = _later(kernels, states)
    first = [0] * len(kernels)
    for k, later in enumerate(readers):
        for other in later:
            first[other] = max(first[other], first[k] + 1)
    end = max(first, default=0)
    level = [end] * len(kernels)
    for k in reversed(range(len(kernels))):
        due = min((level[other] for other in readers[k]), default=end + 1) - 1
        level[k] = 0 if not first[k] and _launch(kernels[k]) is not None else due
    made: list[Kernel] = []
    for now in sorted(set(level)):
        groups: dict[object, list[Kernel]] = {}
        for k, kernel in enumerate(kernels):
            if level[k] == now:
                launch = _launch(kernel)
                groups.setdefault(k if launch is None else launch, []).append(kernel)
        for group in groups.values():
            parts = [group[k : k + MOST] for k in range(0, len(group), MOST)]
            made += [joined(part) if len(part) > 1 else part[0] for part in parts]
    return made


def _later(kernels: Sequence[Kernel], states: Mapping[Buffer, Buffer]) -> list[list[int]]:
    """The kernels that have to come after each: readers of its result, and writers of what it reads.

    Several kernels may write parts of one buffer, in any order.
    """
    writers: dict[Buffer, list[int]] = {}
    readers: dict[Buffer, list[int]] = {}
    found: list[list[int]] = []
    for k, kernel in enumerate(kernels):
        found.append([])
        read = [states.get(b, b) if b in states else b for b in kernel.touches[:-1]]
        target = kernel.writes
        before = {w for b in kernel.touches[:-1] for w in writers.get(b, ())}
        before |= {r for b in (target, states.get(target, target)) for r in readers.get(b, ())}
        for other in before:
            found[other].append(k)
        for b in (*kernel.touches[:-1], *read):
            readers.setdefault(b, []).append(k)
        writers.setdefault(target, []).append(k)
    return found


@dataclass(frozen=True)
class _Launch:
    """Properties that kernels of one launch share."""

    template: str
    threads: int


def _launch(kernel: Kernel) -> _Launch | None:
    """The kind of launches that a kernel may be a part of; None where it has to be alone."""
    schedule = kernel.schedule
    if kernel.writes.space != "arena" or kernel.scratch_bytes or kernel.guards or kernel.sizes:
        return None
    if isinstance(schedule, (GpuMap, GpuReduce)):
        return _Launch("loops", threads_of(schedule))
    if isinstance(schedule, GpuContract) and isinstance(schedule.tile, TensorTile) and schedule.tile.split == 1:
        return _Launch("contract", schedule.tile.threads)
    return None

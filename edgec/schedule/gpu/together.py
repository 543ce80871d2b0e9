"""Kernels that do not wait for one another in one launch: each has its thread blocks in it.

Queries, keys and values of a token are the case in point, and what makes bytes with a scale of keys and values. A
launch costs as much as reading a few megabytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import inf
from typing import ClassVar

from edgec.ir.nest import is_fixed
from edgec.schedule.gpu.loops import GROUP, GpuMap, GpuReduce, threads_of
from edgec.schedule.gpu.vector import GpuVector
from edgec.schedule.memory import ALIGNMENT
from edgec.schedule.program import Buffer, Kernel, Program, Schedule

#: Kernels of a launch at most: each has its parameters, its code and its shared memory.
MOST = 24
#: Bytes of shared memory that a launch may have without asking for more.
SHARED = 48 << 10


@dataclass(frozen=True, eq=False)
class GpuTogether(Schedule):
    """Kernels that share a launch; it may start the next one early, as products of one vector do by themselves."""

    template: ClassVar[str] = "together"
    kernels: tuple[Kernel, ...]
    starts_next: bool = False

    @property
    def describe(self) -> str:
        return ", beside it ".join(k.describe for k in self.kernels)

    @property
    def steps(self) -> tuple[Kernel, ...]:
        return self.kernels

    @property
    def locks(self) -> int:
        """Counters of all kernels, one after the other."""
        return sum(k.schedule.locks for k in self.kernels)

    @property
    def shared_steps(self) -> tuple[Kernel, ...]:
        return self.kernels


def together(program: Program, room: float = inf) -> Program:
    """The program with neighbors of one kind in one launch where neither writes what another one touches.

    Maps and reductions of a launch have at most ``room`` thread blocks.
    """
    groups: list[list[Kernel]] = []
    for kernel in program.kernels:
        kind, last = _kind(kernel), groups[-1] if groups else []
        joins = kind and 0 < len(last) < MOST and all(_kind(k) == kind and _are_apart(kernel, k, program) for k in last)
        joins = joins and sum(map(shared_bytes, (*last, kernel))) <= SHARED
        if joins and sum(map(loop_groups, (*last, kernel))) <= room:
            last.append(kernel)
        else:
            groups.append([kernel])
    return replace(program, kernels=tuple(joined(g) if len(g) > 1 else g[0] for g in groups))


def _kind(kernel: Kernel) -> tuple[str, int] | None:
    """Kind and threads of the launches that a kernel may be a part of; None where it has to be alone."""
    schedule = kernel.schedule
    if kernel.guards:
        return None
    if isinstance(schedule, GpuVector):
        return "vector", GROUP
    if not isinstance(schedule, (GpuMap, GpuReduce)) or schedule.copied is not None:
        return None
    is_known = kernel.read_sizes.keys() >= set(kernel.sizes) and not kernel.scratch_bytes and is_fixed(*schedule.loops)
    return ("loops", threads_of(schedule)) if is_known else None


def shared_bytes(kernel: Kernel) -> int:
    """Bytes that teams of threads meet in, those of a sum in parts twice; each kernel of a launch has its own."""
    schedule = kernel.schedule
    if not isinstance(schedule, GpuReduce):
        return 0
    return (4 * threads_of(schedule) + 64) * len(schedule.reductions) * (2 if schedule.split > 1 else 1)


def loop_groups(kernel: Kernel) -> int:
    """Thread blocks of maps and reductions in a launch; 0 of other kernels."""
    record = kernel.schedule
    if isinstance(record, GpuTogether):
        return sum(map(loop_groups, record.kernels))
    return record.groups if isinstance(record, (GpuMap, GpuReduce)) else 0


def _are_apart(one: Kernel, other: Kernel, program: Program) -> bool:
    """May two kernels run at the same time? Two that write one buffer, and do not read it, write different parts,
    unless one of them updates what the other wrote."""
    pairs = ((one, other), (other, one))
    if one.writes is not other.writes:
        return not any(meet(k.writes, b, program) for k, o in pairs for b in o.touches)
    is_updated = any(n.op == "update" and view.buffer is one.writes for n, view in program.views.items())
    return not is_updated and not any(meet(k.writes, b, program) for k, o in pairs for b in o.touches[:-1])


def meet(a: Buffer, b: Buffer, program: Program) -> bool:
    """Do two buffers share memory?"""
    a, b = (program.states.get(x, x) for x in (a, b))
    if a is b or a.space != "arena" or b.space != "arena":
        return a is b
    first, second = program.offsets[a], program.offsets[b]
    return first < second + b.bytes and second < first + a.bytes


def joined(kernels: Sequence[Kernel]) -> Kernel:
    """One launch of several kernels, whose scratch memory is one buffer."""
    written = list(dict.fromkeys(k.writes for k in reversed(kernels)))[::-1]
    own = {k.operands[0] for k in kernels if k.scratch_bytes}
    read = dict.fromkeys(b for k in kernels for b in k.reads if b not in written and b not in own)
    room = scratch_places(kernels)[-1]
    scratch = (Buffer(f"scratch_together_{kernels[-1].writes.key}", "arena", "u8", room),) if room else ()
    sizes = dict.fromkeys(s for k in kernels for s in k.sizes)
    known = {s: b for k in kernels for s, b in k.read_sizes.items()}
    names = tuple(dict.fromkeys(name for k in kernels for name in k.names))
    return Kernel(
        GpuTogether(tuple(kernels)), (*scratch, *read, *written), kernels[-1].block, names, room,
        sizes=tuple(sizes), read_sizes=known,
    )  # fmt: skip


def scratch_places(kernels: Sequence[Kernel]) -> list[int]:
    """Offsets of the kernels' scratch memory in that of their launch, and the end of all."""
    return list(accumulate((-(-k.scratch_bytes // ALIGNMENT) * ALIGNMENT for k in kernels), initial=0))

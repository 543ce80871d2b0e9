"""Small kernels that wait for the same ones, in one launch: the gradients of weights, whose readers come last of all.

A launch costs as much as a small kernel does, and the backward pass has several a layer that only the optimizer reads.
Each kernel is put off for as long as nobody reads its result, and what is due at the same time shares launches: but not
for longer than it takes to fill the device, since what it reads has to be kept, and soon leaves the cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from edgec.ir import expr as X
from edgec.ir.nest import most
from edgec.schedule.gpu.contract import GpuContract
from edgec.schedule.gpu.kernel import LANES
from edgec.schedule.gpu.loops import GROUP, GpuMap, GpuReduce, threads_of
from edgec.schedule.gpu.tile import TensorTile
from edgec.schedule.gpu.together import MOST, SHARED, joined, shared_bytes
from edgec.schedule.program import Buffer, Kernel

#: Threads that are put off at once, at most: several times those that a large device runs side by side.
FULL = 1 << 20
#: Threads of a launch that fill a large device: of reductions, and of products, which have more to do each.
FILLED, FILLED_BY_PRODUCTS = 1 << 19, 3 << 14


def in_levels(kernels: Sequence[Kernel], states: Mapping[Buffer, Buffer]) -> list[Kernel]:
    """Kernels in another order, several to a launch; ``states`` has the state whose memory a next value takes."""
    made: list[Kernel] = []
    for window in _windows(kernels, _later(kernels, states)):
        made += _launched(window, _later(window, states))
    return made


def _windows(kernels: Sequence[Kernel], readers: Sequence[Sequence[int]]) -> Iterator[Sequence[Kernel]]:
    """Neighbors, cut where those that nobody soon reads fill the device."""
    begin = waiting = 0
    for k, kernel in enumerate(kernels):
        if _launch(kernel) is not None and min(readers[k], default=len(kernels)) > k + MOST:
            waiting += _threads(kernel)
        if waiting >= FULL:
            yield kernels[begin : k + 1]
            begin, waiting = k + 1, 0
    yield kernels[begin:]


def _launched(kernels: Sequence[Kernel], readers: Sequence[Sequence[int]]) -> list[Kernel]:
    """Kernels as late as their readers allow, those of one level and kind in shared launches."""
    first = [0] * len(kernels)
    for k, later in enumerate(readers):
        for other in later:
            first[other] = max(first[other], first[k] + 1)
    end = max(first, default=0)
    level = [end] * len(kernels)
    for k in reversed(range(len(kernels))):
        due = min((level[other] for other in readers[k]), default=end + 1) - 1
        level[k] = 0 if not first[k] and readers[k] and _launch(kernels[k]) is not None else due
    made: list[Kernel] = []
    for now in sorted(set(level)):
        groups: dict[object, list[Kernel]] = {}
        for k, kernel in enumerate(kernels):
            if level[k] == now:
                launch = _launch(kernel)
                groups.setdefault(k if launch is None or _is_full(kernel) else launch, []).append(kernel)
        for group in groups.values():
            parts = list(_parts(group))
            made += [joined(_beside(part)) if len(part) > 1 else part[0] for part in parts]
    return made


def _parts(group: Sequence[Kernel]) -> Iterator[list[Kernel]]:
    """The launches of a group: as many kernels each as there is room for."""
    part: list[Kernel] = []
    for kernel in group:
        if len(part) == MOST or sum(map(shared_bytes, (*part, kernel))) > SHARED:
            yield part
            part = []
        part.append(kernel)
    yield part


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
    if kernel.writes.space != "arena" or kernel.guards or kernel.sizes:
        return None
    if isinstance(schedule, (GpuMap, GpuReduce)):
        return _Launch("loops", threads_of(schedule))
    if isinstance(schedule, GpuContract) and isinstance(schedule.tile, TensorTile):
        return _Launch("contract", schedule.tile.threads)
    return None


def _is_full(kernel: Kernel) -> bool:
    """Does the kernel fill the device many times over? Registers of those beside it would cost more than a launch."""
    return isinstance(kernel.schedule, (GpuMap, GpuReduce)) and _threads(kernel) >= FULL


def _threads(kernel: Kernel) -> int:
    """Threads of a launch of the kernel alone."""
    schedule = kernel.schedule
    if isinstance(schedule, GpuContract):
        return schedule.tiles * schedule.tile.split * schedule.tile.threads
    if isinstance(schedule, GpuReduce):
        return prod(map(most, schedule.loops)) * schedule.team * schedule.split
    return int(schedule.nests[0].levels[0].times) if isinstance(schedule, GpuMap) else 0


def _beside(kernels: Sequence[Kernel]) -> list[Kernel]:
    """Kernels as those of one launch, sums in fewer parts where all of them more than fill the device: reductions in
    as many as give every thread block a like share of the work. Parts are in scratch memory, as clusters are of whole
    launches."""
    total = sum(map(_threads, kernels))
    share = sum(map(_work, kernels)) * GROUP / FILLED if total >= 2 * FILLED else 0
    return [_in_parts(k, max(1, total // FILLED_BY_PRODUCTS), share) for k in kernels]


def _work(kernel: Kernel) -> float:
    """Elements that a reduction or map loads."""
    schedule = kernel.schedule
    if not isinstance(schedule, GpuReduce):
        return float(_threads(kernel) * LANES)
    loads = sum(len({*X.loads(body)}) for _, body in schedule.reductions)
    return float(prod(map(most, schedule.loops)) * most(schedule.row) * loads)


def _in_parts(kernel: Kernel, times: int, share: float) -> Kernel:
    """The kernel as one of a launch: a product in so many ``times`` fewer parts, a reduction in parts of a ``share`` of
    elements for every thread block of GROUP, or in all of its parts where that is 0."""
    schedule = kernel.schedule
    changed: GpuContract | GpuReduce
    if isinstance(schedule, GpuReduce) and schedule.split > 1:
        groups = -(-prod(map(most, schedule.loops)) // schedule.each)
        each = _work(kernel) / groups * GROUP / threads_of(schedule)
        changed = replace(schedule, split=max(1, min(schedule.split, round(each / share))) if share else schedule.split)
    elif isinstance(schedule, GpuContract) and schedule.tile.split > 1:
        split = -(-schedule.tile.split // times)
        changed = replace(schedule, tile=replace(schedule.tile, split=split), is_cluster=False)
    else:
        return kernel
    operands = kernel.operands[1:] if kernel.scratch_bytes else kernel.operands
    size = changed.scratch_bytes
    assert kernel.block is not None
    scratch = (Buffer(f"scratch_{kernel.block.output.key}", "arena", "u8", size),) if size else ()
    return replace(kernel, schedule=changed, operands=(*scratch, *operands), scratch_bytes=size)

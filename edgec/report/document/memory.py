"""The arena over time: which buffer lies where from which kernel to which, and how much is alive at each."""

from __future__ import annotations

from edgec.report.record import Record
from edgec.schedule.program import Buffer, Program
from edgec.text import printable


def memory_map(program: Program) -> Record:
    """Offsets and lives of the buffers in the arena, in bytes and numbers of kernels, both ends included.

    ``over`` names the buffer that one was written over in place; ``live`` is what is alive at each kernel.
    """
    first: dict[Buffer, int] = {}
    last: dict[Buffer, int] = {}
    names: dict[Buffer, list[str]] = {}
    for k, kernel in enumerate(program.kernels):
        for b in dict.fromkeys(kernel.touches):
            if b.space == "arena" and b in program.offsets:
                first.setdefault(b, k)
                last[b] = k
        names.setdefault(kernel.writes, [printable(n) for n in kernel.names[-3:]])
    for b in (*program.sizes.values(), *(b for _, b in program.demands)):
        if b in last:
            last[b] = len(program.kernels) - 1
    over: dict[Buffer, str] = {}
    for k, kernel in enumerate(program.kernels):
        result = kernel.writes
        if first.get(result) == k:
            dying = [b for b in kernel.reads if last.get(b) == k and b is not result]
            same = [b for b in dying if program.offsets[b] == program.offsets[result] and b.bytes == result.bytes]
            over.update((result, b.name) for b in same[:1])
    rows = [
        {
            "name": printable(b.name), "offset": program.offsets[b], "bytes": b.bytes, "dtype": b.dtype,
            "first": first[b], "last": last[b], "nodes": names.get(b, []), "over": over.get(b),
            "is_scratch": b.name.startswith("scratch_"),
        }
        for b in first
    ]  # fmt: skip
    live = []
    for k in range(len(program.kernels)):
        spans = sorted((program.offsets[b], program.offsets[b] + b.bytes) for b in first if first[b] <= k <= last[b])
        end = total = 0
        for low, high in spans:  # what is written in place lies over another and counts once
            total += max(0, high - max(low, end))
            end = max(end, high)
        live.append(total)
    return {
        "arena_bytes": program.arena_bytes,
        "lower_bound_bytes": program.arena_lower_bound_bytes,
        "buffers": sorted(rows, key=lambda r: (r["first"], r["offset"])),
        "live": live,
    }

"""Barriers between kernels: the buffers touched since the last one decide whether a kernel may begin."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection

from edgec.schedule.program import Buffer, Kernel, Program


class Barriers:
    """Asked kernel by kernel, in the order in which they run.

    A kernel waits if it writes what an earlier one touches or touches what an earlier one writes. Scratch counts as
    written. Kernels that write different parts of one buffer (a border and its inside, the parts of a concatenation) do
    not wait for one another; the part of an update waits for what it changes.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._updated = {view.buffer for n, view in program.views.items() if n.op == "update"}
        self._forget()

    def _forget(self) -> None:
        self._read, self._written = _Memory(self._program), _Memory(self._program)
        self._parts: dict[Buffer, set[object]] = {}  # of what buffer which values were written

    def must_wait(self, kernel: Kernel, sizes: Collection[Buffer] = ()) -> bool:
        """Does a barrier stand before ``kernel``, and before the ``sizes`` that are read first?"""
        waits = self._conflicts(kernel) or any(s in self._parts for s in sizes)
        if waits:
            self._forget()
        for b in kernel.touches[:-1]:
            self._read.add(b)
        for b in _changed(kernel):
            self._written.add(b)
        self._parts.setdefault(kernel.writes, set()).add(_value(kernel))
        return waits

    def _conflicts(self, kernel: Kernel) -> bool:
        out = kernel.writes
        # What wrote to ``out`` did not wait for the others, so that these wrote nothing that overlaps it.
        parts = self._parts.get(out)
        if parts is None or out in self._updated:
            overwrites = self._written.meets(out)
        else:
            overwrites = _value(kernel) in parts - {None}
        return (
            overwrites
            or any(map(self._read.meets, _changed(kernel)))
            or any(map(self._written.meets, kernel.touches[:-1]))
        )


def _value(kernel: Kernel) -> object:
    """The buffer that a kernel writes; None for a halo, which shares its buffer with the value inside."""
    return kernel.block.output if kernel.block is not None else None


def _changed(kernel: Kernel) -> tuple[Buffer, ...]:
    return (kernel.operands[0], kernel.writes) if kernel.scratch_bytes else (kernel.writes,)


class _Memory:
    """A part of memory: intervals of the arena, apart from each other and in order, and whole buffers elsewhere."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._whole: set[Buffer] = set()

    def add(self, buffer: Buffer) -> None:
        if buffer.space != "arena":
            self._whole.add(self._place(buffer))
            return
        start, end = self._extent(buffer)
        first, last = bisect_left(self._ends, start), bisect_right(self._starts, end)
        if first < last:  # one with all that it overlaps or touches
            start, end = min(start, self._starts[first]), max(end, self._ends[last - 1])
        self._starts[first:last], self._ends[first:last] = [start], [end]

    def meets(self, buffer: Buffer) -> bool:
        """Is any of ``buffer`` in it?"""
        if buffer.space != "arena":
            return self._place(buffer) in self._whole
        start, end = self._extent(buffer)
        k = bisect_right(self._ends, start)
        return k < len(self._starts) and self._starts[k] < end

    def _place(self, buffer: Buffer) -> Buffer:
        """A state's new value may lie where the state lies."""
        return self._program.states.get(buffer, buffer)

    def _extent(self, buffer: Buffer) -> tuple[int, int]:
        start = self._program.offsets[buffer]
        return start, start + buffer.bytes

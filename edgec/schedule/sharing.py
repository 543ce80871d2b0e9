"""Programs over one copy of their weights."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from edgec.ir.graph import Array
from edgec.schedule.memory import ALIGNMENT
from edgec.schedule.program import Buffer, Program


def sharing(program: Program, other: Program) -> tuple[Program, Program]:
    """Two programs whose equal weights are stored once; those that only ``other`` has come last."""
    end = program.weights_bytes
    known = {_content(b): place for b, place in program.offsets.items() if b.space == "weights"}
    own = {b: place for b, place in other.offsets.items() if b.space != "weights"}
    for buffer in _weights(other):
        content = _content(buffer)
        if content not in known:
            known[content] = end
            end += -(-buffer.bytes // ALIGNMENT) * ALIGNMENT
        own[buffer] = known[content]
    return replace(program, weights_bytes=end), replace(other, offsets=own, weights_bytes=end)


def _weights(program: Program) -> Iterable[Buffer]:
    return (b for b in program.offsets if b.space == "weights")


def _content(buffer: Buffer) -> tuple[str, str]:
    assert buffer.data is not None
    return buffer.dtype, Array(buffer.data).digest

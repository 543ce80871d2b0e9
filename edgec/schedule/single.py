"""Two programs over one copy of the weights: one for any number of tokens, one for a single token."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from edgec.ir.graph import Array
from edgec.schedule.gpu.together import together
from edgec.schedule.memory import ALIGNMENT
from edgec.schedule.program import Buffer, Program


def with_single(program: Program, single: Program) -> Program:
    """``program`` with the program for one token, which shares arena and weights: equal weights are stored once."""
    offsets, end = dict(program.offsets), program.weights_bytes
    known = {_content(b): place for b, place in program.offsets.items() if b.space == "weights"}
    own = {b: place for b, place in single.offsets.items() if b.space != "weights"}
    for buffer in _weights(single):
        content = _content(buffer)
        if content not in known:
            known[content] = end
            end += -(-buffer.bytes // ALIGNMENT) * ALIGNMENT
        own[buffer] = known[content]
    arena, locks = max(program.arena_bytes, single.arena_bytes), max(program.locks, single.locks)
    single = together(single)
    single = replace(single, offsets=own, arena_bytes=arena, weights_bytes=end, locks=locks)
    return replace(program, offsets=offsets, arena_bytes=arena, weights_bytes=end, locks=locks, single=single)


def _weights(program: Program) -> Iterable[Buffer]:
    return (b for b in program.offsets if b.space == "weights")


def _content(buffer: Buffer) -> tuple[str, str]:
    assert buffer.data is not None
    return buffer.dtype, Array(buffer.data).digest

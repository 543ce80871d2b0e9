"""Two programs over one copy of the weights: one for any number of tokens, one for a single token."""

from __future__ import annotations

from dataclasses import replace

from edgec.schedule.gpu.together import together
from edgec.schedule.program import Program
from edgec.schedule.sharing import sharing


def with_single(program: Program, single: Program) -> Program:
    """``program`` with the program for one token, which shares arena and weights: equal weights are stored once."""
    program, single = sharing(program, single)
    arena, locks = max(program.arena_bytes, single.arena_bytes), max(program.locks, single.locks)
    single = replace(together(single), arena_bytes=arena, locks=locks)
    return replace(program, arena_bytes=arena, locks=locks, single=single)

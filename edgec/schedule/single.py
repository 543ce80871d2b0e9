"""Two programs over one copy of the weights: one for any number of tokens, one for a single token."""

from __future__ import annotations

from dataclasses import replace

from edgec.device.device import Device
from edgec.schedule.gpu.early_keys import with_early_keys
from edgec.schedule.gpu.early_launch import early_launches
from edgec.schedule.gpu.together import together
from edgec.schedule.gpu.weight_prefetch import prefetch_vectors
from edgec.schedule.program import Program
from edgec.schedule.sharing import sharing


def with_single(program: Program, single: Program, device: Device) -> Program:
    """``program`` for a GPU with the one for a token, which shares arena and weights: equal weights are stored once."""
    program, single = sharing(program, single)
    arena, locks = max(program.arena_bytes, single.arena_bytes), max(program.locks, single.locks)
    single = with_early_keys(together(single))
    kernels = tuple(early_launches(prefetch_vectors(single.kernels, device)))
    single = replace(single, kernels=kernels, arena_bytes=arena, locks=locks)
    return replace(program, arena_bytes=arena, locks=locks, single=single)

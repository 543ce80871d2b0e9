"""Replicas of a training step, as the template of a training sees them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from edgec.emit.barriers import Barriers
from edgec.emit.source import Sources
from edgec.emit.trained_state import Held
from edgec.schedule.program import Buffer, Program
from edgec.schedule.replicas import Replicas


@dataclass(frozen=True)
class Late:
    """A kernel that runs once, when all micro-batches are done, by the number of its call: behind a ``barrier`` or not,
    and on all threads, or on the first alone."""

    number: int
    barrier: bool
    is_shared: bool


def late_calls(program: Program, sources: Sources, last: Buffer) -> list[Late]:
    """The kernels of a program for one thread that only the ``last`` micro-batch has, in order.

    Threads share those whose tasks need no memory of their own, and no order among themselves.
    """
    barriers, found = Barriers(program), list[Late]()
    for number, (kernel, call) in enumerate(zip(program.kernels, sources.calls)):
        if (last, True) in kernel.guards:
            is_alone = kernel.scratch_bytes > 0 or len(kernel.steps) > 1 or bool(call.merge or call.round)
            found.append(Late(number, barriers.must_wait(kernel), not is_alone))
    return found


def early_piece(held: Iterable[Held]) -> tuple[int, int]:
    """Where what every micro-batch adds to begins in the state, and the bytes of it."""
    pieces = [*held]
    begin = min(h.at for h in pieces)
    return begin, max(h.end for h in pieces) - begin


def values_of(replicas: Replicas | None, early: tuple[int, int], late: Iterable[Late], runs: int) -> Mapping[str, Any]:
    """Values for the templates; replicas of no micro-batch are left out."""
    if replicas is None:
        return {"replicas": None, "late": []}
    at, size = early
    return {
        "replicas": replicas, "late": [*late], "early_at": at, "early_bytes": size,
        "first_end": replicas.first_of(1, runs),
    }  # fmt: skip

"""Arena planning: which buffers may share memory, and where each lies.

Buffers live from their first writer to their last reader. A kernel may write its result over an operand that dies
there, if it reads each element before it writes it. Offsets come from greedy placement in several orders; the best is
kept, and reported beside the lower bound: the most bytes that are ever live at once.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import inf
from random import Random

from edgec.schedule.program import Buffer, Kernel

ALIGNMENT = 64
#: BufferAlias orders tried beyond the fixed ones when those leave a gap to the lower bound.
TRIES = 300


class TooLarge(Exception):
    """A program whose arena takes more than is wanted."""


@dataclass
class _Group:
    """Buffers that share one place; live from kernel ``first`` to kernel ``last``, both included."""

    buffers: list[Buffer]
    first: int
    last: int
    size: int


@dataclass(frozen=True)
class Memory:
    """Offsets in bytes, the arena's size, and the size no placement can go below."""

    offsets: Mapping[Buffer, int]
    arena_bytes: int
    lower_bound_bytes: int


def aligned(size: int) -> int:
    """Bytes of the arena that a buffer of so many takes."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def plan_memory(kernels: Sequence[Kernel], kept: frozenset[Buffer] = frozenset(), wanted: float = inf) -> Memory:
    """Place every buffer of the arena; those in ``kept`` are never overwritten. Raises TooLarge where all are known to
    take more bytes than are ``wanted``."""
    groups = _groups(kernels, kept)
    change = [0] * (len(kernels) + 1)
    for g in groups:
        change[g.first] += g.size
        change[g.last + 1] -= g.size
    bound = max(accumulate(change), default=0)
    if bound > wanted:
        raise TooLarge
    orders = [
        sorted(groups, key=lambda g: (-g.size, g.first)),
        sorted(groups, key=lambda g: (-(g.last - g.first + 1) * g.size, g.first)),
        sorted(groups, key=lambda g: (g.first, -g.size)),
    ]
    best = _place(orders[0])
    assert best is not None
    for order in orders[1:]:
        best = _place(order, best[1]) or best
    random = Random(0)
    for _ in range(TRIES):
        if best[1] <= bound:
            break
        order = sorted(groups, key=lambda g: -g.size * random.uniform(0.5, 1.5))
        best = _place(order, best[1]) or best
    offsets = {b: place for g, place in zip(best[0], best[2]) for b in g.buffers}
    return Memory(offsets, best[1], bound)


def _groups(kernels: Sequence[Kernel], kept: frozenset[Buffer]) -> list[_Group]:
    groups: dict[Buffer, _Group] = {}
    for k, kernel in enumerate(kernels):
        for b in kernel.touches:
            if b.space == "arena":
                group = groups.setdefault(b, _Group([b], k, k, aligned(b.bytes)))
                group.last = len(kernels) - 1 if b in kept else k
    for k, kernel in enumerate(kernels):
        result = groups.get(kernel.writes)
        if result is None or result.first != k:
            continue
        for b in kernel.reads:
            dying = groups.get(b)
            if dying is None or dying is result or dying.last != k or dying.size != result.size:
                continue
            if overwrites_in_place(kernel, b):
                dying.buffers += result.buffers
                dying.last = result.last
                groups.update(dict.fromkeys(result.buffers, dying))
                break
    return list({id(g): g for g in groups.values()}.values())


def overwrites_in_place(kernel: Kernel, operand: Buffer) -> bool:
    """Does the kernel read each element of ``operand`` only just before it writes that very place?"""
    if any(operand in step.operands for step in kernel.schedule.shared_steps):
        return False  # another thread may still be reading it for an earlier step
    if kernel.scratch_bytes and operand is kernel.operands[0]:
        return False  # scratch memory has values of other steps and tasks, wherever the result is written
    result = kernel.main.writes
    same = operand.dtype == result.dtype and operand.elements == result.elements
    return same and kernel.main.schedule.overwrites(operand)


def _place(order: Sequence[_Group], limit: float = inf) -> tuple[list[_Group], int, list[int]] | None:
    """Each group at the lowest offset free during its whole life; None where that takes ``limit`` bytes or more."""
    placed: list[tuple[int, int, int, int]] = []  # (start, end, first, last), by start: the first gap ends the search
    offsets: list[int] = []
    top = 0
    for g in order:
        size, first, last, at = g.size, g.first, g.last, 0
        for start, end, begun, ended in placed:
            if begun <= last and first <= ended:
                if start - at >= size:
                    break
                if end > at:
                    at = end
        top = max(top, at + size)
        if top >= limit:
            return None
        insort(placed, (at, at + size, first, last))
        offsets.append(at)
    return list(order), top, offsets

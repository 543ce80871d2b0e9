"""Chains: kernels that run one after the other in one call, with nobody to wait for between them.

A border is written by the call that writes the first part of its inside: the two touch different elements.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from edgec.schedule.program import Buffer, Kernel


@dataclass(frozen=True, eq=False)
class Chain:
    """Kernels in order; the last one gives the result, and its tasks are shared out among threads like any other's."""

    steps: tuple[Kernel, ...]

    @property
    def last(self) -> Kernel:
        return self.steps[-1]


def chained(first: Iterable[Kernel], last: Kernel) -> Kernel:
    """One kernel that does what ``first`` do, and then what ``last`` does; they write the buffer that it writes."""
    steps = (*first, last)
    if len(steps) == 1:
        return last
    scratch = last.operands[:1] if last.scratch_bytes else ()
    read = dict.fromkeys(b for s in steps for b in _without_scratch(s)[:-1])
    sizes = sorted({size for s in steps for size in s.sizes}, key=lambda size: str(size.value.name))
    operands = (*scratch, *read, last.writes)
    return replace(last, template="chain", params=Chain(steps), operands=operands, sizes=tuple(sizes))


def _without_scratch(kernel: Kernel) -> tuple[Buffer, ...]:
    return kernel.operands[1:] if kernel.scratch_bytes else kernel.operands


def main_of(kernel: Kernel) -> Kernel:
    """The kernel that gives the result: of a chain the last one."""
    return kernel.params.last if isinstance(kernel.params, Chain) else kernel

"""Keys and values that attention of few queries reads before the kernel before it ends.

Of a cache, the kernel before writes the key of the newest token alone. That is proved from the two addresses: the one
that is stored to lies in one row, the same for all elements that are stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from edgec.ir import expr as X
from edgec.ir import index
from edgec.ir.expr import Expr
from edgec.ir.extent import sizes
from edgec.ir.nest import coefficient
from edgec.schedule.gpu.few_queries import GpuFewQueries, stored
from edgec.schedule.gpu.kernel import GpuKernel
from edgec.schedule.gpu.together import GpuTogether, meet
from edgec.schedule.gpu.vector import GpuVector
from edgec.schedule.program import Kernel, Program


def with_early_keys(program: Program) -> Program:
    """The program, whose attention knows the one key that is not there before the kernel before it ends."""
    kernels = list(program.kernels)
    for k in range(1, len(kernels)):
        record, before = kernels[k].schedule, kernels[k - 1]
        if isinstance(record, GpuFewQueries) and not before.guards and before.schedule.copied is None:
            fresh = _fresh(record, kernels[k], before, program)
            if fresh is not None and not any(
                _writes(earlier, record, program) for earlier in _unfinished(kernels[: k - 1])
            ):
                kernels[k] = replace(kernels[k], schedule=replace(record, fresh=fresh))
    return replace(program, kernels=tuple(kernels))


def _unfinished(kernels: Sequence[Kernel]) -> Iterator[Kernel]:
    """The last of the kernels, which may still run when the kernel two places behind them starts.

    Products of one vector start the next kernel before they wait for the one before. Others have waited for that.
    """
    for kernel in reversed(kernels):
        yield kernel
        if not isinstance(kernel.schedule, (GpuVector, GpuTogether, GpuFewQueries)):
            return


def _writes(kernel: Kernel, record: GpuFewQueries, program: Program) -> bool:
    """Does a kernel write what attention reads early?"""
    written = [k.writes for k in getattr(kernel.schedule, "kernels", (kernel,))]
    read = [load.value for e in (record.key, record.value) for load in X.loads(e)]
    return any(meet(w, r, program) for w in written for r in read)


def _fresh(record: GpuFewQueries, kernel: Kernel, before: Kernel, program: Program) -> Expr | None:
    """The one row of keys and values that ``before`` writes; None where it is not known to be one."""
    steps = before.schedule.kernels if isinstance(before.schedule, GpuTogether) else (before,)
    found: set[Expr | None] = set()
    for load in map(stored, (record.key, record.value)):
        if load.op != "load" or load.value.dtype not in ("f32", "f16", "i8"):
            return None
        writers = [step for step in steps if meet(step.writes, load.value, program)]
        if not writers:
            return None
        found |= {_row(step, load, record.n) for step in writers}
    row = found.pop()
    known = row is not None and all(kernel.read_sizes[s].space == "input" for s in kernel.read_sizes)
    return row if known and not found else None


def _row(step: Kernel, load: Expr, n: Expr) -> Expr | None:
    """The row, counted as ``load`` counts rows by ``n``, that a kernel stores to; None where it is not one."""
    record, (address,) = step.schedule, load.args
    each = coefficient(address, n)
    if not isinstance(record, GpuKernel) or step.writes is not load.value or not each:
        return None
    terms, _ = index.linear(address)
    larger = [s for v, s in terms.items() if v is not n and s > each]
    if any(s % each for s in larger):
        return None

    def row(place: Expr) -> Expr:
        which = place // each
        return which % (min(larger) // each) if larger else which

    stored = row(record.address)
    return stored if row(address) is n and not X.free_variables(stored) and sizes(stored) else None

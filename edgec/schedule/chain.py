"""Chains: kernels that run one after the other in one call, without a barrier between them.

A halo is filled in the call of the first kernel that writes its interior: the two write different elements. A short
vector that only one kernel reads is computed by every thread for itself, in its own scratch memory, where that is
faster than a barrier: factors of channels, means before a dense layer, two small layers. On one thread no barrier is
needed: there, the padded copy of an input is a step of the only kernel that reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from edgec.device.device import Device
from edgec.fuse import Plan
from edgec.fuse.cost_model import CostModel
from edgec.ir.graph import Node
from edgec.schedule.halo_fill import HaloFill
from edgec.schedule.program import Buffer, Kernel, Schedule, View

#: A vector is at most this large, so that it stays in the first-level cache.
VECTOR_BYTES = 8192
_LINE = 64


@dataclass(frozen=True, eq=False)
class Chain(Schedule):
    """Kernels in order; the last one computes the result, and its tasks are divided among threads as usual.

    ``places`` are the offsets, in a thread's scratch memory, of the values that every thread computes for itself; the
    scratch memory of the steps follows them.
    """

    template: ClassVar[str] = "chain"
    kernels: tuple[Kernel, ...]
    places: Mapping[Buffer, int] = field(default_factory=dict)
    is_alone: bool = False  # it runs on one thread

    @property
    def describe(self) -> str:
        return ", then ".join(s.describe for s in self.kernels)

    @property
    def steps(self) -> tuple[Kernel, ...]:
        return self.kernels

    @property
    def shared_steps(self) -> tuple[Kernel, ...]:
        return () if self.is_alone else self.kernels[:-1]

    @property
    def locks(self) -> int:
        return max(s.schedule.locks for s in self.kernels)

    @property
    def private_bytes(self) -> int:
        return sum(_rounded(b.bytes) for b in self.places)

    def is_private(self, step: Kernel) -> bool:
        """Does every thread execute the whole step for itself?"""
        return step.writes in self.places


def _rounded(size: int) -> int:
    return -(-size // _LINE) * _LINE


def chained(first: Iterable[Kernel], last: Kernel, private: Iterable[Buffer] = (), threads: int = 1) -> Kernel:
    """One kernel that executes ``first`` in order, then ``last``.

    ``private`` are the buffers written by ``first`` of which every thread has its own copy.
    """
    steps = tuple(s for k in (*first, last) for s in k.steps)
    if len(steps) == 1:
        return last
    places: dict[Buffer, int] = {}
    before = (b for k in (*first, last) if isinstance(k.schedule, Chain) for b in k.schedule.places)
    for b in (*before, *private):
        places[b] = sum(_rounded(p.bytes) for p in places)
    chain = Chain(steps, places, threads == 1)
    scratch_bytes = chain.private_bytes + max(s.scratch_bytes for s in steps)
    scratch: tuple[Buffer, ...] = ()
    if scratch_bytes:
        scratch = (Buffer(f"scratch_{last.writes.name}", "arena", "u8", scratch_bytes * threads),)
    read = dict.fromkeys(b for s in steps for b in _without_scratch(s)[:-1] if b not in places)
    sizes = sorted({size for s in steps for size in s.sizes}, key=lambda size: str(size.value.name))
    names = tuple(dict.fromkeys(name for s in steps if s.block is not None for name in s.names))
    return replace(
        last, schedule=chain, operands=(*scratch, *read, last.writes), names=names,
        sizes=tuple(sizes), scratch_bytes=scratch_bytes,
    )  # fmt: skip


def _without_scratch(kernel: Kernel) -> tuple[Buffer, ...]:
    return kernel.operands[1:] if kernel.scratch_bytes else kernel.operands


class PrivateVectors:
    """Finds the kernels of a plan that may become steps of the kernel that reads their result."""

    def __init__(self, plan: Plan, views: Mapping[Node, View], device: Device, threads: int) -> None:
        self.views, self.device, self.threads = views, device, threads
        self.price = CostModel(device)
        readers: dict[Node, int] = {}
        for block in plan.blocks:
            for node in block.inputs:
                readers[node] = readers.get(node, 0) + 1
        kept = {n for _, n in plan.outputs} | set(plan.sizes.values()) | {n for _, n in plan.demands}
        kept |= set(plan.aliases) | {p.parent for p in plan.aliases.values()} | set(plan.halos)
        kept |= {condition for guards in plan.guards.values() for condition, _ in guards} | set(plan.guards)
        roots: dict[Node, list[Node]] = {}
        for block in plan.blocks:
            for root in {plan.root_of(node)[0] for node in block.inputs}:
                roots.setdefault(root, []).append(block.output)
        #: Copies by the one block that reads them.
        self.copies = {found[0]: n for n, found in roots.items() if n.op == "copy" and len(found) == 1 and n in kept}
        self.copies = self.copies if threads == 1 and not plan.guards else {}
        self.single = {n for n, count in readers.items() if count == 1 and n not in kept and self._is_vector(n)}
        self._made: dict[Node, Kernel] = {}

    @staticmethod
    def _is_vector(node: Node) -> bool:
        extents = [n for n in node.type.shape if n != 1]
        return len(extents) < 2 and all(isinstance(n, int) for n in extents) and 0 < node.type.bytes <= VECTOR_BYTES

    def taken_in(self, kernels: list[Kernel], kernel: Kernel) -> Kernel:
        """``kernel`` with those of ``kernels`` as steps whose results only it reads; they are removed there."""
        block = kernel.block
        if self.device.is_gpu or block is None or kernel.schedule.merges:
            return kernel
        if not block.is_procedure:
            vectors = [self._made[n] for n in block.inputs if n in self.single and n in self._made]
            first = [k for k in vectors if self._pays(k)]
            copied = self.copies.get(block.output)
            copies = [self._made[copied]] if copied in self._made else []
            for k in (*first, *copies):
                kernels.remove(k)
            kernel = chained((*copies, *first), kernel, [k.writes for k in first], self.threads)
        self._made[block.output] = kernel
        return kernel

    def _pays(self, kernel: Kernel) -> bool:
        """Is it faster for every thread to execute all of ``kernel`` than to divide it and wait at a barrier?"""
        steps = kernel.steps
        if any(s.block is None or s.block.is_procedure or isinstance(s.schedule, HaloFill) for s in steps):
            return False
        launch = self.device.costs.kernel.launch_s
        work = sum(self.price(s.block) - launch for s in steps if s.block is not None)
        return bool(work * (1 - 1 / self.threads) <= launch)

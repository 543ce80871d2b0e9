"""What scheduling decides: buffers, kernels and the program they form. Nothing here knows a target language."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from edgec.device.device import Device
from edgec.fuse.assignment import Assignment
from edgec.fuse.block import Block
from edgec.ir import expr as X
from edgec.ir.expr import Expr, Extent
from edgec.ir.extent import extent_at
from edgec.ir.graph import Graph, Node
from edgec.ir.sizes import NO_SIZES, Sizes, shape_at
from edgec.ir.types import DTYPES


@dataclass(frozen=True, eq=False)
class Buffer:
    """A piece of memory. ``space`` is input, output, weights or arena; sizes are in elements of ``dtype``."""

    name: str
    space: str
    dtype: str
    elements: int
    data: np.ndarray | None = None  # weights only

    @property
    def bytes(self) -> int:
        return self.elements * DTYPES[self.dtype].itemsize

    @property
    def key(self) -> str:
        return self.name


@dataclass(frozen=True)
class View:
    """Where a value lies: element [i0, i1, ...] is at ``offset + sum(i * stride)`` of ``buffer`` (in elements)."""

    buffer: Buffer
    shape: tuple[Extent, ...]
    strides: tuple[Extent, ...]
    offset: Extent = 0

    def address(self, index: tuple[Expr, ...]) -> Expr:
        position = X.lift(self.offset, "i64")
        for i, stride in zip(index, self.strides):
            position = position + i * stride
        return position

    def array(self, memory: np.ndarray, known: Sizes = NO_SIZES) -> np.ndarray:
        """The value as a strided window on the elements of its buffer, for given run-time sizes."""
        shape = shape_at(self.shape, known)
        if 0 in shape:
            return np.zeros(shape, memory.dtype)
        strides = [s * memory.itemsize for s in shape_at(self.strides, known)]
        return np.lib.stride_tricks.as_strided(memory[extent_at(self.offset, known) :], shape, strides)


@dataclass(frozen=True, eq=False)
class Kernel:
    """One kernel: the record it is rendered from, and the buffers it touches.

    ``operands`` are the buffers in the order of the function's parameters; the last one is written. ``sizes`` are the
    run-time sizes it needs, ``guards`` the truth values (i.e. buffers of one) that decide whether it runs at all.
    ``scratch_bytes`` is what each thread needs for itself while the kernel runs, or the one thread that does it all;
    the first operand holds it, once for every thread that needs it.
    """

    params: Any  # a `edgec.schedule.base.Record`, or a `Chain` of kernels
    operands: tuple[Buffer, ...]
    block: Block | None
    names: tuple[str, ...]
    scratch_bytes: int = 0
    sizes: tuple[Expr, ...] = ()
    guards: tuple[tuple[Buffer, bool], ...] = ()
    sparsity: Any = None  # of weights with zeros: what leaving them out would cost, and whether it is done

    @property
    def template(self) -> str:
        """What kind of kernel it is."""
        return str(self.params.template)

    @property
    def touches(self) -> tuple[Buffer, ...]:
        """Everything it reads or writes, the result last."""
        return (*(b for b, _ in self.guards), *self.operands)

    @property
    def reads(self) -> tuple[Buffer, ...]:
        return self.operands[:-1]

    @property
    def writes(self) -> Buffer:
        return self.operands[-1]

    @property
    def weights_bytes(self) -> int:
        """Of what it computes with: not of what it fetches for others."""
        others = getattr(self.params, "prefetch", None)
        return sum(b.bytes for b in dict.fromkeys(self.reads) if b.space == "weights" and b is not others)


@dataclass(frozen=True, eq=False)
class Part:
    """A program that runs as a whole on one device, as a part of a larger one.

    ``reads`` and ``writes`` are the values of the whole that its inputs and outputs stand for, in order.
    """

    device: Device
    program: Program
    reads: tuple[Node, ...]
    writes: tuple[Node, ...]


@dataclass(frozen=True, eq=False)
class Program:
    """Kernels in order, and where every buffer lies (``offsets`` in bytes, arena and weights alike).

    ``threads`` is how many share the work at most. Where several devices share it, ``parts`` are programs of their own,
    and the figures of the whole are their sums.
    """

    graph: Graph
    kernels: tuple[Kernel, ...]
    inputs: tuple[tuple[str, Buffer, Node], ...]
    outputs: tuple[tuple[str, Buffer, Node], ...]
    offsets: Mapping[Buffer, int]
    arena_bytes: int
    arena_lower_bound_bytes: int
    weights_bytes: int
    scratch_bytes: int
    threads: int
    views: Mapping[Node, View] = field(default_factory=dict)
    sizes: Mapping[Expr, Buffer] = field(default_factory=dict)  # those that kernels compute, each in an i64
    demands: tuple[tuple[str, Buffer], ...] = ()  # truth values that must hold after the run
    locks: int = 0  # counters that groups of GPU kernels meet at: zero before a run and after it
    states: Mapping[Buffer, Buffer] = field(default_factory=dict)  # outputs that may lie where an input lies, and those
    parts: tuple[Part, ...] = ()  # in the order in which they run
    assignment: Assignment | None = None  # the device of every block, where there is a GPU next to the CPU
    choices: Mapping[str, str] = field(default_factory=dict)  # of prices and measurements: by key, the variant taken

"""Results of scheduling: buffers, kernels and the program they form. Nothing here knows a target language."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import ClassVar

import numpy as np

from edgec.device.device import Device
from edgec.fuse.assignment import Assignment
from edgec.fuse.block import Block
from edgec.ir import expr as X
from edgec.ir.expr import Expr, Extent
from edgec.ir.extent import extent_at
from edgec.ir.graph import Graph, Node
from edgec.ir.nest import most
from edgec.ir.sizes import NO_SIZES, Sizes, shape_at
from edgec.ir.types import DTYPES
from edgec.schedule.offer import SparseOffer
from edgec.schedule.replicas import Replicas


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
    """Location of a value: element [i0, i1, ...] is at ``offset + sum(i * stride)`` of ``buffer`` (in elements)."""

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


class Schedule(ABC):
    """The decisions about one kernel: a frozen dataclass. Only `schedule` and `emit` know its class."""

    template: ClassVar[str]

    @property
    @abstractmethod
    def describe(self) -> str:
        """The schedule and the sizes of its loops, as a short text."""

    @property
    def steps(self) -> tuple[Kernel, ...]:
        """The kernels of a chain, in order; empty for all other schedules."""
        return ()

    @property
    def task_loops(self) -> tuple[Expr, ...]:
        """The loops whose iterations are the tasks that threads share, outermost first."""
        return ()

    @property
    def shared_steps(self) -> tuple[Kernel, ...]:
        """The steps before the last that other threads may still run when one thread runs the last."""
        return ()

    def overwrites(self, operand: Buffer) -> bool:
        """May the result be stored where ``operand`` is: is each element read only just before its place is written?"""
        return False

    @property
    def copied(self) -> Buffer | None:
        """The operand whose elements are stored as they are, each at its own place."""
        return None

    @property
    def merges(self) -> bool:
        """Do threads wait for one another once within the kernel, and then merge what they have computed?"""
        return False

    @property
    def locks(self) -> int:
        """Counters that groups of a GPU synchronize with: zero before the launch and after it."""
        return 0

    @property
    def prefetched(self) -> tuple[Buffer, ...]:
        """Weights of a later kernel that this one loads into the cache."""
        return ()

    @property
    def uses_tiles(self) -> bool:
        """Does it compute on a matrix unit that a process has to ask for?"""
        return any(s.schedule.uses_tiles for s in self.steps)

    @property
    def header(self) -> Path | None:
        """A header outside the runtime that the kernel's functions are in: that of a micro-kernel of a user's own."""
        return None

    @property
    def halo_bytes(self) -> int:
        """Bytes of a halo that the kernel fills."""
        return 0

    def fill_halo(self, memory: np.ndarray, sizes: Sizes) -> None:
        """Fill that halo, in the elements of the buffer that the kernel writes."""
        assert not self.halo_bytes

    @property
    def variant(self) -> str | None:
        """The name of the variant of a product; None for a schedule without variants."""
        return None

    @property
    def register_tile(self) -> tuple[int, int] | None:
        """(rows, vectors) of a register tile that could be another; None for a schedule without one."""
        return None

    def register_tiles(self, device: Device) -> Sequence[tuple[int, int]]:
        """The register tiles that the kernel could have, the cheapest by the model of the device first."""
        return ()

    def predicted_seconds(self, device: Device) -> float | None:
        """Seconds by the model that chose the schedule; None where the price of the block is all there is."""
        return None

    def multiply_adds(self, device: Device) -> float:
        """Multiply-adds a cycle of one multiprocessor, at most, by the instructions of this kernel."""
        return float(device.gpu.multiply_adds)


@dataclass(frozen=True)
class Level:
    """Loops that a template opens at one place, with the product of their iterations."""

    loops: tuple[Expr, ...]
    times: float


@dataclass(frozen=True)
class Nest:
    """Expressions inside loops, as a template has them; ``levels`` are outermost first.

    Each expression is combined with an accumulator where the nest ``accumulates``; ``known`` values are not computed.
    """

    levels: tuple[Level, ...]
    bodies: tuple[Expr, ...]
    accumulates: bool = False
    known: tuple[Expr, ...] = ()
    lane: Expr | None = None

    @staticmethod
    def over(
        levels: Iterable[Sequence[Expr]], bodies: tuple[Expr, ...], accumulates: bool = False,
        known: tuple[Expr, ...] = (), lane: Expr | None = None,
    ) -> Nest:  # fmt: skip
        """A nest of loops that run over all of their iterations."""
        each = tuple(Level(tuple(loops), prod(map(most, loops))) for loops in levels)
        return Nest(each, bodies, accumulates, known, lane)


class BlockSchedule(Schedule):
    """A schedule that computes one block: ``store`` is written, at ``address``."""

    store: Buffer
    address: Expr

    @property
    @abstractmethod
    def bodies(self) -> list[Expr]:
        """Everything that loads from buffers."""

    @property
    def at_store(self) -> list[Expr]:
        """Those bodies that are computed just before they are stored, for one place after the other."""
        return []

    @property
    def nests(self) -> tuple[Nest, ...]:
        """Its loops with the expressions computed in them; empty where the block's formula describes them."""
        return ()

    @property
    def repeats(self) -> float:
        """Times that it computes each sum of its block's formula; of ``nests``, the part that costs anything."""
        return 1

    @property
    def tables(self) -> list[Buffer]:
        """Tables that are read in addition to the loads of the bodies."""
        return []

    @property
    def scratch_bytes(self) -> int:
        """Memory that each thread needs for itself; or all of them together, where scratch is shared."""
        return 0

    @property
    def shares_scratch(self) -> bool:
        """Is there one scratch, however many threads there are?"""
        return False

    @property
    def operands(self) -> tuple[Buffer, ...]:
        """Every buffer once, the result last."""
        loaded = [e.value for body in self.bodies for e in X.loads(body) if isinstance(e.value, Buffer)]
        return (*dict.fromkeys([*loaded, *self.tables]), self.store)

    def overwrites(self, operand: Buffer) -> bool:
        """May the result lie where ``operand`` does: is each element read only just before its place is written?"""
        last = self.at_store
        loads = [(body, e) for body in self.bodies for e in X.loads(body) if e.value is operand]
        if not last or operand in self.tables or any(body not in last for body, _ in loads):
            return False
        for body in last:
            outside = X.transform(body, lambda e: X.const(0.0, e.dtype) if e.op == "reduce" else None)
            reads = [e for e in X.loads(body) if e.value is operand]
            direct = [e for e in X.loads(outside) if e.value is operand]
            if len(reads) != len(direct) or any(e.args[0] is not self.address for e in reads):
                return False
        return True

    @property
    def copied(self) -> Buffer | None:
        """The operand whose elements are stored as they are, each at its own place."""
        if len(self.bodies) != 1:
            return None
        (body,) = self.bodies
        if body.op != "load" or not isinstance(body.value, Buffer):
            return None
        return body.value if self.overwrites(body.value) else None


@dataclass(frozen=True, eq=False)
class Kernel:
    """One kernel: the schedule it is rendered from, and the buffers it accesses.

    ``operands`` are the buffers in the order of the function's parameters; the last one is written. ``sizes`` are the
    run-time sizes it needs. ``guards`` are the conditions under which it is called: buffers of one boolean, and the
    value that each must have. ``scratch_bytes`` is the scratch memory of each thread, or of the only one that executes
    the kernel; the first operand is the buffer with the scratch memory of all threads.
    """

    schedule: Schedule
    operands: tuple[Buffer, ...]
    block: Block | None
    names: tuple[str, ...]
    scratch_bytes: int = 0
    sizes: tuple[Expr, ...] = ()
    guards: tuple[tuple[Buffer, bool], ...] = ()
    sparsity: SparseOffer | None = None  # for weights with zeros
    read_sizes: Mapping[Expr, Buffer] = field(default_factory=dict)  # sizes that it reads itself, on a GPU

    @property
    def template(self) -> str:
        """The kind of kernel."""
        return self.schedule.template

    @property
    def describe(self) -> str:
        """The schedule and the sizes of its loops, as a short text."""
        return self.schedule.describe

    @property
    def steps(self) -> tuple[Kernel, ...]:
        """The kernels of a chain, in order; for all others, the kernel itself."""
        return self.schedule.steps or (self,)

    @property
    def main(self) -> Kernel:
        """The step that computes the result: the last one."""
        return self.steps[-1]

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
        """Bytes of its own weights, without those that it prefetches for a later kernel."""
        others = self.schedule.prefetched
        return sum(b.bytes for b in dict.fromkeys(self.reads) if b.space == "weights" and b not in others)


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
    """Kernels in order, and the offset in bytes of every buffer, in the arena or in the weights (``offsets``).

    ``threads`` is the largest number of threads. Where several devices share the network, ``parts`` are programs, and
    the figures of the whole are their sums. Of ``levels``, kernels are those of the first, and figures the greatest.
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
    demands: tuple[tuple[str, Buffer], ...] = ()  # runtime assertions: a message, and the boolean that must be true
    locks: int = 0  # counters for synchronization of thread blocks on a GPU: zero before a run and after it
    states: Mapping[Buffer, Buffer] = field(default_factory=dict)  # outputs that may share an input's memory -> input
    parts: tuple[Part, ...] = ()  # in the order in which they run
    assignment: Assignment | None = None  # the device of every block, where there is a GPU next to the CPU
    single: Program | None = None  # on a GPU, the program for one token of a language model: same weights, same arena
    levels: tuple[Part, ...] = ()  # of a library for several processors: their programs, over the same weights
    training: Training | None = None  # the step that trains weights which this program takes as inputs
    bounds: Program | None = None  # of the outputs, over the same weights
    ranks: Ranks | None = None  # of several GPUs that run it together, each on weights of its own
    choices: Mapping[str, str] = field(default_factory=dict)  # of prices and measurements: by key, the variant taken


@dataclass(frozen=True, eq=False)
class Ranks:
    """The programs of the GPUs behind the first, which differ from it in weights alone, and the whole network.

    GPUs have parts of inputs and outputs called ``slices``. Programs take one of ``chunks`` parts of those ``chunked``.
    """

    others: tuple[Program, ...]
    graph: Graph
    slices: frozenset[str]
    chunks: int = 1
    chunked: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class Training:
    """The training of a network: the program of a step, and what begins its states (zero where nothing is said)."""

    step: Program
    initial: Mapping[str, np.ndarray]  # by the name of a trained weight
    classes: int | None  # that targets number, or None for targets that are floats
    rate: float  # the learning rate where the caller gives none
    said: Mapping[str, str]  # the options that chose it
    model: bytes  # the file that trained weights are written back to
    loss: bytes | None = None  # the file of a loss of the user's own
    places: Mapping[str, int] = field(default_factory=dict)  # of weights in the first state, where that is all of them
    statistics: tuple[str, ...] = ()  # names of what no gradient changes among the trained weights
    micro_batches: int = 1  # runs of the step's program that a batch takes
    replicas: Replicas | None = None  # of its program, that threads run side by side
    early: frozenset[str] = frozenset()  # names of the states that change with every micro-batch

"""Tuning: blocks that choices are about are compiled alone, timed on this machine, and kept in the profile database.

A plan is made by the prices that are known; what it would have liked to know is measured, and it is made again, until
nothing is unknown or the time is up. Blocks that are equal are measured once, whichever networks they come from.
"""

from __future__ import annotations

import ctypes
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgec import artefact
from edgec.check.kernels import aligned, arguments
from edgec.device.facts import Device
from edgec.device.profiles import Measured, Profiles, Target, target_of
from edgec.device.toolchain import Compiler, compile_shared
from edgec.emit.render import render
from edgec.emit.source import generate
from edgec.errors import EdgecError, ToolchainError, UsageError
from edgec.fuse import Block, Plan
from edgec.fuse.choice import Prices
from edgec.fuse.plan import plan as plan_graph
from edgec.fuse.price import CostModel
from edgec.ir.graph import Graph
from edgec.ir.types import DTYPES
from edgec.ir.vector import vector_lanes
from edgec.locate import data_folder
from edgec.options import Options
from edgec.pipeline import Progress, silent
from edgec.schedule.build import kernel_of
from edgec.schedule.flat import Weights
from edgec.schedule.layout import views_of
from edgec.schedule.memory import ALIGNMENT
from edgec.schedule.program import Buffer, Program

#: Blocks that are compiled together.
BATCH = 12
#: Seconds a block is timed for at least, in so many turns of which the quickest counts.
TURN, TURNS = 2e-3, 7
#: Operands larger than this together are not measured: they would not be in this machine's memory for long.
LARGEST = 1 << 30


@dataclass(frozen=True)
class Tuned:
    """What a tuning did: blocks measured now, known before, left out for time; seconds it took."""

    measured: int
    known: int
    left: int
    seconds: float


def prices_for(options: Options, frozen: Mapping[str, str] | None = None) -> Prices:
    """What blocks cost for a build: earlier choices, times in the database, the model of the device."""
    known: dict[str, float] = {}
    if options.tuned and Profiles().path.is_file():
        with suppress(ToolchainError):  # without its compiler nothing was measured for this target
            known = Profiles().known(target(options))
    return Prices(CostModel(options.device), known.get, frozen or {})


def target(options: Options) -> Target:
    """The target of a build. Raises ToolchainError when there is no compiler for it."""
    compiler = artefact.compiler_for(options.device, options.compiler)
    return target_of(options.device, str(compiler), options.templates)


def tune(graph: Graph, options: Options, budget: float, progress: Progress = silent) -> Tuned:
    """Measure what planning ``graph`` asks for, for about ``budget`` seconds at most.

    Raises UsageError for a device that is not this machine, ToolchainError without a compiler.
    """
    if not artefact.runs_here(options.device):
        hint = "tune on the device and take its database along: edgec profiles export, edgec profiles import"
        raise UsageError(f"nothing can be timed here for '{options.device.name}'", hint=hint)
    compiler = artefact.compiler_for(options.device, options.compiler)
    if not isinstance(compiler, Compiler):
        hint = "kernels of a GPU have one way each so far"
        raise UsageError(f"kernels for '{options.device.name}' are not timed alone yet", hint=hint)
    database, where = Profiles(), target(options)
    begun = time.monotonic()
    known = database.known(where)
    before, new = 0, 0
    refused: set[str] = set()
    while True:
        asked: set[str] = set()

        def look(fingerprint: str, asked: set[str] = asked) -> float | None:
            asked.add(fingerprint)
            return known.get(fingerprint)

        prices = Prices(CostModel(options.device), look)
        plan_graph(graph, options.fuse, prices)
        before = max(before, len(asked & set(known)) - new)
        unknown = [(f, b) for f, b in prices.unknown.items() if f not in refused]
        late = time.monotonic() - begun > budget
        if not unknown or late:
            return Tuned(new, before, len(unknown), time.monotonic() - begun)
        progress("tune", f"{new} measured, {len(unknown)} to go")
        batch = dict(unknown[:BATCH])
        times = measure(batch.values(), options.device, compiler, options.templates)
        entries = [Measured(f, where, s, describe(b)) for (f, b), s in zip(batch.items(), times) if s is not None]
        refused.update(f for f, s in zip(batch, times) if s is None)
        database.put(entries)
        known.update({m.block: m.seconds for m in entries})
        new += len(entries)


def describe(block: Block) -> str:
    """A block in a few words, for the list of the database."""
    operators = " ".join(n.op for n in block.nodes)
    return f"{block.kind}: {operators} -> {block.output.type}"


def measure(
    blocks: Iterable[Block], device: Device, compiler: Compiler, templates: Sequence[Path] = ()
) -> list[float | None]:
    """Seconds of every block as a kernel alone, on one thread with warm caches; None for one that cannot be had."""
    with tempfile.TemporaryDirectory(prefix="edgec-tune-") as folder:
        calls = loaded(blocks, device, compiler, Path(folder), templates)
        best = [float("inf")] * len(calls)
        for _ in range(TURNS):  # in turns, so that what else the machine does is shared out
            best = [b if call is None else min(b, seconds_of(call)) for b, call in zip(best, calls)]
        return [None if call is None else b for call, b in zip(calls, best)]


def loaded(
    blocks: Iterable[Block], device: Device, compiler: Compiler, folder: Path, templates: Sequence[Path] = ()
) -> list[Callable[[], None] | None]:
    """Every block compiled in ``folder`` as a kernel alone: a function that runs it once; None where there is none."""
    programs = [_alone(block, device) for block in blocks]
    texts = [None if p is None else generate(p, f"block{k}", templates).functions[0] for k, p in enumerate(programs)]
    functions = [f for f in texts if f is not None]
    folder.mkdir(parents=True, exist_ok=True)
    for header in (data_folder("codegen_templates") / "runtime").glob("ec_*.h"):
        (folder / header.name).write_bytes(header.read_bytes())
    page = {
        "name": "blocks", "NAME": "BLOCKS", "version": "tuning", "device": device,
        "vector_lanes": vector_lanes(device), "sources": _Functions(tuple(functions)), "group": functions,
    }  # fmt: skip
    (folder / "blocks_kernels.h").write_text(render("project/kernels.h.jinja", templates, **page))
    (folder / "blocks.c").write_text(render("project/kernels.c.jinja", templates, **page))
    library = ctypes.CDLL(
        str(compile_shared(compiler, device, [folder / "blocks.c"], folder / "blocks.so", include=[folder]))
    )
    return [None if p is None or f is None else _call(p, getattr(library, f.name)) for p, f in zip(programs, texts)]


@dataclass(frozen=True)
class _Functions:
    functions: tuple[object, ...]


def _alone(block: Block, device: Device) -> Program | None:
    """A program of one kernel whose operands lie as it would like them to, none over another."""
    graph = Graph((), ())
    count = iter(range(1 << 30))
    views = views_of(
        Plan(graph, (block,), {}, ()), lambda node, n: Buffer(f"b{next(count)}", "arena", node.type.dtype, n)
    )
    try:
        kernel = kernel_of(block, views, device, Weights(), 1, ())
    except EdgecError:
        return None
    offsets: dict[Buffer, int] = {}
    end = 0
    for buffer in kernel.operands:
        offsets[buffer] = end
        end += -(-buffer.bytes // ALIGNMENT) * ALIGNMENT
    if end > LARGEST:
        return None
    return Program(graph, (kernel,), (), (), offsets, end, end, 0, kernel.scratch_bytes, 1, views)


def _call(program: Program, function: Callable[..., None]) -> Callable[[], None]:
    """A function that runs the one kernel of a program once, on memory of its own."""
    (kernel,) = program.kernels
    memory = aligned(program.arena_bytes)
    for buffer in kernel.operands:
        _fill(memory[program.offsets[buffer] :][: buffer.bytes], buffer)

    def pointer(buffer: Buffer) -> ctypes.c_void_p:
        return ctypes.c_void_p(memory.ctypes.data + program.offsets[buffer])

    given = arguments(kernel, pointer, {s: s.value.high for s in kernel.sizes})

    def call(memory: np.ndarray = memory) -> None:  # which has to live as long as it is called
        function(*given)

    return call


def seconds_of(call: Callable[[], None]) -> float:
    """Seconds of one call. The processor's time for this thread: what it does for others does not count."""
    clock = time.thread_time
    calls = 1
    while True:
        begun = clock()
        for _ in range(calls):
            call()
        taken = clock() - begun
        if taken >= TURN:
            return taken / calls
        calls *= max(2, min(16, int(TURN / max(taken, 1e-7))))


def _fill(memory: np.ndarray, buffer: Buffer) -> None:
    """Operands to time with: weights as they are, small floats, and zeros for everything that may be a position."""
    if buffer.data is not None:
        memory[...] = np.ascontiguousarray(buffer.data).reshape(-1).view(np.uint8)
    elif buffer.dtype in ("f32", "f64", "f16"):
        values = np.random.default_rng(0).standard_normal(buffer.elements)
        memory[...] = values.astype(DTYPES[buffer.dtype]).view(np.uint8)

"""Kernels alone: a block as a program of one kernel, compiled and timed on this machine, on one thread."""

from __future__ import annotations

import ctypes
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from edgec.device.device import Device
from edgec.device.toolchain import Compiler, compile_shared
from edgec.emit.render import render
from edgec.emit.source import Sources, generate
from edgec.errors import EdgecError
from edgec.execute.kernels import aligned, arguments
from edgec.fuse import Block, Plan
from edgec.ir.graph import Graph, Node
from edgec.ir.types import DTYPES
from edgec.resources import data_folder
from edgec.schedule.build import kernel_of
from edgec.schedule.flat import Weights
from edgec.schedule.memory import ALIGNMENT
from edgec.schedule.program import Buffer, Kernel, Program, View
from edgec.schedule.views import views_of

#: Seconds a block is timed for at least, in so many turns of which the quickest counts.
TURN, TURNS = 2e-3, 7
#: Operands larger than this together are not measured: they would not be in this machine's memory for long.
LARGEST = 1 << 30


def measured(
    programs: Sequence[Program | None], device: Device, compiler: Compiler, templates: Sequence[Path] = ()
) -> list[float | None]:
    """Seconds of programs of one kernel, on one thread with warm caches; None for one that cannot be had."""
    with tempfile.TemporaryDirectory(prefix="edgec-tune-") as folder:
        calls = loaded_programs(programs, device, compiler, Path(folder), templates)
        best = [float("inf")] * len(calls)
        for _ in range(TURNS):  # in turns, so that what else the machine does is shared out
            best = [b if call is None else min(b, seconds_of(call)) for b, call in zip(best, calls)]
        return [None if call is None else b for call, b in zip(calls, best)]


def loaded(
    blocks: Iterable[Block], device: Device, compiler: Compiler, folder: Path, templates: Sequence[Path] = ()
) -> list[Callable[[], None] | None]:
    """Every block compiled in ``folder`` as a kernel alone: a function that runs it once; None where there is none."""
    return loaded_programs(
        [single_kernel_program(block, device) for block in blocks], device, compiler, folder, templates
    )


def loaded_programs(
    programs: Sequence[Program | None],
    device: Device,
    compiler: Compiler,
    folder: Path,
    templates: Sequence[Path] = (),
) -> list[Callable[[], None] | None]:
    """Programs of one kernel compiled in ``folder``: a function each that runs it once; None where there is none."""
    made = [None if p is None else generate(p, f"block{k}", templates) for k, p in enumerate(programs)]
    texts = [None if m is None else m.functions[0] for m in made]
    functions = [f for f in texts if f is not None]
    headers = tuple(dict.fromkeys(h for m in made if m is not None for h in m.headers))
    folder.mkdir(parents=True, exist_ok=True)
    for header in (*(data_folder("codegen_templates") / "runtime").glob("ec_*.h"), *headers):
        (folder / header.name).write_bytes(header.read_bytes())
    page = {
        "name": "blocks", "NAME": "BLOCKS", "version": "tuning", "device": device,
        "vector_lanes": device.vector_lanes, "sources": Sources(tuple(functions), (), headers), "group": functions,
        "uses_tiles": any(k.schedule.uses_tiles for p in programs if p is not None for k in p.kernels),
    }  # fmt: skip
    (folder / "blocks_kernels.h").write_text(render("project/kernels.h.jinja", templates, **page))
    (folder / "blocks.c").write_text(render("project/kernels.c.jinja", templates, **page))
    library = ctypes.CDLL(
        str(compile_shared(compiler, device, [folder / "blocks.c"], folder / "blocks.so", include=[folder]))
    )
    return [None if p is None or f is None else _call(p, getattr(library, f.name)) for p, f in zip(programs, texts)]


def single_kernel_program(block: Block, device: Device) -> Program | None:
    """A program of one kernel whose operands lie as it would like them to, none over another."""
    count = iter(range(1 << 30))
    views = views_of(
        Plan(Graph((), ()), (block,), {}, ()), lambda node, n: Buffer(f"b{next(count)}", "arena", node.type.dtype, n)
    )
    try:
        return program_of(kernel_of(block, views, device, Weights()), views)
    except EdgecError:
        return None


def program_of(kernel: Kernel, views: Mapping[Node, View]) -> Program | None:
    offsets: dict[Buffer, int] = {}
    end = 0
    for buffer in kernel.operands:
        offsets[buffer] = end
        end += -(-buffer.bytes // ALIGNMENT) * ALIGNMENT
    if end > LARGEST:
        return None
    return Program(Graph((), ()), (kernel,), (), (), offsets, end, end, 0, kernel.scratch_bytes, 1, views)


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

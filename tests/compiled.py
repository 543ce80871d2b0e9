"""Graphs compiled for tests, many to one library: a compiler run costs more than most test graphs do."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

from edgec.device.device import Device
from edgec.device.load import load_device
from edgec.device.precompiled import Headers
from edgec.device.toolchain import LANGUAGE_FLAGS, WARNING_FLAGS
from edgec.emit.project import files
from edgec.errors import EdgecError
from edgec.fuse import plan
from edgec.ir.expr import Expr
from edgec.ir.graph import Graph
from edgec.ir.sizes import dimensions, read_sizes, shape_at
from edgec.ir.types import DTYPES
from edgec.resources import data_folder
from edgec.schedule.build import schedule
from edgec.schedule.options import ScheduleOptions
from edgec.schedule.program import Program

#: The options that ship; `EDGEC_TEST_OPTIMIZATION=-O1` compiles in half the time while a change is being made.
OPTIMIZATION = os.environ.get("EDGEC_TEST_OPTIMIZATION", "-O3")
STRICT = [*(OPTIMIZATION if f == "-O3" else f for f in LANGUAGE_FLAGS), "-g0", *WARNING_FLAGS]
FLAGS = [*STRICT, "-march=native"]
GUARD = 64  # bytes of known content around every buffer a test passes


class Compiled:
    """A compiled graph: called with arrays by input name, it returns arrays by output name.

    The arena and the outputs are poisoned before the run, and guards around every buffer are checked after it.
    """

    def __init__(self, library: ctypes.CDLL, prefix: str, program: Program, weights: bytes) -> None:
        self.library = library
        self.run = getattr(library, f"{prefix}_run")
        self.run_pool = getattr(library, f"{prefix}_run_pool")
        self.program = program
        self.weights = _Guarded(len(weights))
        self.weights.inner[:] = np.frombuffer(weights, np.uint8)

    def __call__(
        self, inputs: Mapping[str, np.ndarray], threads: int | None = None, in_place: bool = False
    ) -> dict[str, np.ndarray]:
        """Run once, on the calling thread or, with ``threads``, on a pool of so many.

        ``in_place``: every state and its new value are one array.
        """
        p = self.program
        arena = _Guarded(p.arena_bytes)
        arena.inner[:] = 0xFF  # every float a NaN, every integer -1
        buffers = [self.weights, arena]
        sizes: dict[Expr, int] = {}
        for name, _, node in p.inputs:
            read_sizes(name, node.type, inputs[name].shape, sizes)
        chosen = dimensions(node.type for _, _, node in p.inputs)
        is_open = bool(chosen or p.sizes)
        record = _Guarded(8 * (len(chosen) + len(p.sizes)))
        counts = record.inner.view(np.int64)
        counts[: len(chosen)] = [sizes[s] * d.step for s, d in chosen.items()]
        if is_open:
            buffers.append(record)
        for name, _, node in p.inputs:
            value = np.ascontiguousarray(inputs[name], DTYPES[node.type.dtype])
            buffers.append(_Guarded(value.nbytes))
            buffers[-1].inner[:] = value.reshape(-1).view(np.uint8)
        outputs = []
        given = dict(zip((b for _, b, _ in p.inputs), buffers[-len(p.inputs) :] if p.inputs else ()))
        for name, buffer, node in p.outputs:
            if in_place and buffer in p.states:
                buffers.append(given[p.states[buffer]])
            else:
                buffers.append(_Guarded(node.type.bytes))
                buffers[-1].inner[:] = 0xFF
            outputs.append((name, node.type, buffers[-1].inner))
        addresses = [ctypes.c_void_p(b.address) for b in buffers]
        if threads is None:
            status = self.run(*addresses)
        else:
            with Pool(self.library, threads) as pool:
                status = self.run_pool(*addresses[:2], pool, *addresses[2:])
        assert status == 0, f"run returned {status}"
        for b in buffers:
            assert b.is_intact, "wrote outside a buffer"
        sizes.update(zip(p.sizes, map(int, counts[len(chosen) :])))
        shapes = {n: shape_at(t.shape, sizes) for n, t, _ in outputs}
        return {n: raw.view(DTYPES[t.dtype])[: prod(shapes[n])].reshape(shapes[n]).copy() for n, t, raw in outputs}


class _Guarded:
    """``inner`` is ``size`` bytes at a 64-byte boundary, with known content on both sides."""

    def __init__(self, size: int) -> None:
        self.whole = np.full(size + 3 * GUARD, 0xA5, np.uint8)
        self.start = GUARD + -(self.whole.ctypes.data + GUARD) % 64
        self.end = self.start + size
        self.inner = self.whole[self.start : self.end]
        self.address = self.whole.ctypes.data + self.start

    @property
    def is_intact(self) -> bool:
        return bool((self.whole[: self.start] == 0xA5).all() and (self.whole[self.end :] == 0xA5).all())


class Pool:
    """Threads of ``ec_pool.h``, for the length of a ``with``."""

    def __init__(self, library: ctypes.CDLL, threads: int) -> None:
        self.library = library
        library.ec_pool_bytes.restype = ctypes.c_size_t
        library.ec_pool_init.restype = ctypes.c_void_p
        self.memory = ctypes.create_string_buffer(library.ec_pool_bytes(threads))
        self.threads = threads

    def __enter__(self) -> ctypes.c_void_p:
        self.pool = ctypes.c_void_p(self.library.ec_pool_init(self.memory, self.threads))
        assert self.pool.value is not None
        return self.pool

    def __exit__(self, *raised: object) -> None:
        self.library.ec_pool_destroy(self.pool)


@dataclass(frozen=True)
class Written:
    """One graph as sources in a folder: its prefix, its program and the content of its weights."""

    prefix: str
    program: Program
    weights: bytes


@dataclass(frozen=True)
class Target:
    """A device this machine can run code for, and the flags that select it."""

    device: Device
    flags: tuple[str, ...]


def target(name: str) -> Target:
    device = load_device(name)
    return Target(device, tuple(FLAGS) if name == "host" else (*STRICT, *device.toolchain.cflags))


def program_of(graph: Graph, device: Device | None = None, fuse: bool = True, threads: int = 2) -> Program:
    return schedule(plan(graph, fuse), device or load_device("host"), ScheduleOptions(threads))


def write_graphs(
    graphs: Mapping[str, Graph],
    folder: Path,
    device: Device,
    fuse: bool = True,
    threads: int = 2,
    templates: Sequence[Path] = (),
    change: Callable[[Program], Program] = lambda program: program,
) -> dict[str, Written | EdgecError]:
    """The sources of all graphs, and ``all.c``, which includes them; a graph edgec refuses gives its error instead."""
    made: dict[str, Written | EdgecError] = {}
    sources: list[str] = []
    for number, (name, graph) in enumerate(graphs.items()):
        prefix = f"g{number}"
        try:
            program = change(program_of(graph, device, fuse, threads))
            written = files(program, device, prefix, templates)
        except EdgecError as error:
            made[name] = error
            continue
        for path, content in written.items():
            if path.endswith((".c", ".h")) and path not in ("main.c", "runner.c"):
                (folder / path).write_bytes(content)
        own = (path for path in written if path.startswith(prefix) and path.endswith(".c"))
        sources += [path for path in own if not path.endswith("_session.c")]  # its names are those of its own file
        made[name] = Written(prefix, program, written[f"{prefix}_weights.bin"])
    for path in (data_folder("codegen_templates") / "runtime").glob("ec_pool.[ch]"):
        (folder / path.name).write_bytes(path.read_bytes())  # with the names that it has outside of a project
    # One translation unit: the preprocessor and the headers are most of the work.
    text = "".join(f'#include "{path}"\n' for path in ("ec_pool.c", *sources))
    (folder / "all.c").write_text(text)
    return made


def compile_c(folder: Path, source: str, output: str, flags: Sequence[str]) -> Path:
    """Compile one file in ``folder``; fails with what the compiler says."""
    compiler = os.environ.get("CC", "gcc")
    first = Headers("gcc", [compiler], "").arguments(flags, folder / source, 1) if compiler == "gcc" else []
    command = [compiler, *first, *flags, "-o", output, source, "-lm", "-lpthread"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr[:4000]
    return folder / output


def compile_graphs(
    graphs: Mapping[str, Graph],
    folder: Path,
    fuse: bool = True,
    flags: Sequence[str] = FLAGS,
    device: Device | None = None,
    threads: int = 2,
    templates: Sequence[Path] = (),
) -> dict[str, Compiled | EdgecError]:
    """One shared library with all graphs; a graph edgec refuses gives its error instead."""
    made = write_graphs(graphs, folder, device or load_device("host"), fuse, threads, templates)
    library = ctypes.CDLL(str(compile_c(folder, "all.c", "all.so", [*flags, "-shared", "-fPIC"])))
    return {
        name: entry if isinstance(entry, EdgecError) else Compiled(library, entry.prefix, entry.program, entry.weights)
        for name, entry in made.items()
    }

"""Graphs compiled for tests, many to one library: a compiler run costs more than most test graphs do."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from edgec.device.facts import Device, load_device
from edgec.emit.project import files
from edgec.errors import EdgecError
from edgec.fuse import plan
from edgec.ir.graph import Graph
from edgec.ir.types import DTYPES
from edgec.schedule.build import schedule
from edgec.schedule.program import Program

FLAGS = ["-std=gnu11", "-O1", "-g0", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-Wall", "-Wextra", "-Werror"]
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
GUARD = 64  # bytes of known content around every buffer a test passes


class Compiled:
    """A compiled graph: called with arrays by input name, it returns arrays by output name.

    The arena and the outputs are poisoned before the run, and guards around every buffer are checked after it.
    """

    def __init__(self, library: ctypes.CDLL, prefix: str, program: Program, weights: bytes) -> None:
        self.run = getattr(library, f"{prefix}_run")
        self.program = program
        self.weights = _Guarded(len(weights))
        self.weights.inner[:] = np.frombuffer(weights, np.uint8)

    def __call__(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        p = self.program
        arena = _Guarded(p.arena_bytes)
        arena.inner[:] = 0xFF  # every float a NaN, every integer -1
        buffers = [self.weights, arena]
        for name, _, node in p.inputs:
            value = np.ascontiguousarray(inputs[name], DTYPES[node.type.dtype])
            buffers.append(_Guarded(value.nbytes))
            buffers[-1].inner[:] = value.reshape(-1).view(np.uint8)
        outputs = []
        for name, _, node in p.outputs:
            buffers.append(_Guarded(node.type.bytes))
            buffers[-1].inner[:] = 0xFF
            outputs.append((name, node.type, buffers[-1].inner))
        status = self.run(*(ctypes.c_void_p(b.address) for b in buffers))
        assert status == 0, f"run returned {status}"
        for b in buffers:
            assert b.is_intact, "wrote outside a buffer"
        return {n: raw.view(DTYPES[t.dtype]).reshape(t.shape).copy() for n, t, raw in outputs}


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


def program_of(graph: Graph, device: Device | None = None, fuse: bool = True, threads: int = 2) -> Program:
    return schedule(plan(graph, fuse), device or load_device("host"), threads)


def compile_graphs(
    graphs: Mapping[str, Graph], folder: Path, fuse: bool = True, flags: Sequence[str] = FLAGS
) -> dict[str, Compiled | EdgecError]:
    """One shared library with all graphs; a graph edgec refuses gives its error instead."""
    device = load_device("host")
    made: dict[str, tuple[str, Program, bytes] | EdgecError] = {}
    sources: list[str] = []
    for number, (name, graph) in enumerate(graphs.items()):
        prefix = f"g{number}"
        try:
            program = program_of(graph, device, fuse)
            written = files(program, device, prefix)
        except EdgecError as error:
            made[name] = error
            continue
        for path, content in written.items():
            if path.endswith((".c", ".h")) and path != "main.c":
                (folder / path).write_bytes(content)
        sources += [path for path in written if path.startswith(prefix) and path.endswith(".c")]
        made[name] = prefix, program, written[f"{prefix}_weights.bin"]
    # One translation unit: the preprocessor and the headers are most of the work.
    unit = folder / "all.c"
    unit.write_text("".join(f'#include "{path}"\n' for path in sources) + '#include "ec_pool.c"\n')
    library = folder / "all.so"
    compiler = os.environ.get("CC", "gcc")
    done = subprocess.run(
        [compiler, *flags, "-shared", "-fPIC", "-o", str(library), str(unit), "-lm", "-lpthread"],
        capture_output=True, text=True, cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[:4000]
    loaded = ctypes.CDLL(str(library))
    return {
        name: entry if isinstance(entry, EdgecError) else Compiled(loaded, *entry) for name, entry in made.items()
    }

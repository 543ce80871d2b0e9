"""Graphs compiled for a GPU and run on the processor: the kernels are C++ there, and the threads of a group fibers.

With EDGEC_TEST_GPU=1 in the environment they are compiled by nvcc and run on the GPU instead.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgec.device.cuda import CudaCompiler, compile_cuda, pick_cuda_compiler
from edgec.device.device import Device
from edgec.emit.project import files
from edgec.errors import EdgecError, ToolchainError
from edgec.fuse import plan
from edgec.ir.graph import Graph
from edgec.ir.types import DTYPES
from edgec.schedule.build import schedule
from edgec.schedule.gpu.attention import largest_head
from edgec.schedule.options import ScheduleOptions
from edgec.schedule.program import Program

FLAGS = ("-x", "c++", "-std=c++17", "-O1", "-DEC_ON_CPU", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas")


def nvcc(device: Device) -> CudaCompiler:
    """The compiler; without one there is nothing to test, but what it says of a source is no reason to skip."""
    try:
        return pick_cuda_compiler(device)
    except ToolchainError as missing:
        pytest.skip(str(missing))


class Emulated:
    """A network for a GPU as a function on arrays by name; its arena is poisoned before every run."""

    def __init__(self, library: ctypes.CDLL, prefix: str, program: Program, weights: bytes) -> None:
        self.library, self.prefix, self.program = library, prefix, program
        self.session = ctypes.c_void_p()
        held = np.frombuffer(weights, np.uint8)
        status = self._function("open")(ctypes.byref(self.session), ctypes.c_void_p(held.ctypes.data))
        assert status == 0, f"open returned {status}"

    def _function(self, name: str) -> Any:
        return getattr(self.library, f"{self.prefix}_{name}")

    def __call__(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        assert self._function("poison")(self.session, 0xFF) == 0
        given = [np.ascontiguousarray(inputs[n], DTYPES[node.type.dtype]) for n, _, node in self.program.inputs]
        results = {n: np.empty(node.type.shape, DTYPES[node.type.dtype]) for n, _, node in self.program.outputs}
        for result in results.values():
            result.reshape(-1).view(np.uint8)[...] = 0xFF
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in (*given, *results.values())]
        status = self._function("run_host")(self.session, *pointers)
        assert status == 0, f"run returned {status}"
        return results


def emulate(
    graphs: Mapping[str, Graph],
    folder: Path,
    device: Device,
    fuse: bool = True,
    one_row: bool = False,
    few_bits: bool = False,
    in_levels: bool = False,
) -> dict[str, Emulated | EdgecError]:
    """One library with all graphs; a graph that is refused gives its error instead."""
    made: dict[str, tuple[str, Program, bytes] | EdgecError] = {}
    sources: list[str] = []
    for number, (name, graph) in enumerate(graphs.items()):
        prefix = f"g{number}"
        try:
            planned = plan(
                graph, fuse, gpu=device.is_gpu, head=largest_head(device), one_row=one_row, few_bits=few_bits
            )
            program = schedule(planned, device, ScheduleOptions(fp32_blocks=0, in_levels=in_levels))
            written = files(program, device, prefix)
        except EdgecError as error:
            made[name] = error
            continue
        for path, content in written.items():
            if path.endswith((".cu", ".h")):
                (folder / path).write_bytes(content)
        sources += [path for path in written if path.endswith(".cu")]
        made[name] = (prefix, program, written[f"{prefix}_weights.bin"])
    if not sources:
        return {n: e for n, e in made.items() if isinstance(e, EdgecError)}
    library = folder / "all.so"
    if os.environ.get("EDGEC_TEST_GPU"):
        paths = [folder / source for source in sources]
        compile_cuda(pick_cuda_compiler(device), device, paths, library, jobs=os.cpu_count() or 1)
    else:
        _compile_for_the_processor(folder, sources)
    loaded = ctypes.CDLL(str(library))
    return {n: e if isinstance(e, EdgecError) else Emulated(loaded, *e) for n, e in made.items()}


def _compile_for_the_processor(folder: Path, sources: list[str]) -> None:
    """One translation unit: the headers are most of the work."""
    (folder / "all.cu").write_text("".join(f'#include "{path}"\n' for path in sources))
    command = [os.environ.get("CXX", "g++"), *FLAGS, "-shared", "-fPIC", "-I.", "-o", "all.so", "all.cu"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr[:4000]

"""The compiled kernels of a program, called one by one on memory of our own."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgec.artifact.folder import library_name
from edgec.artifact.library import as_new, require_whole
from edgec.build import Built
from edgec.emit.source import generate
from edgec.emit.weights import weights_blob
from edgec.errors import UsageError
from edgec.execute.executor import ProgramRun
from edgec.ir.expr import Expr
from edgec.schedule.program import Buffer, Kernel, Program


class Kernels:
    """The functions of a compiled program, on one thread."""

    def __init__(self, program: Program, library: Path, name: str, templates: Sequence[Path] = ()) -> None:
        require_whole(library)
        self.program = program
        with as_new(library) as path:
            self.library = ctypes.CDLL(str(path))
        self.functions = [call.function.name for call in generate(program, name, templates).calls]
        self.weights = aligned(max(program.weights_bytes, 1))
        shipped = library.with_name(f"{name}_weights.bin")  # those that the library was linked with
        content = shipped.read_bytes() if shipped.is_file() else b""
        blob = np.frombuffer(content if len(content) >= program.weights_bytes else weights_blob(program), np.uint8)
        self.weights[: program.weights_bytes] = blob[: program.weights_bytes]

    def lend(self, execution: ProgramRun) -> None:
        """Give an execution memory that is aligned as the generated code has it; numpy's need not be."""
        execution.arena = aligned(self.program.arena_bytes)

    def call(self, k: int, execution: ProgramRun) -> Callable[[], None]:
        """A function that runs kernel ``k`` once on the memory of an execution."""
        function = getattr(self.library, self.functions[k])

        def pointer(buffer: Buffer) -> ctypes.c_void_p:
            if buffer.space == "weights":
                return ctypes.c_void_p(self.weights.ctypes.data + self.program.offsets[buffer])
            return ctypes.c_void_p(execution.elements(buffer).ctypes.data)

        given = arguments(self.program.kernels[k], pointer, execution.sizes)
        return lambda: function(*given)

    def beside(self, k: int, meant: ProgramRun, real: ProgramRun) -> bool:
        """Run kernel ``k`` in numpy on ``meant`` and in C on a copy of its memory; False where its guards skip it."""
        real.arena[...] = meant.arena
        for _, buffer, _ in self.program.outputs:
            real.memory[buffer][...] = meant.memory[buffer]
        if meant.step(k) is None and self.program.kernels[k].block is not None:
            return False
        real.sizes = meant.sizes
        self.call(k, real)()
        return True


def library_of(built: Built) -> Path:
    """The library with the kernels of a build. Raises UsageError where it has those of several levels."""
    if built.program.levels:
        hint = "build for one of the devices, without --dispatch"
        raise UsageError("kernels are called one by one, and this library has several of each", hint=hint)
    return built.network.folder / library_name(built.options.name)


def arguments(kernel: Kernel, pointer: Callable[[Buffer], Any], sizes: Mapping[Expr, int]) -> list[Any]:
    """Arguments of a kernel in the generated code: operands, scratch, sizes, thread number and thread count."""
    operands = kernel.operands[1:] if kernel.scratch_bytes else kernel.operands
    scratch = [pointer(kernel.operands[0])] if kernel.scratch_bytes else []
    known = [ctypes.c_ssize_t(sizes[s]) for s in kernel.sizes]
    return [*map(pointer, operands), *scratch, *known, ctypes.c_ssize_t(0), ctypes.c_ssize_t(1)]


def aligned(size: int, alignment: int = 64) -> np.ndarray:
    """Bytes that begin at a multiple of ``alignment``."""
    raw = np.zeros(size + alignment, np.uint8)
    start = -raw.ctypes.data % alignment
    return raw[start : start + size]

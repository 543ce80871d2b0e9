"""CUDA's compiler: where it is, how it is called, and what it says of the kernels it made.

``emulated`` is no CUDA at all: the same sources as C++ for the processor, to run where there is no GPU.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from edgec.device.device import Device
from edgec.device.toolchain import require_written
from edgec.errors import ToolchainError

NVCC_FLAGS = ("-std=c++17", "-O3", "--fmad=true", "-Xcompiler", "-fPIC", "-lineinfo")
CPU_FLAGS = ("-x", "c++", "-std=c++17", "-O2", "-DEC_ON_CPU", "-fPIC", "-Wno-unknown-pragmas")
INSTALL = "install CUDA, or pip install nvidia-cuda-nvcc nvidia-cuda-cccl, or take --compiler emulated"


@dataclass(frozen=True)
class CudaCompiler:
    """A compiler of CUDA sources: nvcc, or the one of the processor that emulates a GPU."""

    kind: Literal["nvcc", "emulated"]
    command: tuple[str, ...]
    version: str

    def __str__(self) -> str:
        return f"{self.kind} {self.version}"


@dataclass(frozen=True)
class KernelReport:
    """ptxas's report on one kernel: registers of a thread, bytes of shared memory and of spills."""

    name: str
    registers: int
    shared_bytes: int
    spill_bytes: int


def pick_cuda_compiler(device: Device, wanted: str | None = None) -> CudaCompiler:
    """nvcc, the ``wanted`` command, or "emulated"; raises ToolchainError where there is none."""
    if wanted == "emulated":
        host = shutil.which(os.environ.get("CXX", "g++")) or shutil.which("c++")
        if host is None:
            raise ToolchainError("no C++ compiler for the emulation was found", hint="install g++")
        return CudaCompiler("emulated", (host,), _version((host,)))
    commands = [tuple(shlex.split(wanted))] if wanted not in (None, "nvcc") else [(c,) for c in _candidates()]
    for command in commands:
        found = shutil.which(command[0])
        if found is not None and (version := _version((found, *command[1:]))):
            return CudaCompiler("nvcc", (found, *command[1:]), version)
    what = f"'{wanted}' is no CUDA compiler that runs here" if wanted else "no nvcc was found"
    raise ToolchainError(f"{what} for '{device.name}'", hint=INSTALL)


def _candidates() -> Iterator[str]:
    if chosen := os.environ.get("NVCC"):
        yield chosen
    yield "nvcc"
    for root in (os.environ.get("CUDA_HOME"), "/usr/local/cuda"):
        if root:
            yield str(Path(root, "bin", "nvcc"))
    spec = importlib.util.find_spec("nvidia")
    for place in spec.submodule_search_locations or () if spec is not None else ():
        yield from map(str, sorted(Path(place).glob("cu*/bin/nvcc"), reverse=True))


def _version(command: tuple[str, ...]) -> str:
    try:
        done = subprocess.run((*command, "--version"), capture_output=True, text=True, check=False)
    except OSError:
        return ""
    number = re.findall(r"\d+(?:\.\d+)+", done.stdout)
    return number[-1] if done.returncode == 0 and number else ""


def has_gpu() -> bool:
    """True if this machine has a driver for an NVIDIA GPU."""
    try:
        return bool(ctypes.CDLL("libcuda.so.1").cuInit(0) == 0)
    except OSError:
        return False


def compile_cuda(
    compiler: CudaCompiler,
    device: Device,
    sources: Sequence[Path],
    output: Path,
    jobs: int = 2,
    progress: Callable[[Path, int, int], None] | None = None,
    link: bool = True,
    shared: bool = True,
    defines: Sequence[str] = (),
) -> list[KernelReport]:
    """Compile sources, ``jobs`` at a time, into the shared library ``output``; what nvcc says of every kernel.

    Without ``link`` they are only compiled; what is not ``shared`` is a program.
    """
    reports: list[KernelReport] = []
    with tempfile.TemporaryDirectory(prefix="edgec-") as folder, ThreadPoolExecutor(max(1, jobs)) as pool:
        objects = [Path(folder, f"{source.stem}.o") for source in sources]
        own = [f"-D{define}" for define in defines]
        said = pool.map(lambda pair: _compile(compiler, device, own, *pair), zip(sources, objects))
        for done, source in enumerate(sources, start=1):
            reports += kernel_reports(next(said))
            if progress is not None:
                progress(source, done, len(sources))
        if link:
            arch = _arch(compiler, device)
            kind = ["-shared"] if shared else []
            _run(compiler, [*arch, *kind, *map(str, objects), "-o", str(output)], output)
    return reports


def _arch(compiler: CudaCompiler, device: Device) -> list[str]:
    """The generation, its own instructions included: the short form compiles once more without them."""
    name = device.cuda_architecture
    return [f"-gencode=arch=compute_{name},code=sm_{name}"] if compiler.kind == "nvcc" else []


def _compile(compiler: CudaCompiler, device: Device, more: Sequence[str], source: Path, target: Path) -> str:
    beside = f"-I{source.parent}"
    if source.suffix == ".S":  # the weights
        flags = ["-Xcompiler", beside] if compiler.kind == "nvcc" else ["-fPIC", beside]
        return _run(compiler, [*flags, "-c", str(source), "-o", str(target)], source)
    if source.suffix == ".c":  # of the host, in C
        flags = ["-O2", "-Xcompiler", "-fPIC"] if compiler.kind == "nvcc" else ["-x", "c", "-O2", "-fPIC"]
        return _run(compiler, [*flags, *more, beside, "-c", str(source), "-o", str(target)], source)
    own = (*NVCC_FLAGS, "-Xptxas", "-v") if compiler.kind == "nvcc" else CPU_FLAGS
    return _run(compiler, [*own, *more, *_arch(compiler, device), beside, "-c", str(source), "-o", str(target)], source)


def _run(compiler: CudaCompiler, arguments: Sequence[str], where: Path) -> str:
    done = subprocess.run([*compiler.command, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if re.search(r"error|undefined|unsupported", line, re.I)]
        told = "".join(f"\n    {line.strip()}" for line in (lines or done.stderr.splitlines())[:6])
        raise ToolchainError(f"{compiler} refused it{told}", where=str(where))
    require_written(str(compiler), Path(arguments[-1]), where)
    return done.stderr


def kernel_reports(said: str) -> list[KernelReport]:
    """The reports on all kernels in ptxas's verbose output."""
    found: list[KernelReport] = []
    name, spills = "", 0
    for line in said.splitlines():
        if named := re.search(r"Compiling entry function '(\w+)'", line):
            name = named[1]
        elif spilled := re.search(r"(\d+) bytes spill stores", line):
            spills = int(spilled[1])
        elif used := re.search(r"Used (\d+) registers", line):
            shared = re.search(r"(\d+) bytes smem", line)
            found.append(KernelReport(name, int(used[1]), int(shared[1]) if shared else 0, spills))
    return found

"""Compiling a built folder: a shared library, an app, or an executor for checks."""

from __future__ import annotations

import json
import shutil
import tempfile
import weakref
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from edgec.artifact.folder import RESOURCES, library_name, publish, read_lock
from edgec.artifact.levels import compiled_for
from edgec.artifact.network import Network
from edgec.device import android, apk, wasm
from edgec.device.compilers import compiler_for
from edgec.device.cuda import CudaCompiler, KernelReport, compile_cuda
from edgec.device.device import Device
from edgec.device.load import load_device
from edgec.device.names import ABI_DEVICES
from edgec.device.probe import usable_cores
from edgec.device.toolchain import Compiler, compile_shared
from edgec.emit.project import Project
from edgec.errors import UsageError
from edgec.execute.executor import Executor
from edgec.untrusted import read_json

if TYPE_CHECKING:  # the pipeline runs what is compiled here
    from edgec.pipeline.context import Context

#: (what is being compiled, how many are done, of how many)
Compiling = Callable[[Path, int, int], None]


def compile_library(
    folder: Path,
    device: Device,
    compiler: Compiler | CudaCompiler,
    progress: Compiling | None = None,
    jobs: int | None = None,
) -> Path:
    """Compile the sources of an artefact into the shared library its Python module loads."""
    lock = read_lock(folder)
    sources = [folder / source for source in lock["sources"]]
    output = folder / library_name(lock["name"])
    jobs = jobs or usable_cores()
    if isinstance(compiler, CudaCompiler):
        found = {r.name: r for r in compile_cuda(compiler, device, sources, output, jobs, progress)}
        if found:
            text = json.dumps({name: asdict(report) for name, report in found.items()}, indent=1)
            (folder / RESOURCES).write_text(text + "\n", "utf-8")
        return output
    most, others = compiled_for(lock, device)
    return compile_shared(
        compiler, most, sources, output, include=[folder], jobs=jobs, progress=progress, others=others
    )


def compile_all(
    folder: Path,
    device: Device,
    compiler: Compiler | CudaCompiler,
    beside: Sequence[str],
    progress: Compiling | None = None,
) -> None:
    """Compile an artefact for where it is going: an AAR for Android, a module for the web, else the shared library."""
    lock = read_lock(folder)
    if "web" in beside:
        wasm.assemble(folder, lock["name"], device, lock["sources"], progress)
    elif "android" in beside or "apk" in beside:
        most, others = compiled_for(lock, device)
        parts = [android.Library(most, folder, lock["sources"], others)]
        for abi, sources in lock.get("abis", {}).items():
            own = load_device(ABI_DEVICES[abi])
            parts.append(android.Library(own, folder / "android" / "abi" / abi, sources))
        assemble = apk.assemble if "apk" in beside else android.assemble
        assemble(folder, lock["name"], parts, progress)
    else:
        compile_library(folder, device, compiler, progress)


def resources(folder: Path) -> dict[str, KernelReport]:
    """The compiler's reports on the GPU kernels of an artifact, by function; empty if it was not compiled."""
    path = folder / RESOURCES
    if not path.is_file():
        return {}
    try:
        return {name: KernelReport(**said) for name, said in read_json(path).items()}
    except (TypeError, AttributeError):
        raise UsageError("does not say what the compiler said", hint="build it again", where=str(path)) from None


def compiled_executor(project: Project, context: Context) -> Executor:
    """Compile a project in a folder of its own, gone with the executor, and run it on all its threads."""
    return compiled_network(project, context).executor()


def compiled_network(project: Project, context: Context) -> Network:
    """Compile a project in a folder of its own, gone with the network, which has all its threads."""
    options = context.options
    folder = Path(tempfile.mkdtemp(prefix="edgec-"))
    try:
        publish(project.files, folder)
        compiler = compiler_for(options.device, options.compiler)
        compile_library(folder, options.device, compiler, lambda path, *n: context.progress("compile", path.name))
        network = Network(folder, options.threads)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(network, shutil.rmtree, folder, True)
    return network

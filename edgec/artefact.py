"""The artefact on disk and at work: how its folder comes to be, is compiled, and runs on numpy arrays."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from edgec.check.execute import POISON, Executor
from edgec.data_file import read_json
from edgec.device import android, apk, wasm
from edgec.device.cuda import CudaCompiler, KernelReport, compile_cuda, has_gpu, pick_cuda_compiler
from edgec.device.facts import Device
from edgec.device.opencl import has_opencl
from edgec.device.probe import usable_cores
from edgec.device.toolchain import Compiler, compile_shared, pick_compiler
from edgec.emit.project import LOCK
from edgec.errors import EdgecError, ModelError, ToolchainError, UsageError
from edgec.ir.types import DTYPES, plain

if TYPE_CHECKING:
    from edgec.pipeline import Context, Project

#: What a report leaves in the folder of its build (edgec.report.document).
REPORTS = ("report.json", "report.html")
#: What the compiler said of the kernels of a GPU, beside the library made of them.
RESOURCES = "resources.json"
#: (what is being compiled, how many are done, of how many)
Compiling = Callable[[Path, int, int], None]


def publish(files: Mapping[str, bytes], folder: Path, finish: Callable[[Path], None] = lambda folder: None) -> bool:
    """Write the files of an artefact as ``folder``, all of them or none.

    They are written beside it first, ``finish`` is called on that (it may compile there), and only then the folder is
    put in its place. An earlier artefact is replaced, but whatever else was put into it is kept. Tells whether one was.

    Raises UsageError when ``folder`` is something else than an artefact of edgec or an empty folder.
    """
    replaces = refuse_foreign(folder)
    parent = folder.absolute().parent
    try:
        parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=parent))
    except OSError as error:
        raise UsageError(f"cannot write here: {error.strerror or error}", where=str(parent)) from None
    try:
        fresh.chmod(0o777 & ~_umask())
        for path, content in files.items():
            target = fresh / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        finish(fresh)
        if replaces:
            _keep_foreign(folder, fresh)
            old = Path(tempfile.mkdtemp(prefix=f".{folder.name}-old-", dir=parent))
            os.replace(folder, old)  # onto an empty folder: one step each
            os.replace(fresh, folder)
            shutil.rmtree(old)
        else:
            os.replace(fresh, folder)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    return replaces


def refuse_foreign(folder: Path) -> bool:
    """Whether ``folder`` holds an artefact of edgec; raises UsageError when it holds something else."""
    if not folder.exists() and not folder.is_symlink():
        return False
    if folder.is_symlink() or not folder.is_dir():
        raise UsageError("is there and is not a folder", hint="name another folder with -o", where=str(folder))
    if (folder / LOCK).is_file():
        return True
    if any(folder.iterdir()):
        raise UsageError(
            "the folder is not empty and was not made by edgec, so nothing was written",
            hint="name another folder with -o, or empty this one",
            where=str(folder),
        )
    return False


def refuse_existing(file: Path) -> None:
    """Raises UsageError where ``file`` cannot be a new one: before the work, so that nothing of the user's is lost."""
    if file.exists() or file.is_symlink():
        raise UsageError(
            "the file is there already, so nothing was done", hint="name another, or remove this one", where=str(file)
        )
    if not file.absolute().parent.is_dir():
        raise UsageError("its folder is not there, so nothing was done", hint="make the folder first", where=str(file))


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _keep_foreign(folder: Path, fresh: Path) -> None:
    """Copy what is in the old folder but was not made by edgec, such as a build folder of CMake."""
    lock = read_lock(folder)
    own = {Path(path).parts[0] for path in lock.get("files", ())} | {LOCK, library_name(str(lock.get("name")))}
    own |= {"__pycache__", RESOURCES, *REPORTS}  # a report is of the build that it was written for
    for path in folder.iterdir():
        if path.name not in own and not (fresh / path.name).exists():
            if path.is_dir() and not path.is_symlink():
                shutil.copytree(path, fresh / path.name, symlinks=True)
            else:
                shutil.copy2(path, fresh / path.name, follow_symlinks=False)


def read_lock(folder: Path) -> dict[str, Any]:
    """What an artefact says of itself; raises UsageError for a folder that is none."""
    try:
        lock = read_json(folder / LOCK)
    except OSError:
        raise UsageError("not a folder made by edgec", hint=f"it has no {LOCK}", where=str(folder)) from None
    if not isinstance(lock, dict) or not all(is_meant(lock[key]) for key, is_meant in _MEANT.items() if key in lock):
        raise UsageError("is no lock that edgec writes", hint="build it again", where=str(folder / LOCK))
    return lock


def _are_files(value: object) -> bool:
    """Paths below the folder of a lock."""
    return isinstance(value, list) and all(
        isinstance(f, str) and f and not Path(f).is_absolute() and ".." not in Path(f).parts for f in value
    )


def _are_ports(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(p, dict)
        and all(isinstance(p.get(key), str) for key in ("onnx_name", "name", "dtype"))
        and p["dtype"] in DTYPES
        and isinstance(p.get("shape"), list)
        for p in value
    )


#: What is read of a lock, and what it has to be.
_MEANT: Mapping[str, Callable[[Any], bool]] = {
    "name": lambda name: isinstance(name, str) and name.isidentifier(),
    "threads": lambda threads: type(threads) is int and threads >= 1,
    "files": _are_files,
    "sources": _are_files,
    "inputs": _are_ports,
    "outputs": _are_ports,
}


def library_name(name: str) -> str:
    return f"lib{name}.so"


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
    return compile_shared(compiler, device, sources, output, include=[folder], jobs=jobs, progress=progress)


def compile_all(
    folder: Path,
    device: Device,
    compiler: Compiler | CudaCompiler,
    beside: Sequence[str],
    progress: Compiling | None = None,
) -> None:
    """Compile an artefact for where it is going: an AAR for Android, a module for the web, else the shared library."""
    assemble = {"apk": apk.assemble, "android": android.assemble, "web": wasm.assemble}
    for app in (name for name in assemble if name in beside):
        lock = read_lock(folder)
        assemble[app](folder, lock["name"], device, lock["sources"], progress)
        return
    compile_library(folder, device, compiler, progress)


def resources(folder: Path) -> dict[str, KernelReport]:
    """What the compiler said of the GPU kernels of an artefact, by function; nothing where it was not compiled."""
    path = folder / RESOURCES
    if not path.is_file():
        return {}
    try:
        return {name: KernelReport(**said) for name, said in read_json(path).items()}
    except (TypeError, AttributeError):
        raise UsageError("does not say what the compiler said", hint="build it again", where=str(path)) from None


@dataclass(frozen=True)
class Port:
    """An input or output of an artefact: its name in the model and in C, its type and shape."""

    onnx_name: str
    name: str
    dtype: str
    shape: tuple[int | str, ...]  # a formula of sizes where it is known only at run time

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


class Network:
    """A compiled artefact, loaded: runs on numpy arrays by ONNX name.

    It owns its arena and its threads. Calls from several threads wait for one another; for calls that overlap,
    open the artefact several times.
    """

    def __init__(self, folder: str | Path, threads: int = 1) -> None:
        """Open the artefact in ``folder``; raises UsageError where there is none, or no library for this machine."""
        self.folder = Path(folder).absolute()
        lock = read_lock(self.folder)
        if not {"name", "inputs", "outputs", "threads"} <= set(lock):
            raise UsageError("the folder holds no network", where=str(folder))
        self.name = str(lock["name"])
        self.inputs = tuple(_port(entry) for entry in lock["inputs"])
        self.outputs = tuple(_port(entry) for entry in lock["outputs"])
        if not 1 <= threads <= lock["threads"]:
            raise UsageError(
                f"{threads} threads asked for, and the artefact was built for 1 to {lock['threads']}",
                hint=f"build it with --threads {threads}",
                where=str(folder),
            )
        library = self.folder / library_name(self.name)
        if not library.is_file():
            raise UsageError("the artefact is not compiled", hint="build it without --no-compile", where=str(folder))
        try:
            with _as_new(library) as path:
                self._net = _module(self.folder, self.name).Net(library=path, threads=threads)
        except OSError as error:
            raise UsageError(f"cannot load the library: {error}", where=str(library)) from None
        self._lock = threading.RLock()

    def poison(self) -> None:
        """Fill the arena with what no kernel leaves behind, so that a read of what nobody wrote shows up."""
        if hasattr(self._net, "poison"):
            self._net.poison(POISON)
        else:
            self._net._arena[...] = POISON

    def executor(self) -> Executor:
        """`run` for checks: its arena is poisoned each time, and inputs that the network does not have are left out."""

        def run(inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
            self.poison()
            return self.run({p.onnx_name: inputs[p.onnx_name] for p in self.inputs if p.onnx_name in inputs})

        return run

    def profile(self) -> list[float]:
        """Milliseconds of every launch on a GPU by itself, in order; the network must have run once."""
        return [float(ms) for ms in self._net.profile()]

    def bind(
        self, inputs: Mapping[str, np.ndarray], into: Mapping[str, np.ndarray] = {}
    ) -> tuple[Callable[[], None], Callable[[], dict[str, np.ndarray]]]:
        """A function that runs the network once on these arrays, and one that gives the outputs by name after it.

        ``into`` holds arrays for outputs of fixed shape; that of a state's next value may be the state's own.
        """
        arrays = [plain(self._checked(port, inputs)) for port in self.inputs]
        names = [p.onnx_name for p in self.outputs]
        given = {p: self._place(p, into[p.onnx_name]) for p in self.outputs if p.onnx_name in into}
        if not hasattr(self._net, "sizes_of"):
            results = [given[p] if p in given else np.empty(cast(Any, p.shape), DTYPES[p.dtype]) for p in self.outputs]
            return self._net.bind(arrays, [plain(r) for r in results]), lambda: dict(zip(names, results))
        try:
            sizes = self._net.sizes_of(arrays)
        except ValueError as error:
            raise ModelError(str(error)) from None
        memory = self._net.memory()
        memory = [plain(given[p]).reshape(-1) if p in given else m for p, m in zip(self.outputs, memory)]
        flat = [m.view(DTYPES[p.dtype]) for p, m in zip(self.outputs, memory)]
        return self._net.bind(arrays, memory, sizes), lambda: dict(zip(names, self._net.results(flat, sizes)))

    def run(self, inputs: Mapping[str, np.ndarray], into: Mapping[str, np.ndarray] = {}) -> dict[str, np.ndarray]:
        """Run once; raises ModelError for an input that is missing, unknown, or of another shape or type.

        ``into`` holds arrays for outputs of fixed shape; that of a state's next value may be the state's own.
        """
        unknown = [name for name in inputs if name not in {p.onnx_name for p in self.inputs}]
        if unknown:
            names = ", ".join(p.onnx_name for p in self.inputs) or "none"
            raise ModelError(f"there is no input '{unknown[0]}'", hint=f"the inputs are {names}")
        with self._lock:
            call, outputs = self.bind(inputs, into)
            call()
        return outputs()

    @staticmethod
    def _place(port: Port, array: np.ndarray) -> np.ndarray:
        if array.shape != port.shape or array.dtype != DTYPES[port.dtype]:
            raise ModelError(f"output '{port.onnx_name}' goes into {array.dtype}{list(array.shape)}, expected {port}")
        if not array.flags.c_contiguous or not array.flags.writeable:
            raise ModelError(f"the array for output '{port.onnx_name}' is not contiguous, or cannot be written")
        return array

    @staticmethod
    def _checked(port: Port, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
        if port.onnx_name not in inputs:
            raise ModelError(f"input '{port.onnx_name}' is missing", hint=f"it is {port}")
        given = np.asarray(inputs[port.onnx_name])
        fits = len(given.shape) == len(port.shape) and all(
            isinstance(extent, str) or n == extent for n, extent in zip(given.shape, port.shape)
        )
        if not fits or given.dtype != DTYPES[port.dtype]:
            raise ModelError(f"input '{port.onnx_name}' is {given.dtype}{list(given.shape)}, expected {port}")
        return np.ascontiguousarray(given)

    def close(self) -> None:
        """Stop the threads; the network cannot run afterwards."""
        with self._lock:
            self._net.close()

    def __enter__(self) -> Network:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


#: Which file was loaded under a name in this process.
_loaded: dict[Path, tuple[int, int]] = {}


@contextmanager
def _as_new(library: Path) -> Iterator[Path]:
    """A path to load a library by: another one where an earlier build was loaded by this one.

    The system's loader goes by names, and would hand out the earlier library.
    """
    found = library.stat()
    mine = (found.st_ino, found.st_mtime_ns)
    if _loaded.setdefault(library, mine) == mine:
        yield library
        return
    with tempfile.TemporaryDirectory(prefix="edgec-") as folder:
        yield Path(shutil.copy(library, folder))


def _port(entry: Mapping[str, Any]) -> Port:
    return Port(entry["onnx_name"], entry["name"], entry["dtype"], tuple(entry["shape"]))


def _module(folder: Path, name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"{name}_artefact", folder / f"{name}.py")
    if spec is None or spec.loader is None:
        raise UsageError("the artefact has no Python module", where=str(folder))
    module = importlib.util.module_from_spec(spec)
    bytecode = sys.dont_write_bytecode
    sys.dont_write_bytecode = True  # two builds are to give the same folder
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = bytecode
    return module


def compiled_executor(project: Project, context: Context) -> Executor:
    """Compile a project in a folder of its own, gone with the executor, and run it on all its threads."""
    options = context.options
    folder = Path(tempfile.mkdtemp(prefix="edgec-"))
    try:
        publish(project.files, folder)
        compiler = compiler_for(options.device, options.compiler)
        compile_library(folder, options.device, compiler, lambda path, *n: context.progress("compile", path.name))
        run = Network(folder, options.threads).executor()
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(run, shutil.rmtree, folder, True)
    return run


def runs_here(device: Device, compiler: str | None = None) -> bool:
    """Whether what is compiled for a device can be loaded into this process."""
    from edgec.device.probe import host_arch, probe_host

    if device.is_gpu and (compiler or "").startswith("emulated"):
        return True
    if (device.language == "cuda" and not has_gpu()) or (device.language == "opencl" and not has_opencl()):
        return False
    try:
        if not device.hosted or device.arch != host_arch():
            return False
    except EdgecError:
        return False
    return set(device.instruction_sets) <= set(probe_host().instruction_sets)


def compiler_for(device: Device, wanted: str | None) -> Compiler | CudaCompiler:
    """The compiler to use; raises ToolchainError, with what to install, when there is none."""
    if device.language == "cuda":
        return pick_cuda_compiler(device, wanted)
    try:
        return pick_compiler(device, wanted)
    except ToolchainError as error:
        hint = f"{error.hint}; --no-compile writes the sources alone" if error.hint else None
        raise ToolchainError(error.message, hint=hint, where=error.where) from None

"""A compiled artifact, loaded: a network that runs on numpy arrays."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
import threading
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from edgec.artifact.folder import library_name, read_lock
from edgec.artifact.library import as_new, require_whole
from edgec.artifact.placement import Placed, placed
from edgec.errors import ModelError, NotMet, UsageError
from edgec.ir.dtypes import DTYPES, POISON, plain
from edgec.options.typed import typed

if TYPE_CHECKING:
    from edgec.execute.executor import Executor


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

    @typed
    def __init__(self, folder: str | Path, threads: int = 1) -> None:
        """Open the artefact in ``folder``; raises UsageError where there is none, or no library for this machine."""
        self.folder = Path(folder).absolute()
        lock = read_lock(self.folder)
        if not {"name", "inputs", "outputs", "threads"} <= set(lock):
            raise UsageError("the folder holds no network", where=str(folder))
        self.name = str(lock["name"])
        self._where: dict[str, Any] = {key: lock[key] for key in ("where", "kernels", "device") if key in lock}
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
        require_whole(library)
        try:
            with as_new(library) as path:
                module = _module(self.folder, self.name)
                self._net = module.Net(library=path, threads=threads)
        except OSError as error:
            raise UsageError(f"cannot load the library: {error}", where=str(library)) from None
        except (AttributeError, ValueError) as error:  # the library lacks a function, or is of another build
            raise UsageError(str(error), hint="build it again", where=str(folder)) from None
        #: The greatest sizes that a caller chooses, by their names in shapes.
        self.greatest = {str(d[0]): int(d[2]) for d in getattr(module, "DIMENSIONS", ())}
        self._guard = os.getpid(), threading.RLock()
        self._closing: list[weakref.finalize[Any, Any]] = []
        self._is_closed = False

    def before_closing(self, user: object, call: Callable[..., None], *given: object) -> None:
        """Call a function once: when ``user`` is gone, or before the network closes."""
        self._closing = [*(f for f in self._closing if f.alive), weakref.finalize(user, call, *given)]

    def require_open(self) -> None:
        """Raises UsageError where the network was closed: its threads are gone, and memory may be."""
        if self._is_closed:
            raise UsageError("the network is closed", hint="open the folder again", where=str(self.folder))

    @property
    def processor(self) -> str | None:
        """The level whose code runs, of a library for several processors; None where there is one kind of kernels."""
        found: str | None = getattr(self._net, "processor", None)
        return found

    @property
    def library(self) -> ctypes.CDLL:
        """The library that was loaded."""
        return cast(ctypes.CDLL, self._net._library)

    @property
    def _lock(self) -> threading.RLock:
        """The lock of this process: in one that was forked off, nobody would release that of its parent."""
        if self._guard[0] != os.getpid():
            self._guard = os.getpid(), threading.RLock()
        return self._guard[1]

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

    def where(self) -> tuple[Placed, ...]:
        """The device of every kernel, in order, and the reason for it."""
        return placed(self._where, self.processor)

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
        """Run once; raises ModelError for an input that is missing, unknown, or of another shape or type, and
        NotMet for inputs that the run refuses.

        ``into`` holds arrays for outputs of fixed shape; that of a state's next value may be the state's own.
        """
        for given, what in ((inputs, "inputs"), (into, "arrays for outputs")):
            if not isinstance(given, Mapping):
                hint = "a network is called with arrays: network(x)"
                raise UsageError(f"run() takes {what} by name, in a dictionary", hint=hint)
        unknown = [name for name in inputs if name not in {p.onnx_name for p in self.inputs}]
        if unknown:
            names = ", ".join(p.onnx_name for p in self.inputs) or "none"
            raise ModelError(f"there is no input '{unknown[0]}'", hint=f"the inputs are {names}")
        with self._lock:
            self.require_open()
            call, outputs = self.bind(inputs, into)
            ran(call)
        return outputs()

    def __call__(self, *arrays: np.ndarray, **named: np.ndarray) -> Any:
        """Run once, on arrays in the order of the inputs or by their names: the output, or all of them by name.

        Raises UsageError or ModelError for inputs that do not fit.
        """
        names = [p.onnx_name for p in self.inputs]
        if len(arrays) == 1 and isinstance(arrays[0], Mapping):
            if named:
                raise UsageError("inputs are given in a dictionary and by keywords", hint="give all in one of them")
            named, arrays = dict(arrays[0]), ()
        if len(arrays) > len(names):
            raise UsageError(f"{len(arrays)} arrays are given, and the network has {len(names)} inputs")
        inputs = dict(zip(names, arrays))
        twice = sorted(set(inputs) & set(named))
        if twice:
            raise UsageError(f"input '{twice[0]}' is given twice")
        results = self.run({**inputs, **named})
        return next(iter(results.values())) if len(results) == 1 else results

    def bounds(
        self, inputs: np.ndarray | Mapping[str, np.ndarray], eps: float
    ) -> tuple[np.ndarray, np.ndarray] | dict[str, tuple[np.ndarray, np.ndarray]]:
        """(lower, upper) of the output, or of all by name, for every input at most ``eps`` from the given ones.

        ``inputs`` is the array of the one input, or arrays by name; each element is at most ``eps`` away. Bounds hold
        for `run` and for the exact result of the stored weights; where nothing is known they are infinite. Raises
        UsageError for a build without them or a distance below zero, ModelError for inputs that do not fit.
        """
        if not hasattr(self._net, "bounds_into"):
            raise UsageError("the folder has no code for bounds", hint="build it with --bounds", where=str(self.folder))
        given = inputs if isinstance(inputs, Mapping) else dict(zip((p.onnx_name for p in self.inputs), [inputs]))
        with self._lock:
            self.require_open()
            arrays = [plain(self._checked(port, given)) for port in self.inputs]
            results = [np.empty(cast(Any, p.shape), DTYPES[p.dtype]) for p in self.outputs for _ in range(2)]
            try:
                self._net.bounds_into(arrays, eps, results)
            except ValueError as error:
                raise UsageError(str(error)) from None
        pairs = dict(zip((p.onnx_name for p in self.outputs), zip(results[::2], results[1::2])))
        return next(iter(pairs.values())) if len(pairs) == 1 else pairs

    def __str__(self) -> str:
        """The name, and a line for every input and output with its type."""
        ports = [(kind, port) for kind, group in (("in", self.inputs), ("out", self.outputs)) for port in group]
        return "\n".join([f"network {self.name}", *(f"  {kind:3} {p.onnx_name}  {p}" for kind, p in ports)])

    __repr__ = __str__

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
            told = f"input '{port.onnx_name}' is {given.dtype}{list(given.shape)}, expected {port}"
            raise ModelError(told, hint=_remedy(port, given, fits))
        return np.ascontiguousarray(given)

    def close(self) -> None:
        """Stop the threads; the network cannot run afterwards."""
        with self._lock:
            self._is_closed = True
            for call in self._closing:
                call()
            self._net.close()

    def __enter__(self) -> Network:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def ran(call: Callable[[], None]) -> None:
    """One run of a network that is bound to arrays; raises NotMet where it refuses them."""
    try:
        call()
    except ValueError as error:
        raise NotMet(str(error)) from None


def _remedy(port: Port, given: np.ndarray, fits: bool) -> str | None:
    """Code that makes an array one for an input; None where there is none."""
    lacks_batch = len(given.shape) + 1 == len(port.shape) and port.shape[0] == 1 and given.shape == port.shape[1:]
    steps = ["[numpy.newaxis]"] if lacks_batch else []
    wanted = np.dtype(DTYPES[port.dtype])
    if given.dtype != wanted and given.dtype.kind in "biuf" and wanted.kind == "f":
        steps.append(f'.astype("{wanted.name}")')
    return f"array{''.join(steps)} is one" if steps and (fits or lacks_batch) else None


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

"""Graphs compiled for OpenCL and run on whatever device there is, PoCL or oclgrind as a rule."""

from __future__ import annotations

import ctypes
import hashlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from needed import driver

from edgec import ops
from edgec.device.device import Device
from edgec.device.opencl import extensions
from edgec.emit.project import files
from edgec.errors import DeviceError, EdgecError
from edgec.fuse import plan
from edgec.ir.graph import Graph, Node, placeholder, rewrite
from edgec.ir.types import DTYPES
from edgec.schedule.build import schedule
from edgec.schedule.gpu.attention import largest_head
from edgec.schedule.program import Program

__all__ = ["OpenClNetwork", "accepted", "driver", "extensions", "joined", "network", "refused"]

FLAGS = ("-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror")


class OpenClNetwork:
    """A network on an OpenCL device as a function on arrays by name; arena and outputs are poisoned before a run."""

    def __init__(self, library: ctypes.CDLL, prefix: str, program: Program, weights: bytes) -> None:
        self.library, self.prefix, self.program = library, prefix, program
        self.weights = np.frombuffer(weights, np.uint8)
        self.session: ctypes.c_void_p | None = None

    def _function(self, name: str) -> Any:
        return getattr(self.library, f"{self.prefix}_{name}")

    def _call(self, name: str, *arguments: Any) -> None:
        status = self._function(name)(*arguments)
        why = self._function("last_error")
        why.restype = ctypes.c_char_p
        assert status == 0, f"{name} returned {status}: {why().decode(errors='replace')}"

    def __enter__(self) -> OpenClNetwork:
        self.session = ctypes.c_void_p()
        self._call("open", ctypes.byref(self.session), ctypes.c_void_p(self.weights.ctypes.data), None)
        return self

    def __exit__(self, *error: object) -> None:
        self._function("close")(self.session)
        self.session = None

    def __call__(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        self._call("poison", self.session, 0xFF)
        given = [np.ascontiguousarray(inputs[n], DTYPES[node.type.dtype]) for n, _, node in self.program.inputs]
        results = {n: np.empty(node.type.shape, DTYPES[node.type.dtype]) for n, _, node in self.program.outputs}
        for result in results.values():
            result.reshape(-1).view(np.uint8)[...] = 0xFF
        self._call("run_host", self.session, *(ctypes.c_void_p(a.ctypes.data) for a in (*given, *results.values())))
        return results


def network(
    graph: Graph, folder: Path, device: Device, fuse: bool = True, templates: Sequence[Path] = ()
) -> OpenClNetwork:
    """A graph, compiled, kernels by one's own templates first; raises what building it raises."""
    program = schedule(plan(graph, fuse, gpu=device.is_gpu, head=largest_head(device)), device)
    written = files(program, device, "net", templates)
    folder.mkdir()
    for path, content in written.items():
        (folder / path).write_bytes(content)
    command = [os.environ.get("CC", "gcc"), *FLAGS, "-shared", "-fPIC", "-I.", "-o", "net.so", "net.c", "net_program.S"]
    done = subprocess.run([*command, "-ldl"], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr[:4000]
    return OpenClNetwork(ctypes.CDLL(str(folder / "net.so")), "net", program, written["net_weights.bin"])


def refused(graph: Graph, device: Device) -> EdgecError | None:
    """Error that a graph causes for a device; None if it can be built."""
    number = built(graph, device)
    return None if isinstance(number, str) else number


def built(graph: Graph, device: Device) -> str | EdgecError:
    """A number for what is compiled and run of a graph: the same number, the same files but for the device's name."""
    try:
        written = files(schedule(plan(graph, gpu=device.is_gpu, head=largest_head(device)), device), device)
    except EdgecError as error:
        return error
    own = (text for name, text in sorted(written.items()) if name.endswith((".c", ".cl", ".cu", ".h", ".bin")))
    return hashlib.sha256(b"\0".join(own).replace(device.name.encode(), b"")).hexdigest()


def accepted(
    graphs: Mapping[str, Graph], device: Device, known: set[str] | None = None
) -> tuple[dict[str, Graph], list[str]]:
    """The graphs that a device takes, by their names, and what was refused for another reason than that it cannot yet.

    In less than floats, what is rounded to whole numbers may go either way, and is left out. So is what is ``known``
    (by ``built``) and need not run again; what is taken is known from now on.
    """
    taken, wrong = {}, []
    for name, graph in graphs.items():
        if device.precision != "fp32" and any(n.type.dtype != "f32" for _, n in graph.outputs):
            continue
        error = built(graph, device)
        if isinstance(error, str):
            if known is None or error not in known:
                taken[name] = graph
            if known is not None:
                known.add(error)
        elif not isinstance(error, DeviceError) or "yet" not in error.message:
            wrong.append(f"{name}: {error}")
    return taken, wrong


def joined(graphs: Mapping[str, Graph]) -> Graph:
    """All graphs as one, so that a driver compiles one program; ``CASE:`` stands before names of inputs and outputs."""
    inputs: list[Node] = []
    outputs: list[tuple[str, Node]] = []
    for case, graph in graphs.items():
        own = {n: placeholder(f"{case}:{n.attributes['name']}", n.type) for n in graph.inputs}
        inputs += own.values()
        outputs += [(f"{case}:{name}", n) for name, n in rewrite(graph, partial(_replaced, own)).outputs]
    return Graph(tuple(inputs), tuple(outputs))


def _replaced(own: Mapping[Node, Node], old: Node, args: tuple[Node, ...]) -> Node:
    if old in own:
        return own[old]
    return old if old.is_const else ops.node(old.op, *args, **old.attributes)

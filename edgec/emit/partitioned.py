"""Projects of networks that a processor and a GPU share: a project a part, and the host that runs them in turn."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgec.artifact.names import LOCK
from edgec.device.device import Device
from edgec.emit.c_literal import STORAGE
from edgec.emit.function_comment import comment_text
from edgec.emit.interface import Port, ports
from edgec.emit.license import licensed
from edgec.emit.project import files, sealed
from edgec.emit.render import render
from edgec.emit.weights import Weights
from edgec.emit.where import where_files, where_names, where_rows
from edgec.errors import UsageError
from edgec.ir.graph import MODEL_SHA256, OF_MODEL, Node
from edgec.ir.types import CODED, DTYPES
from edgec.schedule.program import Part, Program
from edgec.version import __version__

#: What a whole project has and a part of one does not: its own example, its own build.
_OF_A_WHOLE = ("main.c", "runner.c", "CMakeLists.txt", "README.md", LOCK)
PAGES = {
    "{name}.h": "project/partitioned/net.h.jinja",
    "{name}.c": "project/partitioned/net.c.jinja",
    "{name}.py": "project/partitioned/net.py.jinja",
    "main.c": "project/partitioned/main.c.jinja",
    "runner.c": "project/partitioned/runner.c.jinja",
    "CMakeLists.txt": "project/partitioned/CMakeLists.txt.jinja",
    "README.md": "project/partitioned/README.md.jinja",
}


@dataclass(frozen=True)
class Value:
    """A value that parts or the caller exchange: its place on the host, and whether the GPU has it.

    ``array`` is its pointer in C on the host, ``number`` that of its memory object on the GPU.
    """

    array: str
    ctype: str
    bytes: int
    number: int
    comment: str
    is_ours: bool  # neither an input nor an output of the caller's


@dataclass(frozen=True)
class Turn:
    """One part: what it reads and writes, and what is copied around it."""

    name: str
    on_gpu: bool
    reads: tuple[Value, ...]
    writes: tuple[Value, ...]
    sent: tuple[Value, ...]  # to the GPU, before it runs
    fetched: tuple[Value, ...]  # from the GPU, after it
    waits: bool  # for the GPU: what it has to send is read here
    comment: str


def partitioned_files(
    program: Program,
    device: Device,
    name: str,
    templates: Sequence[Path],
    facts: Mapping[str, Any],
    beside: Sequence[str] = (),
) -> dict[str, bytes]:
    """Every file of the project of a program in parts, by relative path.

    Raises UsageError for something beside it, which parts have no interface for, DeviceError as `files` does.
    """
    if beside:
        raise UsageError(f"there is no {beside[0]} for a network on two devices yet", hint="leave out --place")
    result: dict[str, bytes] = {}
    sources: list[str] = [f"{name}.c", f"{name}_where.c"]
    where = where_rows(program, device)
    names = part_names(program, name)
    for part, own in zip(program.parts, names):
        project = files(part.program, part.device, own, templates)
        dropped = (*_OF_A_WHOLE, f"{own}.py", *where_names(own))
        sources += [s for s in json.loads(project[LOCK])["sources"] if s not in (*sources, *dropped)]
        result |= {path: content for path, content in project.items() if path not in dropped}
    inputs, outputs = ports(program, name)
    turns, values = _turns(program, names, inputs, outputs)
    gpus = [t.name for t in turns if t.on_gpu]
    context = {
        "name": name, "NAME": name.upper(), "version": __version__, "device": device, "inputs": inputs,
        "gpu": next(p.device for p in program.parts if p.device.is_gpu),
        "outputs": outputs, "turns": turns, "values": values, "gpus": gpus, "threads": program.threads,
        "most_threads": program.threads,
        "cores": "",
        "sources": sources, "program": program, "is_open": False, "demands": (), "dimensions": (),
        "computed": (), "decoder": None, "has_board": False, "levels": (),
        "quantization": {p.onnx_name: None for p in (*inputs, *outputs)},
        "model_sha256": program.graph.metadata.get(MODEL_SHA256, ""),
        "device_flags": "".join(f" {flag}" for flag in device.toolchain.cflags), "weights_bytes": 0, "alignment": 64,
        "weights": Weights("incbin", name, ()),
        "metadata": {comment_text(k): comment_text(v) for k, v in program.graph.metadata.items() if k not in OF_MODEL},
        "parameters": ",\n    ".join(
            [f"const {p.ctype} *{p.name}" for p in inputs] + [f"{p.ctype} *{p.name}" for p in outputs]
        ),
    }  # fmt: skip
    for path, page in PAGES.items():
        own_path = path.format(name=name)
        result[own_path] = licensed(own_path, render(page, templates, **context).encode())
    result |= {p: licensed(p, content) for p, content in where_files(where, device, name, templates).items()}
    own_facts = {"language": "c", "sources": sources, "weights_bytes": program.weights_bytes}
    return sealed(result, program, device, name, inputs, outputs, {**own_facts, **facts})


def part_names(program: Program, name: str) -> list[str]:
    """The prefixes of everything in the parts of a program, in order."""
    return [f"{name}_{'gpu' if part.device.is_gpu else 'cpu'}{k}" for k, part in enumerate(program.parts)]


def _turns(
    program: Program, names: Sequence[str], inputs: Sequence[Port], outputs: Sequence[Port]
) -> tuple[list[Turn], list[Value]]:
    known: dict[Node, Value] = {}
    for port, (_, _, node) in zip((*inputs, *outputs), (*program.inputs, *program.outputs)):
        known[node] = _value(node, port.name, len(known), comment_text(port.onnx_name), False)
    for part in program.parts:
        for node in part.writes:
            if node not in known:
                place = f"session->values[{len(known)}]"
                known[node] = _value(node, place, len(known), str(node.type), True)
    asked = {n for part in program.parts if not part.device.is_gpu for n in part.reads}
    asked |= {n for _, _, n in program.outputs}
    there: set[Node] = set()  # on the GPU
    coming: set[Node] = set()  # to the processor, not waited for yet
    turns = []
    for part, name in zip(program.parts, names):
        on_gpu = part.device.is_gpu
        sent = [n for n in part.reads if on_gpu and n not in there]
        fetched = [n for n in part.writes if on_gpu and n in asked]
        waits = not on_gpu and bool(coming.intersection(part.reads))
        there |= {*sent, *(part.writes if on_gpu else ())}
        coming = set() if waits else coming | set(fetched)
        reads, writes, to, back = (tuple(known[n] for n in nodes) for nodes in (part.reads, part.writes, sent, fetched))
        turns.append(Turn(name, on_gpu, reads, writes, to, back, waits, _comment(part)))
    return turns, list(known.values())


def _value(node: Node, array: str, number: int, comment: str, is_ours: bool) -> Value:
    narrow = node.type.dtype in CODED
    ctype = f"uint{DTYPES[node.type.dtype].itemsize * 8}_t" if narrow else STORAGE[node.type.dtype]
    return Value(array, ctype, node.type.bytes, number, comment, is_ours)


def _comment(part: Part) -> str:
    names = [n for k in part.program.kernels for n in k.names]
    span = f", {names[0]} to {names[-1]}" if names else ""
    return comment_text(f"{part.device.name}: {len(part.program.kernels)} kernels{span}")

"""C of a divided network: a host and workers over TCP or MPI, for devices without Python.

Tables say what every message has to be, as the manifest and the locks of the parts do; the code that reads them is the
same for all networks (``codegen_templates/runtime/divided``). Kernels are those in the folders of the parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from edgec.artifact.folder import read_lock
from edgec.distribute.manifest import Manifest, Tensor
from edgec.distribute.parts import Read
from edgec.distribute.served import digest_of, states_of
from edgec.distribute.sides import Side, side_of
from edgec.emit.c_literal import STORAGE
from edgec.emit.function_comment import comment_text
from edgec.emit.identifiers import identifier
from edgec.emit.license import licensed
from edgec.emit.render import render
from edgec.emit.runtime import own_names
from edgec.ir.dtypes import CODED, DTYPES
from edgec.resources import data_folder
from edgec.version import __version__

PAGES = {
    "{name}_divided.h": "project/divided/net_divided.h.jinja",
    "{name}_divided.c": "project/divided/net_divided.c.jinja",
    "{name}_workers.c": "project/divided/net_workers.c.jinja",
    "main.c": "project/divided/main.c.jinja",
    "CMakeLists.txt": "project/divided/CMakeLists.txt.jinja",
}
#: Names in C that inputs and outputs would share with parameters and macros beside them.
_TAKEN = frozenset(["HOST", "IN", "OUT", "WORKERS", "RANK", "DIVIDED", "SECRET", "STATE"])
#: How terms of a sum are added in C, by their type.
_ADDED = {
    **dict.fromkeys(("i8", "u8"), "EC_ADD_BYTES"), **dict.fromkeys(("i16", "u16"), "EC_ADD_16"),
    **dict.fromkeys(("i32", "u32"), "EC_ADD_32"), **dict.fromkeys(("i64", "u64"), "EC_ADD_64"),
    "f16": "EC_ADD_F16", "bf16": "EC_ADD_BF16", "f32": "EC_ADD_F32", "f64": "EC_ADD_F64",
}  # fmt: skip
#: Names of a network whose files would hide those beside them.
_HIDES = frozenset(["ec"])
#: Places of weights whose bytes are part of the program.
_LINKED = ("incbin", "array")
#: Bytes that tensors of a frame are aligned to.
_ALIGNMENT = 64


@dataclass(frozen=True)
class Port:
    """An input or output of the network in C, and its number among the tensors."""

    name: str
    dtype: str
    ctype: str
    elements: int
    shape: list[int]
    comment: str
    number: int


@dataclass(frozen=True)
class Place:
    """A tensor in the memory of a frame, with the numbers of its terms and how they are added."""

    number: int
    offset: int
    bytes: int
    terms: tuple[int, ...]
    add: str
    comment: str


@dataclass(frozen=True)
class Slice:
    """The bytes that a part reads of a tensor: of each block those from ``begin`` on."""

    tensor: int
    blocks: int
    stride: int
    begin: int
    bytes: int


@dataclass(frozen=True)
class End:
    """A port of a part: its bytes, and whether it is a state (1), or of which input it is the next value."""

    bytes: int
    state: int


@dataclass(frozen=True)
class Served:
    """A part: as the host asks for it, and as its worker runs it."""

    number: int
    worker: int
    folder: str
    name: str
    types: int
    types_out: int
    length: int
    length_out: int
    reads: tuple[Slice, ...]
    writes: tuple[int, ...]
    ports: tuple[End, ...]
    inputs: int
    outputs: int


@dataclass(frozen=True)
class Worker:
    """A worker by its rank, with its parts and their digest as a list of numbers in C."""

    rank: int
    parts: tuple[Served, ...]
    digest: str


def refusal(folder: Path, manifest: Manifest) -> str:
    """Reason why there is no C for a divided network in ``folder``; empty where there is."""
    idle = {*range(len(manifest.workers))} - {p.worker for p in manifest.parts}
    if idle:
        return f"worker {min(idle)} has no part"
    for part in manifest.parts:
        lock = read_lock(folder / part.folder)
        language, place = lock.get("language", "c"), lock.get("weights", {}).get("place", "incbin")
        if language != "c":
            return f"{part.folder} is in {language}, and workers in C run C alone"
        if place not in _LINKED:
            return f"the weights of {part.folder} are in a file that a program has to open ({place})"
        if any(not isinstance(n, int) for key in ("inputs", "outputs") for p in lock[key] for n in p["shape"]):
            return f"{part.folder} has sizes that are known only at run time"
    for tensor in manifest.tensors.values():
        if tensor.terms and tensor.dtype not in _ADDED:
            return f"the sum {comment_text(tensor.name)} is of {tensor.dtype}, which the host does not add in C"
    if not manifest.outputs:
        return "it has no outputs"
    if manifest.name in _HIDES:
        return f"files of a network called {manifest.name} would hide those of the runtime"
    return ""


def divided_files(folder: Path, manifest: Manifest, templates: Sequence[Path] = ()) -> dict[str, bytes]:
    """Files in C beside the parts in ``folder``, by name, for a network that `refusal` has nothing against."""
    name = manifest.name
    numbers = {tensor: k for k, tensor in enumerate(manifest.tensors)}
    places = _places(manifest, numbers)
    parts = [_served(folder, manifest, numbers, side_of(folder, manifest, k)) for k in range(len(manifest.parts))]
    taken = set(_TAKEN)
    inputs = [_port(manifest.tensors[n], numbers[n], taken, "input", name) for n in manifest.inputs]
    outputs = [_port(manifest.tensors[n], numbers[n], taken, "output", name) for n in manifest.outputs]
    workers = [_worker(folder, k, parts) for k in range(len(manifest.workers))]
    pushed = [f", const {p.ctype} *{p.name}" for p in inputs]
    pulled = [f", {p.ctype} *{p.name}" for p in outputs]
    of_inputs, of_outputs = ("".join(f", {p.name}_data" for p in group) for group in (inputs, outputs))
    values: dict[str, Any] = {
        "name": name, "NAME": name.upper(), "version": __version__, "split": manifest.split, "workers": workers,
        "in_flight": manifest.in_flight, "inputs": inputs, "outputs": outputs, "parts": parts, "tensors": places,
        "frame_bytes": places[-1].offset + places[-1].bytes, "request_bytes": max(p.length for p in parts),
        "pushed": pushed, "pulled": pulled, "parameters": "".join([*pushed, *pulled])[2:],
        "in_list": ", ".join(p.name for p in inputs) or "0", "out_list": ", ".join(p.name for p in outputs),
        "push_arguments": of_inputs, "pull_arguments": of_outputs, "run_arguments": of_inputs + of_outputs,
    }  # fmt: skip
    found = {path.format(name=name): render(page, templates, **values) for path, page in PAGES.items()}
    shelf = data_folder("codegen_templates") / "runtime"
    runtime = {f.name: f.read_text("utf-8") for f in (*sorted((shelf / "divided").iterdir()), shelf / "ec_scalar.h")}
    found |= own_names(runtime, name)
    return {path: licensed(path, text.encode()) for path, text in found.items()}


def _places(manifest: Manifest, numbers: Mapping[str, int]) -> list[Place]:
    found, offset = [], 0
    for k, tensor in enumerate(manifest.tensors.values()):
        terms = tuple(numbers[n] for n in tensor.terms)
        add = _ADDED[tensor.dtype] if terms else "0"
        about = comment_text(f"{tensor.name}: {tensor.dtype}{list(tensor.shape)}")
        found.append(Place(k, offset, tensor.bytes, terms, add, about))
        offset += -(-tensor.bytes // _ALIGNMENT) * _ALIGNMENT
    return found


def _port(tensor: Tensor, number: int, taken: set[str], fallback: str, prefix: str) -> Port:
    size = DTYPES[tensor.dtype].itemsize
    ctype = f"uint{size * 8}_t" if tensor.dtype in CODED else STORAGE[tensor.dtype]
    name = identifier(tensor.name, taken, fallback, prefix)
    about = comment_text(tensor.name)
    return Port(name, tensor.dtype, ctype, prod(tensor.shape), list(tensor.shape), about, number)


def _slice(read: Read, tensor: Tensor, number: int) -> Slice:
    if read.axis is None:
        return Slice(number, 1, tensor.bytes, 0, tensor.bytes)
    inner = prod(tensor.shape[read.axis + 1 :]) * DTYPES[tensor.dtype].itemsize
    blocks = prod(tensor.shape[: read.axis])
    of_block = (read.end - read.begin) * inner
    return Slice(number, blocks, tensor.shape[read.axis] * inner, read.begin * inner, of_block)


def _served(folder: Path, manifest: Manifest, numbers: Mapping[str, int], side: Side) -> Served:
    entry = side.entry
    lock = read_lock(folder / entry.folder)
    states = states_of(lock)
    olds = {new: old for old, new in states.items()}
    at = {p["onnx_name"]: k for k, p in enumerate(lock["inputs"])}
    ends = [End(_bytes(p), int(p["onnx_name"] in states)) for p in lock["inputs"]]
    ends += [End(_bytes(p), at[olds[n]] if (n := p["onnx_name"]) in olds else -1) for p in lock["outputs"]]
    reads = tuple(_slice(r, manifest.tensors[r.tensor], numbers[r.tensor]) for r in side.reads)
    return Served(
        side.number, entry.worker, entry.folder, lock["name"], side.types, side.out,
        sum(r.blocks * r.bytes for r in reads), side.length, reads, tuple(numbers[p.onnx_name] for p in side.writes),
        tuple(ends), len(lock["inputs"]), len(lock["outputs"]),
    )  # fmt: skip


def _bytes(entry: Mapping[str, Any]) -> int:
    return prod(map(int, entry["shape"])) * DTYPES[entry["dtype"]].itemsize


def _worker(folder: Path, k: int, parts: Sequence[Served]) -> Worker:
    own = tuple(p for p in parts if p.worker == k)
    return Worker(k + 1, own, ", ".join(map(str, digest_of([folder / p.folder for p in own]))))

"""The artefact: a folder with C sources, weights, a build file, a Python module and an example."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from edgec import __version__
from edgec.device.facts import Device
from edgec.emit.c_expression import STORAGE
from edgec.emit.render import render
from edgec.emit.source import Sources, comment_text, generate
from edgec.errors import DeviceError, UsageError
from edgec.ir.types import CODED, DTYPES, plain
from edgec.ir.vector import vector_lanes
from edgec.locate import data_folder
from edgec.schedule.memory import ALIGNMENT
from edgec.schedule.program import Buffer, Program

#: A marker every output folder has: only such a folder is ever overwritten.
LOCK = "edgec.lock"
#: Kernel sources are spread over this many files, so that compilers can work side by side.
FILES = 8

_WORDS = """
alignas alignof and asm auto bitand bitor bool break case catch char class compl const constexpr continue decltype
default delete do double else enum explicit export extern false float for friend goto if inline int long mutable
namespace new noexcept not nullptr operator or private protected public register restrict return short signed sizeof
static struct switch template this throw true try typedef typeid typename typeof union unsigned using virtual void
volatile while xor
int8_t int16_t int32_t int64_t size_t uint8_t uint16_t uint32_t uint64_t
eof errno infinity linux nan null stderr stdin stdout unix
arena call pool task thread threads weights
"""
#: What no parameter can be called: words of C and C++, types, macros that are always there, and its neighbors.
_TAKEN_WORDS = frozenset(_WORDS.split())


#: Headers that generated sources include: a project of that name would put its own in their place.
_HEADERS = frozenset(
    [
        "assert",
        "ctype",
        "errno",
        "float",
        "immintrin",
        "inttypes",
        "limits",
        "math",
        "pthread",
        "sched",
        "signal",
        "stdalign",
        "stdarg",
        "stdatomic",
        "stdbool",
        "stddef",
        "stdint",
        "stdio",
        "stdlib",
        "string",
        "time",
        "unistd",
    ]
)


@dataclass(frozen=True)
class Port:
    """An input or output of the artefact: its name in C and in ONNX, its type and size."""

    name: str
    onnx_name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def ctype(self) -> str:
        """The caller's type; narrow ones are passed as their codes."""
        return f"uint{DTYPES[self.dtype].itemsize * 8}_t" if self.dtype in CODED else STORAGE[self.dtype]

    @property
    def numpy(self) -> str:
        return plain(np.empty(0, DTYPES[self.dtype])).dtype.name

    @property
    def elements(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def comment(self) -> str:
        return comment_text(self.onnx_name)


def identifier(text: str, taken: set[str], fallback: str) -> str:
    """A C identifier made from a model's own text, unique among ``taken``."""
    name = re.sub(r"[^0-9A-Za-z]+", "_", text).strip("_")[:40] or fallback
    is_macro = re.fullmatch(r"[A-Z0-9_]+_(MAX|MIN|C|WIDTH)", name)  # of stdint.h
    if not name[0].isalpha() or name.lower() in _TAKEN_WORDS or name.startswith("ec_") or is_macro:
        name = f"{fallback}_{name}"
    base, k = name, 2
    while name.upper() in taken:  # in capitals it is part of the names of macros
        name, k = f"{base}_{k}", k + 1
    taken.add(name.upper())
    return name


def ports(program: Program, prefix: str) -> tuple[list[Port], list[Port]]:
    # What the sources themselves call by the prefix.
    taken = {f"{prefix}_{word}".upper() for word in ("run", "run_pool", "share", "call", "weights", "example")}

    def port(entry: tuple[str, Buffer, Any], fallback: str) -> Port:
        name, _, node = entry
        return Port(identifier(name, taken, fallback), name, node.type.dtype, node.type.shape)

    return [port(e, "input") for e in program.inputs], [port(e, "output") for e in program.outputs]


def weights_blob(program: Program) -> bytes:
    blob = np.zeros(max(program.weights_bytes, ALIGNMENT), np.uint8)
    for buffer, offset in program.offsets.items():
        if buffer.space == "weights" and buffer.data is not None:
            raw = np.ascontiguousarray(buffer.data).reshape(-1).view(np.uint8)
            blob[offset : offset + raw.size] = raw
    return blob.tobytes()


def files(
    program: Program,
    device: Device,
    name: str = "net",
    templates: Sequence[Path] = (),
    facts: Mapping[str, Any] = {},
) -> dict[str, bytes]:
    """Every file of the project, by relative path. The same program gives the same bytes.

    Raises DeviceError for a device whose language has no back end, UsageError for a name that would hide a header.
    """
    if device.language != "c":
        raise DeviceError(
            f"device '{device.name}' is programmed in {device.language}, for which edgec has no back end yet",
            hint='devices with language = "c" work: edgec device list',
        )
    if name.lower() in _HEADERS:
        raise UsageError(f"{name}.h would hide a header of the C library", hint="choose another --name")
    sources = generate(program, name, templates)
    inputs, outputs = ports(program, name)
    weights = weights_blob(program)
    values = {
        "name": name, "NAME": name.upper(), "version": __version__, "program": program, "device": device,
        "inputs": inputs, "outputs": outputs, "sources": sources, "alignment": ALIGNMENT,
        "weights_bytes": len(weights), "vector_lanes": vector_lanes(device),
        "metadata": {comment_text(k): comment_text(v) for k, v in program.graph.metadata.items()},
    }  # fmt: skip
    values["parameters"] = ",\n    ".join(
        [f"const {p.ctype} *{p.name}" for p in inputs] + [f"{p.ctype} *{p.name}" for p in outputs]
    )
    values["arguments"] = ", ".join(p.name for p in (*inputs, *outputs))
    values["device_flags"] = "".join(f" {flag}" for flag in device.cflags)
    result: dict[str, bytes] = {f"{name}_weights.bin": weights}

    def put(path: str, template: str, **more: Any) -> None:
        result[path] = render(template, templates, **values, **more).encode()

    groups = _groups(sources)
    kernel_files = [f"{name}_kernels_{k}.c" for k in range(len(groups))]
    put(f"{name}.h", "project/net.h.jinja")
    put(f"{name}_kernels.h", "project/kernels.h.jinja")
    put(f"{name}.c", "project/net.c.jinja")
    for path, group in zip(kernel_files, groups):
        put(path, "project/kernels.c.jinja", group=group)
    put(f"{name}_weights.S", "project/weights.S.jinja")
    put("main.c", "project/main.c.jinja")
    put("CMakeLists.txt", "project/CMakeLists.txt.jinja", kernel_files=kernel_files)
    put(f"{name}.py", "project/net.py.jinja")
    put("README.md", "project/README.md.jinja")
    runtime = data_folder("codegen_templates") / "runtime"
    for path_ in sorted(runtime.glob("ec_*")):
        result[path_.name] = path_.read_bytes()
    digest = sha256()
    for path in sorted(result):
        for part in (path.encode(), b"\0", result[path], b"\0"):
            digest.update(part)
    lock = {
        "edgec": __version__, "name": name, "device": device.name, "threads": program.threads,
        "arena_bytes": program.arena_bytes, "arena_lower_bound_bytes": program.arena_lower_bound_bytes,
        "weights_bytes": len(weights), "kernels": len(program.kernels),
        "inputs": [_entry(p) for p in inputs], "outputs": [_entry(p) for p in outputs],
        "sources": [f"{name}.c", *kernel_files, f"{name}_weights.S", "ec_pool.c"],
        "files": sorted(result),
        "license": program.graph.metadata.get("license"), "files_sha256": digest.hexdigest(), **facts,
    }  # fmt: skip
    result[LOCK] = (json.dumps(lock, indent=1, sort_keys=True) + "\n").encode()
    return result


def _entry(port: Port) -> dict[str, Any]:
    return {"name": port.name, "onnx_name": port.onnx_name, "dtype": port.dtype, "shape": list(port.shape)}


def _groups(sources: Sources) -> list[list[Any]]:
    """Functions in order, cut into files of about equal length."""
    total = sum(len(f.text) for f in sources.functions)
    share = max(total // FILES, 20_000)
    groups: list[list[Any]] = [[]]
    size = 0
    for f in sources.functions:
        if size > share:
            groups.append([])
            size = 0
        groups[-1].append(f)
        size += len(f.text)
    return groups

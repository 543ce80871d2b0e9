"""The artifact: a folder with C sources, weights, a build file, a Python module and an example."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from edgec.device.device import Device
from edgec.emit import extras
from edgec.emit.c_expression import extent_text
from edgec.emit.c_literal import STORAGE
from edgec.emit.c_text import size_name
from edgec.emit.function_comment import comment_text
from edgec.emit.host_values import Computed, Demand, Open, decoder_of, port_of, shared_ports
from edgec.emit.identifiers import identifier
from edgec.emit.language import language_of, refuse_large
from edgec.emit.language_model import session_of
from edgec.emit.license import licensed
from edgec.emit.opencl import host_values
from edgec.emit.picture import AS_IS, Preparation, steps
from edgec.emit.render import render
from edgec.emit.runtime import runtime_files
from edgec.emit.source import Function, generate, pointer_text, size_value
from edgec.emit.weights import Weights, weights_of
from edgec.errors import DeviceError, UsageError
from edgec.frontend.language.facts import LONG
from edgec.ir import expr as X
from edgec.ir.expr import Expr, Extent
from edgec.ir.extent import sizes
from edgec.ir.graph import MODEL_SHA256
from edgec.ir.sizes import dimensions
from edgec.ir.types import CODED, DTYPES, Type, plain
from edgec.resources import data_folder
from edgec.schedule.memory import ALIGNMENT
from edgec.schedule.program import Buffer, Program
from edgec.version import __version__

#: Metadata of a graph that no comment lists: what is not for people, and what is a macro.
HIDDEN = LONG | {MODEL_SHA256}
#: The lock file; only a folder that contains one is overwritten.
LOCK = "edgec.lock"
#: Bytes of a counter that thread blocks of a GPU kernel synchronize with; the counters follow the arena.
LOCK_BYTES = 4
#: Kernel sources are divided into about this many files, so that they can be compiled in parallel.
FILES = 8

#: Headers that generated sources include, and thus no names for a project: its own header would hide them.
_HEADERS = frozenset([
    "assert", "ctype", "errno", "float", "immintrin", "inttypes", "limits", "math", "pthread", "sched", "signal",
    "stdalign", "stdarg", "stdatomic", "stdbool", "stddef", "stdint", "stdio", "stdlib", "string", "time", "unistd",
])  # fmt: skip


@dataclass(frozen=True)
class Port:
    """An input or output of the artifact: its names in C and in ONNX, its type and size."""

    name: str
    onnx_name: str
    type: Type

    @property
    def dtype(self) -> str:
        return self.type.dtype

    @property
    def shape(self) -> tuple[Extent, ...]:
        shape: tuple[Extent, ...] = self.type.shape
        return shape

    @property
    def is_open(self) -> bool:
        """Is there an extent that is known only at run time?"""
        return not self.type.is_fixed

    @property
    def names(self) -> tuple[int | str, ...]:
        """The shape of an input, with the names of the dimensions it leaves open."""
        sizes = dimensions([self.type])
        return tuple(
            extent
            if isinstance(extent, int)
            else next((d.name for d in sizes.values() if d.extent == extent), str(extent))
            for extent in self.shape
        )

    @property
    def formulas(self) -> str:
        """The shape as a Python tuple, over the names that sizes have in C."""
        return "(" + "".join(f"{_python(extent)}, " for extent in self.shape) + ")"

    @property
    def shape_text(self) -> str:
        """The shape for a comment."""
        return "[" + ", ".join(_python(extent) for extent in self.shape) + "]"

    @property
    def ctype(self) -> str:
        """The C type of the caller's array; types without a C type are passed as unsigned integers of the same size."""
        return f"uint{DTYPES[self.dtype].itemsize * 8}_t" if self.dtype in CODED else STORAGE[self.dtype]

    @property
    def numpy(self) -> str:
        return plain(np.empty(0, DTYPES[self.dtype])).dtype.name

    @property
    def elements(self) -> int:
        return self.type.elements

    @property
    def bytes_text(self) -> str:
        """Its number of bytes as a C expression, for the sizes of the current run."""
        return f"{extent_text(X.plain(prod(self.shape)))} * sizeof({self.ctype})"

    @property
    def comment(self) -> str:
        return comment_text(self.onnx_name)


def ports(program: Program, prefix: str) -> tuple[list[Port], list[Port]]:
    taken = {"SIZES"}

    def port(entry: tuple[str, Buffer, Any], fallback: str) -> Port:
        name, _, node = entry
        return Port(identifier(name, taken, fallback, prefix), name, node.type)

    return [port(e, "input") for e in program.inputs], [port(e, "output") for e in program.outputs]


def files(
    program: Program,
    device: Device,
    name: str = "net",
    templates: Sequence[Path] = (),
    facts: Mapping[str, Any] = {},
    beside: Sequence[str] = (),
    prepared: Preparation = AS_IS,
    place: str = "incbin",
    ram: int | None = None,
) -> dict[str, bytes]:
    """Every file of the project, by relative path. The same program gives the same bytes.

    ``beside`` are the names of optional additions (`edgec.emit.extras`), ``prepared`` is the preprocessing of images in
    apps, ``place`` is where the weights are (`edgec.emit.weights`), in ``ram`` bytes of memory with all else.

    Raises DeviceError for a device whose language has no back end, UsageError for a name that would hide a header, or
    for an addition that does not fit the device.
    """
    wanted = extras.chosen(beside, device, name)
    language = language_of(device)
    language.refuse(program)
    refuse_large(program, device)
    if language.name == "opencl" and device.precision == "tf32":
        raise DeviceError("OpenCL has no TF32", hint="build with --precision fp32 or fp16")
    if name.lower() in _HEADERS:
        raise UsageError(f"{name}.h would hide a header of the C library", hint="choose another --name")
    if name in ("ctypes", "numpy", "pathlib"):
        raise UsageError(f"{name}.py would hide the module that it imports", hint="choose another --name")
    weights = weights_of(program, device, name, place, beside, ram)
    if weights.stream is not None:
        program = replace(program, offsets={**program.offsets, **weights.stream.places})
    sources = generate(program, name, templates, language)
    single = generate(program.single, f"{name}_one", templates, language) if program.single is not None else None
    inputs, outputs = ports(program, name)
    values = {
        "name": name, "NAME": name.upper(), "version": __version__, "program": program, "device": device,
        "arena_bytes": program.arena_bytes + LOCK_BYTES * program.locks,
        "inputs": inputs, "outputs": outputs, "sources": sources, "single": single, "alignment": ALIGNMENT,
        "weights_bytes": len(weights.blob), "weights": weights, "vector_lanes": device.vector_lanes,
        "metadata": {comment_text(k): comment_text(v) for k, v in program.graph.metadata.items() if k not in HIDDEN},
    }  # fmt: skip
    values["model_sha256"] = program.graph.metadata.get(MODEL_SHA256, "")
    values["quantization"] = {p.onnx_name: steps(p.onnx_name, program.graph.metadata) for p in (*inputs, *outputs)}
    chosen = dimensions(n.type for _, _, n in program.inputs)
    fields: set[str] = set()  # of the structure with sizes
    values["dimensions"] = opened = [
        Open(d.name, identifier(d.name, fields, "size"), size_name(s), d.low, d.high, d.step) for s, d in chosen.items()
    ]
    values["shared_ports"] = shared_ports(program)
    values["decoder"] = decoder_of(program, opened) if language.name == "cuda" else None
    values["states"] = _states(program, inputs, outputs)
    values["computed"] = computed = [
        Computed(
            s,
            identifier(s.value.name, fields, "size"),
            size_value(s, b, program),
            port_of(b, program),
            program.offsets.get(b, 0),
        )
        for s, b in program.sizes.items()
    ]
    values["demands"] = [Demand(comment_text(m), f"*({pointer_text(b, program)})") for m, b in program.demands]
    values["is_open"] = is_open = bool(chosen or computed)
    values["size_names"] = [*map(size_name, chosen), *(size_name(s) for s in program.sizes)]
    sizes = [f"{name}_sizes *sizes"] if is_open else []
    values["parameters"] = ",\n    ".join(
        sizes + [f"const {p.ctype} *{p.name}" for p in inputs] + [f"{p.ctype} *{p.name}" for p in outputs]
    )
    values["arguments"] = ", ".join([*(["sizes"] if is_open else []), *(p.name for p in (*inputs, *outputs))])
    values["has_board"] = device.has_board
    values["uses_tiles"] = any(k.schedule.uses_tiles for k in program.kernels)
    values["sizes_parameter"] = "".join(f", {s}" for s in sizes)
    values["device_flags"] = "".join(f" {flag}" for flag in device.toolchain.cflags)
    values["cross"] = cross_options(device)
    types = {b: p.ctype for p, (_, b, _) in zip((*inputs, *outputs), (*program.inputs, *program.outputs))}
    names = {d.name: identifier(d.name, set(), "size") for d in chosen.values()}
    model = session_of(program, names, types) if language.name == "c" else None
    added = model.sources(name) if model else []
    tables = [weights]
    if model and model.tokens is not None:
        tables.append(Weights(weights.linked, name, model.tokens, "tokens"))
    added += weights.runtime_sources
    modules = [*(["ec_pool"] if device.hosted else []), *(model.modules if model else ())]
    headers = [
        f"{name}.h",
        *(page.format(name=name) for page in (model.pages if model else ()) if page.endswith(".h")),
        *(f"{m}.h" for m in modules),
    ]
    values |= {"model": model, "added_sources": added, "tables": tables, "public_headers": headers}
    values["model_hash"] = model.digest(weights.blob) if model else b""
    result: dict[str, bytes] = {}

    def put(path: str, template: str, **more: Any) -> None:
        result[path] = render(template, templates, **values, **more).encode()

    for table in tables:
        result |= table.files
        put(table.source, table.template, table=table)
    if model and model.chat is not None:
        result[f"{name}_chat.json"] = (model.chat.written() + "\n").encode()
    groups = [*_groups(sources.functions), *(_groups(single.functions) if single is not None else ())]
    if language.name == "opencl":
        values |= host_values(program, sources, groups, device)
    template, pattern = language.kernels
    values["kernel_files"] = kernel_files = [pattern.format(name=name, k=k) for k in range(len(groups))]
    for path, page in (*language.pages.items(), *(model.pages.items() if model else ())):
        put(path.format(name=name), page)
    for path, group in zip(kernel_files, groups):
        put(path, template, group=group)
    compiled = [
        *(source.format(name=name) for source in language.sources if device.hosted or source != "ec_pool.c"),
        *(kernel_files if language.compiles_kernels else ()),
        *added,
        *(table.source for table in tables),
    ]
    pages, of_extras = extras.pages(wanted, device, inputs, outputs, compiled, prepared, program.graph.metadata, model)
    for path, page in pages.items():
        put(path.format(name=name), page, **of_extras)
    runtime = [*(f"runtime/{shape}" for shape in language.runtime), *(f"runtime/weights/{f}" for f in weights.runtime)]
    runtime += [f"language/{module}.[ch]" for module in (model.modules if model else ())]
    if device.has_board:
        has_fpu = any(s.startswith(("fpv", "mve")) for s in device.instruction_sets)
        put("ec_board.c", "board/cortex_m.c.jinja", has_fpu=has_fpu)
        put(f"{name}.ld", "board/cortex_m.ld.jinja")
        runtime.append("board/ec_*")
    shelf = data_folder("codegen_templates")
    if values["uses_tiles"]:
        result["ec_simd_tiles.h"] = (shelf / "runtime" / "ec_simd_tiles.h").read_bytes()
    result |= runtime_files([f for shape in runtime for f in sorted(shelf.glob(shape)) if f.is_file()], device, name)
    result = {path: licensed(path, content) for path, content in result.items()}
    for header in sources.headers:
        if header.name in result:
            raise UsageError(f"a header cannot be called {header.name}", hint="rename it", where=str(header))
        result[header.name] = header.read_bytes()
    own = {"language": language.name, "sources": compiled, "weights_bytes": len(weights.blob)}
    own |= {"weights": {"place": place, "file": weights.file}}
    own |= {"language_model": model.described} if model else {}
    return sealed(result, program, device, name, inputs, outputs, {**own, **facts})


def cross_options(device: Device) -> str:
    """CMake's options for cross compilation; empty where the compiler is not known."""
    system = "Linux" if device.hosted else "Generic"
    known = device.toolchain.gcc_target and (not device.hosted or "linux" in device.toolchain.gcc_target)
    return f"-DCMAKE_SYSTEM_NAME={system} -DCMAKE_C_COMPILER={device.toolchain.gcc_target}-gcc" if known else ""


def sealed(
    result: dict[str, bytes],
    program: Program,
    device: Device,
    name: str,
    inputs: Sequence[Port],
    outputs: Sequence[Port],
    facts: Mapping[str, Any],
) -> dict[str, bytes]:
    """The files of a project, with the lock file that describes them."""
    digest = sha256()
    for path in sorted(result):
        for part in (path.encode(), b"\0", result[path], b"\0"):
            digest.update(part)
    lock = {
        "edgec": __version__, "name": name, "device": device.name, "threads": program.threads,
        "arena_bytes": program.arena_bytes, "arena_lower_bound_bytes": program.arena_lower_bound_bytes,
        "kernels": len(program.kernels),
        "inputs": [_entry(p) for p in inputs], "outputs": [_entry(p) for p in outputs],
        "files": sorted(result),
        "license": program.graph.metadata.get("license"), "files_sha256": digest.hexdigest(), **facts,
    }  # fmt: skip
    result[LOCK] = (json.dumps(lock, indent=1, sort_keys=True) + "\n").encode()
    return result


def _states(program: Program, inputs: Sequence[Port], outputs: Sequence[Port]) -> list[tuple[str, str]]:
    """The names in C of every state and of its next value."""
    names = {buffer: p.name for p, (_, buffer, _) in zip((*inputs, *outputs), (*program.inputs, *program.outputs))}
    return [(names[old], names[new]) for new, old in program.states.items()]


def _python(extent: Extent) -> str:
    """An extent as Python text; C differs only in the operator of division."""
    if not isinstance(extent, Expr):
        return str(extent)
    named = {s: X.size(size_name(s), s.value.low, s.value.high) for s in sizes(extent)}
    return X.show(X.substitute(extent, named))


def _entry(port: Port) -> dict[str, Any]:
    shape = [extent if isinstance(extent, int) else str(extent) for extent in port.shape]
    return {"name": port.name, "onnx_name": port.onnx_name, "dtype": port.dtype, "shape": shape}


def _groups(functions: Sequence[Function]) -> list[list[Any]]:
    """Functions in order, divided into files of about equal length."""
    total = sum(len(f.text) for f in functions)
    share = max(total // FILES, 20_000)
    groups: list[list[Any]] = [[]]
    size = 0
    for f in functions:
        if size > share:
            groups.append([])
            size = 0
        groups[-1].append(f)
        size += len(f.text)
    return groups


@dataclass(frozen=True)
class Project:
    """The files of the artifact by relative path, and the program they run."""

    program: Program
    files: Mapping[str, bytes]

"""The artifact: a folder with C sources, weights, a build file, a Python module and an example."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from edgec.artifact.names import LOCK
from edgec.device.device import Device
from edgec.emit import extras, packages
from edgec.emit.abi import AbiFiles
from edgec.emit.collectives import PAGES as PAGES_OF_RANKS
from edgec.emit.interface import Port
from edgec.emit.language import Language, language_of, refuse_large
from edgec.emit.levels import FRONT, WITHOUT, refuse_beside
from edgec.emit.license import licensed
from edgec.emit.parts import Parts, parts_of
from edgec.emit.picture import AS_IS, Preparation
from edgec.emit.render import render
from edgec.emit.runtime import runtime_files, simd_headers
from edgec.emit.weights import weights_of
from edgec.emit.weights_abi import abi as abi_of_weights
from edgec.emit.where import where_files, where_names, where_rows
from edgec.errors import DeviceError, UsageError
from edgec.files import InPieces, Pieces
from edgec.ir.sizes import dimensions, named
from edgec.resources import data_folder
from edgec.schedule.program import Program
from edgec.version import __version__

#: Headers that generated sources include, and thus no names for a project: its own header would hide them.
_HEADERS = frozenset([
    "assert", "ctype", "errno", "float", "immintrin", "inttypes", "limits", "math", "pthread", "sched", "signal",
    "stdalign", "stdarg", "stdatomic", "stdbool", "stddef", "stdint", "stdio", "stdlib", "string", "time", "unistd",
])  # fmt: skip


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
    cores: Sequence[int] = (),
    abis: Sequence[AbiFiles] = (),
) -> Mapping[str, bytes]:
    """Every file of the project, by relative path. The same program gives the same bytes.

    ``beside`` are the names of optional additions (`edgec.emit.apps`), ``prepared`` is the preprocessing of images in
    apps, ``abis`` are those of an Android library beside the device's, ``place`` is where the weights are
    (`edgec.emit.weights`), in ``ram`` bytes of memory with all else, and ``cores`` those that programs keep their
    threads on.

    Raises DeviceError for a device whose language has no back end, UsageError for a name that would hide a header, or
    for an addition that does not fit the device.
    """
    wanted = extras.chosen(beside, device, name)
    language = language_of(device)
    _refuse(program, device, name, language)
    if program.levels:
        refuse_beside(beside)
    weights = weights_of(program, device, name, packages.place_of(wanted, place), beside, ram)
    if weights.stream is not None:
        program = replace(program, offsets={**program.offsets, **weights.stream.places})
    parts, values = parts_of(program, device, name, templates, language, weights, cores)
    weights = parts.weights
    # Large weights are not joined to be written once; packages have copies.
    apart: dict[str, Pieces] = {}
    if weights.file is not None and not weights.is_opened and not wanted:
        apart[weights.file] = weights.pieces
    result = _own(parts, values, templates, apart)
    pages, of_extras = extras.pages(
        wanted, device, values["inputs"], values["outputs"], parts.compiled, prepared, program.graph.metadata,
        parts.model, name, program.threads, abis,
    )  # fmt: skip
    result |= {p.format(name=name): render(t, templates, **values, **of_extras).encode() for p, t in pages.items()}
    rows = where_rows(parts.program, device)
    result |= _shelved(parts, values, templates) | where_files(rows, device, name, templates)
    for level in parts.levels:
        result |= {f: (_shelf() / "runtime" / f).read_bytes() for f in simd_headers(level.device)}
    result = {path: licensed(path, content) for path, content in result.items()}
    for header in parts.sources.headers:
        if header.name in result:
            raise UsageError(f"a header cannot be called {header.name}", hint="rename it", where=str(header))
        result[header.name] = header.read_bytes()
    for abi in abis:
        result |= {f"{abi.folder}/{path}": content for path, content in abi.files.items()}
    if weights.is_opened:
        parts = _opened(parts, values, result, templates)
    result |= packages.packaged(wanted, name, result, [*dict.fromkeys([*parts.compiled, where_names(name)[0]])])
    known = {weights.file: weights.sha256} if weights.file is not None else {}
    described = parts.described | ({"abis": {abi.abi: list(abi.sources) for abi in abis}} if abis else {}) | {**facts}
    whole = sealed(result, parts.program, device, name, values["inputs"], values["outputs"], described, known)
    return InPieces(whole, apart) if apart else whole


def _refuse(program: Program, device: Device, name: str, language: Language) -> None:
    language.refuse(program)
    refuse_large(program, device)
    if language.name == "opencl" and device.precision == "tf32":
        raise DeviceError("OpenCL has no TF32", hint="build with --precision fp32 or fp16")
    if name.lower() in _HEADERS:
        raise UsageError(f"{name}.h would hide a header of the C library", hint="choose another --name")
    if name in ("ctypes", "numpy", "pathlib"):
        raise UsageError(f"{name}.py would hide the module that it imports", hint="choose another --name")


def _shelf() -> Path:
    return data_folder("codegen_templates")


def _pages(parts: Parts) -> dict[str, str]:
    """Templates of the files around the kernels, by path."""
    pages = dict(parts.language.pages)
    if parts.levels:
        pages = {path: page for path, page in (pages | FRONT).items() if path not in WITHOUT}
    return pages | (PAGES_OF_RANKS if parts.program.ranks is not None else {})


def _own(
    parts: Parts, values: Mapping[str, Any], templates: Sequence[Path], apart: Mapping[str, Pieces]
) -> dict[str, bytes]:
    """The files that are rendered for this program; those that are written ``apart`` are empty."""
    name, weights, model = parts.name, parts.weights, parts.model
    result: dict[str, bytes] = {path: content for level in parts.levels for path, content in level.files.items()}

    def put(path: str, template: str, **more: Any) -> None:
        result[path] = render(template, templates, **values, **more).encode()

    for made in parts.beside:
        result |= made.files
    for table in parts.tables:
        if not table.is_opened:
            result |= dict.fromkeys(apart, b"") if apart and table.file in apart else table.files
            put(table.source, table.template, table=table)
    if model and model.chat is not None:
        result[f"{name}_chat.json"] = (model.chat.written() + "\n").encode()
    for path, page in (*_pages(parts).items(), *(model.pages.items() if model else ())):
        if path != "{name}.py" or not weights.is_opened:
            put(path.format(name=name), page)
    for path, group in zip(parts.kernel_files, parts.groups):
        put(path, parts.language.kernels[0], group=group)
    if parts.device.has_board:
        has_fpu = any(s.startswith(("fpv", "mve")) for s in parts.device.instruction_sets)
        put("ec_board.c", "board/cortex_m.c.jinja", has_fpu=has_fpu)
        put(f"{name}.ld", "board/cortex_m.ld.jinja")
        if weights.image is not None:
            put(weights.image, "project/weights/image.S.jinja")
    return result


def _shelved(parts: Parts, values: Mapping[str, Any], templates: Sequence[Path]) -> dict[str, bytes]:
    """The files that come along as they are."""
    shelf = _shelf()
    result: dict[str, bytes] = {}
    if values["uses_tiles"]:
        result["ec_simd_tiles.h"] = (shelf / "runtime" / "ec_simd_tiles.h").read_bytes()
    found = [f for pattern in parts.runtime for f in sorted(shelf.glob(pattern)) if f.is_file()]
    return result | runtime_files(found, parts.device, parts.name, parts.has_pool)


def _opened(parts: Parts, values: Mapping[str, Any], result: dict[str, bytes], templates: Sequence[Path]) -> Parts:
    """The parts with weights that know the code which may open them; adds them and what names them to ``result``."""
    weights, name = parts.weights, parts.name
    linked = {t.file: result[t.file] for t in parts.tables if t.file in result}
    digest = abi_of_weights(result, (weights.source, *where_names(name)), parts.program, parts.device, linked)
    weights = replace(weights, abi=digest)
    result |= weights.files
    for path, page in ((weights.source, weights.template), (f"{name}.py", _pages(parts)["{name}.py"])):
        text = render(page, templates, **{**values, "weights": weights}, table=weights)
        result[path] = licensed(path, text.encode())
    return replace(parts, weights=weights)


def sealed(
    result: dict[str, bytes],
    program: Program,
    device: Device,
    name: str,
    inputs: Sequence[Port],
    outputs: Sequence[Port],
    facts: Mapping[str, Any],
    known: Mapping[str, bytes] = {},
) -> dict[str, bytes]:
    """The files of a project, with the lock file that describes them; of those that are ``known``, by SHA-256."""
    digest = sha256()
    for path in sorted(result):
        digest.update(path.encode() + b"\0" + (known.get(path) or sha256(result[path]).digest()))
    chosen = dimensions(p.type for p in inputs).values()

    def entry(port: Port) -> dict[str, Any]:
        shape = list(named(port.type, chosen))
        return {"name": port.name, "onnx_name": port.onnx_name, "dtype": port.dtype, "shape": shape}

    lock = {
        "edgec": __version__, "name": name, "device": device.name, "threads": program.threads,
        "arena_bytes": program.arena_bytes, "arena_lower_bound_bytes": program.arena_lower_bound_bytes,
        "kernels": len(program.kernels), "where": where_rows(program, device),
        "inputs": [entry(p) for p in inputs], "outputs": [entry(p) for p in outputs],
        "files": sorted(result),
        "license": program.graph.metadata.get("license"), "files_sha256": digest.hexdigest(), **facts,
    }  # fmt: skip
    result[LOCK] = (json.dumps(lock, indent=1, sort_keys=True) + "\n").encode()
    return result


@dataclass(frozen=True)
class Project:
    """The files of the artifact by relative path, and the program they run."""

    program: Program
    files: Mapping[str, bytes]

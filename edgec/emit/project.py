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
from edgec.emit.bounds import bounds_files
from edgec.emit.collectives import PAGES as PAGES_OF_RANKS
from edgec.emit.collectives import Exchange, of_ranks, without_exchanges
from edgec.emit.device_session import device_session
from edgec.emit.finals import finals
from edgec.emit.identifiers import identifier
from edgec.emit.interface import Port, described
from edgec.emit.language import language_of, refuse_large
from edgec.emit.language_model import session_of
from edgec.emit.levels import FRONT, WITHOUT, level_files, refuse_beside
from edgec.emit.license import licensed
from edgec.emit.opencl import host_values
from edgec.emit.picture import AS_IS, Preparation
from edgec.emit.render import render
from edgec.emit.runtime import runtime_files, simd_headers
from edgec.emit.source import generate, grouped
from edgec.emit.training import training_files
from edgec.emit.weights import Weights, weights_of
from edgec.emit.weights_abi import abi as abi_of_weights
from edgec.emit.where import where_files, where_names, where_rows
from edgec.errors import DeviceError, UsageError
from edgec.files import InPieces
from edgec.ir.sizes import dimensions, named
from edgec.options.cores import cores_text
from edgec.resources import data_folder
from edgec.schedule.program import Program
from edgec.schedule.thread_count import most_threads
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
    language.refuse(program)
    refuse_large(program, device)
    if language.name == "opencl" and device.precision == "tf32":
        raise DeviceError("OpenCL has no TF32", hint="build with --precision fp32 or fp16")
    if name.lower() in _HEADERS:
        raise UsageError(f"{name}.h would hide a header of the C library", hint="choose another --name")
    if name in ("ctypes", "numpy", "pathlib"):
        raise UsageError(f"{name}.py would hide the module that it imports", hint="choose another --name")
    if program.levels:
        refuse_beside(beside)
    place = packages.place_of(wanted, place)
    weights = weights_of(program, device, name, place, beside, ram)
    if weights.stream is not None:
        program = replace(program, offsets={**program.offsets, **weights.stream.places})
    ranks = program.ranks
    exchanges: tuple[Exchange, ...] = ()
    if ranks is not None:
        program, exchanges = without_exchanges(program)
    values = described(program, name, templates, language)
    if ranks is not None:
        values |= of_ranks(ranks, exchanges, values, name, templates)
    inputs, outputs, sources = values["inputs"], values["outputs"], values["sources"]
    single = generate(program.single, f"{name}_one", templates, language) if program.single is not None else None
    values |= {
        "version": __version__, "device": device, "single": single, "alignment": language.alignment,
        "vector_lanes": device.vector_lanes,
        "shares_weights": False,
    }  # fmt: skip
    values["tells"] = tells = finals(program) if language.name == "c" else {}
    values["has_board"] = device.has_board
    values["has_pool"] = has_pool = device.hosted or program.threads > 1
    values["most_threads"] = program.threads if program.training is None else most_threads(program, program.training)
    values["device_flags"] = "".join(f" {flag}" for flag in device.toolchain.cflags)
    values["cross"] = cross_options(device)
    types = {b: p.ctype for p, (_, b, _) in zip((*inputs, *outputs), (*program.inputs, *program.outputs))}
    names = {d.name: identifier(d.name, set(), "size") for d in values["dimensions"]}
    model = session_of(program, names, types, device.is_gpu)
    if model and place == "file":
        weights = weights.with_fingerprint  # the code is then that of other weights too
    values |= {"weights_bytes": weights.size, "weights": weights}
    values["decoder"] = device_session(program, model) if model is not None and device.is_gpu else None
    if cores and model:
        hint = "leave out --cores"
        raise UsageError("sessions of a language model stay where the system puts them", hint=hint, where="--cores")
    values["cores"] = cores_text(cores) if cores else ""
    added = model.sources(name) if model else []
    added += ["ec_cores.c"] if cores else []
    tables = [weights]
    tables += [Weights(weights.linked, name, (model.tokens,), "tokens")] if model and model.tokens is not None else []
    added += weights.runtime_sources
    rows, table_of_places = where_rows(program, device), where_names(name)[0]
    added += [table_of_places] if device.hosted else []  # elsewhere it would take flash memory
    levels = level_files(program, name, templates, language, values)
    values["levels"] = levels
    values["most_kernels"] = max((level.kernels for level in levels), default=len(sources.calls))
    if levels:
        values |= {"device_flags": "", "uses_tiles": any(level.uses_tiles for level in levels)}
        added += [source for level in levels for source in level.sources]
    training = training_files(program, device, name, templates, values) if program.training is not None else None
    if training is not None:
        tables.append(Weights(weights.linked, name, (training.initial,), "initial"))
        added += training.sources
    bounds = bounds_files(program, device, name, templates, values) if program.bounds is not None else None
    beside_it = [made for made in (training, bounds) if made is not None]
    if bounds is not None:
        added += bounds.sources
    values["bounds"] = bounds
    modules = [
        *(["ec_pool"] if has_pool else []),
        *(["ec_cores"] if cores else []),
        *(model.modules if model else ()),
    ]
    headers = [
        f"{name}.h",
        *(page.format(name=name) for page in (model.pages if model else ()) if page.endswith(".h")),
        *(f"{m}.h" for m in modules),
        *(header for made in beside_it for header in made.headers),
    ]
    values |= {
        "model": model,
        "on_gpu": device.is_gpu,
        "added_sources": added,
        "tables": tables,
        "public_headers": headers,
    }
    held = weights.blob if weights.fingerprint_at is None else b""
    values["model_hash"] = model.digest(held, device.precision) if model else b""
    result: dict[str, bytes] = {path: content for level in levels for path, content in level.files.items()}

    def put(path: str, template: str, **more: Any) -> None:
        result[path] = render(template, templates, **values, **more).encode()

    for made in beside_it:
        result |= made.files
    # Large weights are not joined to be written once; packages have copies.
    apart = {weights.file: weights.pieces} if weights.file is not None and not weights.is_opened and not wanted else {}
    for table in tables:
        if not table.is_opened:
            result |= dict.fromkeys(apart, b"") if table is weights and apart else table.files
            put(table.source, table.template, table=table)
    if model and model.chat is not None:
        result[f"{name}_chat.json"] = (model.chat.written() + "\n").encode()
    groups = [
        *(grouped(sources.functions) if not levels else ()),
        *(grouped(single.functions) if single is not None else ()),
    ]
    if language.name == "opencl":
        values |= host_values(program, sources, groups, device)
    template, pattern = language.kernels
    values["kernel_files"] = kernel_files = [pattern.format(name=name, k=k) for k in range(len(groups))]
    pages = language.pages if not levels else {k: v for k, v in {**language.pages, **FRONT}.items() if k not in WITHOUT}
    pages = {**pages, **PAGES_OF_RANKS} if ranks is not None else pages
    for path, page in (*pages.items(), *(model.pages.items() if model else ())):
        if path != "{name}.py" or not weights.is_opened:
            put(path.format(name=name), page)
    for path, group in zip(kernel_files, groups):
        put(path, template, group=group)
    compiled = [
        *(source.format(name=name) for source in language.sources if has_pool or source != "ec_pool.c"),
        *(kernel_files if language.compiles_kernels else ()),
        *added,
        *(table.source for table in tables),
        *([weights.image] if weights.image is not None else []),
    ]
    pages_beside, of_extras = extras.pages(
        wanted, device, inputs, outputs, compiled, prepared, program.graph.metadata, model, name, program.threads, abis
    )
    for path, page in pages_beside.items():
        put(path.format(name=name), page, **of_extras)
    runtime = [*(f"runtime/{shape}" for shape in language.runtime), *(f"runtime/weights/{f}" for f in weights.runtime)]
    runtime += ["runtime/cores/*"] if cores else []
    runtime += ["runtime/ranks/*"] if ranks is not None else []
    runtime += ["runtime/wasm/*"] if has_pool and not device.hosted else []
    runtime += ["runtime/dispatch/*"] if levels else []
    runtime += [f"language/{module}.[ch]" for module in (model.modules if model else ())]
    if device.has_board:
        has_fpu = any(s.startswith(("fpv", "mve")) for s in device.instruction_sets)
        put("ec_board.c", "board/cortex_m.c.jinja", has_fpu=has_fpu)
        put(f"{name}.ld", "board/cortex_m.ld.jinja")
        if weights.image is not None:
            put(weights.image, "project/weights/image.S.jinja")
        runtime.append("board/ec_*")
    shelf = data_folder("codegen_templates")
    if values["uses_tiles"]:
        result["ec_simd_tiles.h"] = (shelf / "runtime" / "ec_simd_tiles.h").read_bytes()
    result |= runtime_files(
        [f for shape in runtime for f in sorted(shelf.glob(shape)) if f.is_file()], device, name, has_pool
    )
    result |= where_files(rows, device, name, templates)
    for level in levels:
        result |= {f: (shelf / "runtime" / f).read_bytes() for f in simd_headers(level.device)}
    result = {path: licensed(path, content) for path, content in result.items()}
    for header in sources.headers:
        if header.name in result:
            raise UsageError(f"a header cannot be called {header.name}", hint="rename it", where=str(header))
        result[header.name] = header.read_bytes()
    for abi in abis:
        result |= {f"{abi.folder}/{path}": content for path, content in abi.files.items()}
    if weights.is_opened:
        linked = {t.file: result[t.file] for t in tables if t.file in result}
        values["weights"] = weights = replace(
            weights, abi=abi_of_weights(result, (weights.source, *where_names(name)), program, device, linked)
        )
        result |= weights.files
        for path, page in ((weights.source, weights.template), (f"{name}.py", pages["{name}.py"])):
            put(path, page, table=weights)
            result[path] = licensed(path, result[path])
    in_packages = [*compiled, *([table_of_places] if table_of_places not in compiled else [])]
    result |= packages.packaged(wanted, name, result, in_packages)
    facts_of = {"language": language.name, "sources": compiled, "weights_bytes": weights.size}
    facts_of |= {"gpus": {"count": values["ranks"], "slices": sorted(ranks.slices)}} if ranks is not None else {}
    facts_of |= {"weights": {"place": place, "file": weights.file, **weights.interface}}
    facts_of |= {"language_model": model.described} if model else {}
    facts_of |= (
        {"levels": [files_of.described(level) for files_of, level in zip(levels, program.levels)]} if levels else {}
    )
    facts_of |= {"training": training.described} if training is not None else {}
    facts_of |= {"bounds": bounds.described} if bounds is not None else {}
    facts_of |= {"renewed": renewed(program)} if program.states else {}
    facts_of |= {"finals": [*tells.values()]} if tells else {}
    facts_of |= {"abis": {abi.abi: list(abi.sources) for abi in abis}} if abis else {}
    known = {weights.file: weights.sha256} if weights.file is not None else {}
    whole = sealed(result, program, device, name, inputs, outputs, {**facts_of, **facts}, known)
    return InPieces(whole, apart) if apart else whole


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


def renewed(program: Program) -> dict[str, str]:
    """The output that is the next value of every state, by the names that the model gives both."""
    names = {buffer: name for name, buffer, _ in (*program.inputs, *program.outputs)}
    return {names[old]: names[new] for new, old in program.states.items()}


@dataclass(frozen=True)
class Project:
    """The files of the artifact by relative path, and the program they run."""

    program: Program
    files: Mapping[str, bytes]

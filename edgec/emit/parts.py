"""The parts of a project beside its kernels, and the values that templates see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgec.device.device import Device
from edgec.emit.beside import FilesBeside
from edgec.emit.bounds import bounds_files
from edgec.emit.collectives import of_ranks, without_exchanges
from edgec.emit.device_session import device_session
from edgec.emit.finals import finals
from edgec.emit.identifiers import identifier
from edgec.emit.interface import described
from edgec.emit.language import Language
from edgec.emit.language_model import Session, session_of
from edgec.emit.levels import LevelFiles, level_files
from edgec.emit.opencl import host_values
from edgec.emit.source import Function, Sources, generate, grouped
from edgec.emit.training import TrainingFiles, training_files
from edgec.emit.weights import Weights
from edgec.emit.where import where_names
from edgec.errors import UsageError
from edgec.options.cores import cores_text
from edgec.schedule.program import Program
from edgec.schedule.thread_count import most_threads
from edgec.version import __version__


@dataclass(frozen=True)
class Parts:
    """A program for a device, and what its project has beside the kernels.

    ``name`` begins the names of its functions and files, ``cores`` are the processors that threads keep to, ``single``
    the kernels for one thread where others are for more, and ``levels`` those for other processors.
    """

    program: Program
    device: Device
    name: str
    language: Language
    weights: Weights
    cores: Sequence[int]
    sources: Sources
    single: Sources | None
    model: Session | None
    levels: Sequence[LevelFiles]
    training: TrainingFiles | None
    bounds: FilesBeside | None

    @property
    def beside(self) -> list[FilesBeside]:
        return [made for made in (self.training, self.bounds) if made is not None]

    @property
    def has_pool(self) -> bool:
        """Are there threads, or may a caller ask for some?"""
        return self.device.hosted or self.program.threads > 1

    @property
    def tables(self) -> list[Weights]:
        """The weights, and what is stored as they are."""
        more = {
            "tokens": self.model.tokens if self.model is not None else None,
            "initial": self.training.initial if self.training is not None else None,
        }
        linked = self.weights.linked
        return [self.weights, *(Weights(linked, self.name, (c,), kind) for kind, c in more.items() if c is not None)]

    @property
    def groups(self) -> list[list[Function]]:
        """The kernels of each of the `kernel_files`."""
        return [
            *(grouped(self.sources.functions) if not self.levels else ()),
            *(grouped(self.single.functions) if self.single is not None else ()),
        ]

    @property
    def kernel_files(self) -> list[str]:
        return [self.language.kernels[1].format(name=self.name, k=k) for k in range(len(self.groups))]

    @property
    def added_sources(self) -> list[str]:
        """Sources beside those of the language, the kernels and the tables."""
        return [
            *(self.model.sources(self.name) if self.model else ()),
            *(["ec_cores.c"] if self.cores else ()),
            *self.weights.runtime_sources,
            *([where_names(self.name)[0]] if self.device.hosted else ()),  # elsewhere it would take flash memory
            *(source for level in self.levels for source in level.sources),
            *(source for made in self.beside for source in made.sources),
        ]

    @property
    def compiled(self) -> list[str]:
        """Every source that a compiler is given."""
        return [
            *(s.format(name=self.name) for s in self.language.sources if self.has_pool or s != "ec_pool.c"),
            *(self.kernel_files if self.language.compiles_kernels else ()),
            *self.added_sources,
            *(table.source for table in self.tables),
            *([self.weights.image] if self.weights.image is not None else ()),
        ]

    @property
    def public_headers(self) -> list[str]:
        pages = self.model.pages if self.model else ()
        modules = [
            *(["ec_pool"] if self.has_pool else ()),
            *(["ec_cores"] if self.cores else ()),
            *(self.model.modules if self.model else ()),
        ]
        return [
            f"{self.name}.h",
            *(page.format(name=self.name) for page in pages if page.endswith(".h")),
            *(f"{module}.h" for module in modules),
            *(header for made in self.beside for header in made.headers),
        ]

    @property
    def runtime(self) -> list[str]:
        """Patterns of files below ``codegen_templates`` that come along as they are."""
        folders = {
            "cores": bool(self.cores),
            "ranks": self.program.ranks is not None,
            "wasm": self.has_pool and not self.device.hosted,
            "dispatch": bool(self.levels),
        }
        return [
            *(f"runtime/{pattern}" for pattern in self.language.runtime),
            *(f"runtime/weights/{file}" for file in self.weights.runtime),
            *(f"runtime/{folder}/*" for folder, comes_along in folders.items() if comes_along),
            *(f"language/{module}.[ch]" for module in (self.model.modules if self.model else ())),
            *(["board/ec_*"] if self.device.has_board else ()),
        ]

    @property
    def finals(self) -> Mapping[int, int]:
        return finals(self.program) if self.language.name == "c" else {}

    @property
    def described(self) -> dict[str, Any]:
        """Entries of the lock."""
        ranks = self.program.ranks
        optional = {
            "language_model": self.model.described if self.model else None,
            "levels": [made.described(level) for made, level in zip(self.levels, self.program.levels)],
            "training": self.training.described if self.training is not None else None,
            "bounds": self.bounds.described if self.bounds is not None else None,
            "renewed": _renewed(self.program),
            "finals": [*self.finals.values()],
            "gpus": {"count": 1 + len(ranks.others), "slices": sorted(ranks.slices)} if ranks is not None else None,
        }
        return {
            "language": self.language.name,
            "sources": self.compiled,
            "weights_bytes": self.weights.size,
            "weights": {"place": self.weights.place, "file": self.weights.file, **self.weights.interface},
            **{key: entry for key, entry in optional.items() if entry},
        }


def parts_of(
    program: Program,
    device: Device,
    name: str,
    templates: Sequence[Path],
    language: Language,
    weights: Weights,
    cores: Sequence[int],
) -> tuple[Parts, dict[str, Any]]:
    """The parts of a project, and the values that its templates see.

    Raises UsageError and DeviceError for what does not go together.
    """
    ranks = program.ranks
    program, exchanges = without_exchanges(program)
    values = described(program, name, templates, language)
    if ranks is not None:
        values |= of_ranks(ranks, exchanges, values, name, templates)
    model = _session(program, device, values)
    if model is not None and cores:
        hint = "leave out --cores"
        raise UsageError("sessions of a language model stay where the system puts them", hint=hint, where="--cores")
    if model is not None and weights.place == "file":
        weights = weights.with_fingerprint  # the code is then that of other weights too
    single = generate(program.single, f"{name}_one", templates, language) if program.single is not None else None
    values |= {
        "version": __version__, "device": device, "single": single, "alignment": language.alignment,
        "vector_lanes": device.vector_lanes, "shares_weights": False,
        "has_board": device.has_board, "has_pool": device.hosted or program.threads > 1,
        "most_threads": program.threads if program.training is None else most_threads(program, program.training),
        "device_flags": "".join(f" {flag}" for flag in device.toolchain.cflags), "cross": cross_options(device),
        "weights_bytes": weights.size, "weights": weights, "cores": cores_text(cores) if cores else "",
        "decoder": device_session(program, model) if model is not None and device.is_gpu else None,
    }  # fmt: skip
    levels = level_files(program, name, templates, language, values)
    sources: Sources = values["sources"]
    values |= {"levels": levels, "most_kernels": max((v.kernels for v in levels), default=len(sources.calls))}
    if levels:
        values |= {"device_flags": "", "uses_tiles": any(level.uses_tiles for level in levels)}
    training = training_files(program, device, name, templates, values) if program.training is not None else None
    bounds = bounds_files(program, device, name, templates, values) if program.bounds is not None else None
    parts = Parts(program, device, name, language, weights, cores, sources, single, model, levels, training, bounds)
    held = weights.blob if weights.fingerprint_at is None else b""
    values |= {
        "bounds": bounds, "model": model, "on_gpu": device.is_gpu, "tells": parts.finals,
        "added_sources": parts.added_sources, "tables": parts.tables, "public_headers": parts.public_headers,
        "model_hash": model.digest(held, device.precision) if model else b"", "kernel_files": parts.kernel_files,
    }  # fmt: skip
    if language.name == "opencl":
        values |= host_values(program, sources, parts.groups, device)
    return parts, values


def _session(program: Program, device: Device, values: Mapping[str, Any]) -> Session | None:
    ports = zip((*values["inputs"], *values["outputs"]), (*program.inputs, *program.outputs))
    types = {buffer: port.ctype for port, (_, buffer, _) in ports}
    names = {d.name: identifier(d.name, set(), "size") for d in values["dimensions"]}
    return session_of(program, names, types, device.is_gpu)


def cross_options(device: Device) -> str:
    """CMake's options for cross compilation; empty where the compiler is not known."""
    system = "Linux" if device.hosted else "Generic"
    known = device.toolchain.gcc_target and (not device.hosted or "linux" in device.toolchain.gcc_target)
    return f"-DCMAKE_SYSTEM_NAME={system} -DCMAKE_C_COMPILER={device.toolchain.gcc_target}-gcc" if known else ""


def _renewed(program: Program) -> dict[str, str]:
    """The output that is the next value of every state, by the names that the model gives both."""
    names = {buffer: name for name, buffer, _ in (*program.inputs, *program.outputs)}
    return {names[old]: names[new] for new, old in program.states.items()}

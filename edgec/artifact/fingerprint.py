"""The fingerprint of a build: a hash of everything that its folder is made of, and nothing else."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields, is_dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from edgec.resources import data_folder
from edgec.tune.database import default_path
from edgec.version import __version__

if TYPE_CHECKING:
    from edgec.device.cuda import CudaCompiler
    from edgec.device.toolchain import Compiler
    from edgec.options import Options

#: Variables that compilers read.
_VARIABLES = (
    "C_INCLUDE_PATH", "CCC_OVERRIDE_OPTIONS", "COMPILER_PATH", "CPATH", "GCC_EXEC_PREFIX", "LIBRARY_PATH",
    "NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS",
)  # fmt: skip


def fingerprint(
    options: Options, beside: Iterable[Path], facts: Mapping[str, Any], compiler: Compiler | CudaCompiler
) -> str:
    """The name of a build: of edgec itself, the model's files, all options, measured times and the compiler.

    ``facts`` are those of the lock, ``beside`` the files that the model is read from in addition to its own.
    """
    known = {
        "facts": facts,
        "options": {f.name: getattr(options, f.name) for f in fields(options) if f.name != "device"},
        "model": [stamp(path) for path in beside],
        "around": surroundings(compiler, options.profiles),
    }
    return sha256(json.dumps(known, sort_keys=True, default=plain).encode()).hexdigest()


def surroundings(compiler: Compiler | CudaCompiler, profiles: bool) -> dict[str, Any]:
    """Everything that a build depends on beside its model and options: edgec, measured times and the compiler."""
    program = Path(os.path.realpath(compiler.command[0])).stat()
    return {
        "edgec": [__version__, _own_sources()],
        "times": _times() if profiles else None,
        "compiler": [compiler.command, str(compiler), program.st_size, program.st_mtime_ns],
        "variables": {name: os.environ[name] for name in _VARIABLES if name in os.environ},
    }


def plain(value: Any) -> Any:
    """Data for JSON of what options hold. Raises TypeError for anything else: such a build is not remembered."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, (frozenset, set)):
        return sorted(value)
    if isinstance(value, Path):
        return stamp(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        array = np.ascontiguousarray(value)
        return [str(array.dtype), list(array.shape), sha256(array.tobytes()).hexdigest()]
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no fingerprint")


def stamp(path: Path) -> list[Any]:
    """A file or folder by its place, size and time of change; the facts of the lock have its content."""
    if not path.exists():  # one that the build writes
        return [os.path.realpath(path)]
    found = path.stat()
    return [os.path.realpath(path), found.st_size, found.st_mtime_ns]


def _times() -> list[Any]:
    """The state of the profile database."""
    path = default_path()
    return [stamp(p) for p in (path, path.with_name(f"{path.name}-wal")) if p.is_file()]


@cache
def _own_sources() -> str:
    """A hash of the code, rules, templates and device files of this edgec."""
    package = Path(__file__).resolve().parents[1]
    digest = sha256()
    for folder in (package, *(data_folder(name) for name in ("codegen_templates", "devices", "rewrite_rules"))):
        for path in sorted(p for p in folder.rglob("*") if p.is_file() and p.suffix != ".pyc"):
            digest.update(f"{path.relative_to(folder).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()

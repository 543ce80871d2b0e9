"""The fingerprint of a build: a hash of everything that its folder is made of, and nothing else."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from edgec.frontend.source import Parsed, files_beside
from edgec.options import Options
from edgec.resources import data_folder
from edgec.tune.database import Profiles
from edgec.version import __version__

#: Variables that compilers read.
_VARIABLES = (
    "C_INCLUDE_PATH", "CCC_OVERRIDE_OPTIONS", "COMPILER_PATH", "CPATH", "GCC_EXEC_PREFIX", "LIBRARY_PATH",
    "NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS",
)  # fmt: skip


def fingerprint(options: Options, parsed: Parsed, facts: Mapping[str, Any], command: tuple[str, ...], kind: str) -> str:
    """The name of a build: of edgec itself, the model's files, all options, measured times and the compiler.

    ``facts`` are those of the lock, ``command`` and ``kind`` the compiler's.
    """
    program = Path(os.path.realpath(command[0])).stat()
    known = {
        "edgec": [__version__, _own_sources()],
        "facts": facts,
        "options": {f.name: getattr(options, f.name) for f in fields(options) if f.name != "device"},
        "model": [_told(path) for path in files_beside(parsed)],
        "times": _times() if options.profiles else None,
        "compiler": [command, kind, program.st_size, program.st_mtime_ns],
        "variables": {name: os.environ[name] for name in _VARIABLES if name in os.environ},
    }
    return sha256(json.dumps(known, sort_keys=True, default=_plain).encode()).hexdigest()


def _plain(value: Any) -> Any:
    """Data for JSON of what options hold. Raises TypeError for anything else: such a build is not remembered."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, (frozenset, set)):
        return sorted(value)
    if isinstance(value, Path):
        return _told(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        array = np.ascontiguousarray(value)
        return [str(array.dtype), list(array.shape), sha256(array.tobytes()).hexdigest()]
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no fingerprint")


def _told(path: Path) -> list[Any]:
    """A file or folder by its place, size and time of change; the facts of the lock have its content."""
    if not path.exists():  # one that the build writes
        return [os.path.realpath(path)]
    found = path.stat()
    return [os.path.realpath(path), found.st_size, found.st_mtime_ns]


def _times() -> list[Any]:
    """The state of the profile database."""
    path = Profiles().path
    return [_told(p) for p in (path, path.with_name(f"{path.name}-wal")) if p.is_file()]


@cache
def _own_sources() -> str:
    """A hash of the code, rules, templates and device files of this edgec."""
    package = Path(__file__).resolve().parents[1]
    digest = sha256()
    for folder in (package, *(data_folder(name) for name in ("codegen_templates", "devices", "rewrite_rules"))):
        for path in sorted(p for p in folder.rglob("*") if p.is_file() and p.suffix != ".pyc"):
            digest.update(f"{path.relative_to(folder).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()

"""The profile database: how long blocks take on devices, measured once and shared by all networks.

One sqlite file in the user's cache (``EDGEC_PROFILES`` names another). A time is kept under the fingerprint of its
block (`edgec.fuse.choice`) and that of its target: the facts of the device, the compiler, the version of edgec and the
templates kernels are made from. Another compiler, or another template, is another target.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from edgec.device.device import Device
from edgec.errors import UsageError
from edgec.files import user_folder
from edgec.resources import data_folder
from edgec.version import __version__

#: Version of the file, and of what is exported.
SCHEMA = 1
_TABLES = """
CREATE TABLE IF NOT EXISTS targets (target TEXT PRIMARY KEY, device TEXT NOT NULL, compiler TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS times (
  block TEXT NOT NULL, target TEXT NOT NULL REFERENCES targets, seconds REAL NOT NULL, what TEXT NOT NULL,
  PRIMARY KEY (block, target)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS features (
  block TEXT NOT NULL, target TEXT NOT NULL, features TEXT NOT NULL, PRIMARY KEY (block, target)) WITHOUT ROWID;
"""


@dataclass(frozen=True)
class Target:
    """The target of measured times."""

    fingerprint: str
    device: str
    compiler: str


#: Suffixes of what kernels are made of: templates, what they include, and micro-kernels.
SOURCES = (".jinja", ".h", ".cu", ".cl", ".py")


def target_of(device: Device, compiler: str, folders: Sequence[Path] = ()) -> Target:
    """The target of a device and a compiler, with folders of the user's own templates and micro-kernels."""
    facts = {key: value for key, value in asdict(device).items() if key != "costs"}  # models; times are measured
    digest = sha256(json.dumps([__version__, facts, compiler], sort_keys=True, default=str).encode())
    for folder in (data_folder("codegen_templates"), *folders):
        for path in sorted(p for p in folder.rglob("*") if p.is_file() and p.suffix in SOURCES):
            digest.update(path.read_bytes())
    return Target(digest.hexdigest(), device.name, compiler)


@dataclass(frozen=True)
class Measured:
    """One entry: seconds of a block on a target, and in words what the block is.

    A variant of a product has the ``features`` that rankings learn from (`edgec.tune.features`).
    """

    block: str
    target: Target
    seconds: float
    what: str
    features: Mapping[str, float] | None = None


def default_path() -> Path:
    """Path of this user's database."""
    if named := os.environ.get("EDGEC_PROFILES"):
        return Path(named)
    return user_folder("XDG_CACHE_HOME", ".cache") / "profiles.sqlite"


class Profiles:
    """The database in one file, made when a time is first written. Raises UsageError for a file of another kind."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path if path is not None else default_path()

    def known(self, target: Target) -> dict[str, float]:
        """Seconds of every block that was measured on a target."""
        rows = self._rows("SELECT block, seconds FROM times WHERE target = ?", target.fingerprint)
        return {block: seconds for block, seconds in rows if _is_time(seconds)}

    def features(self, target: Target) -> dict[str, dict[str, float]]:
        """Features of the variants that were measured on a target, where they are known."""
        rows = self._rows("SELECT block, features FROM features WHERE target = ?", target.fingerprint)
        read = {block: _features(text) for block, text in rows}
        return {block: found for block, found in read.items() if found is not None}

    def put(self, entries: Iterable[Measured]) -> None:
        """Keep times; what was known of the same blocks on the same targets is replaced."""
        found = list(entries)
        targets = {m.target for m in found}
        with self._open() as database:
            database.executemany(
                "INSERT OR REPLACE INTO targets VALUES (?, ?, ?)",
                [(t.fingerprint, t.device, t.compiler) for t in targets],
            )
            rows = [(m.block, m.target.fingerprint, m.seconds, m.what) for m in found]
            database.executemany("INSERT OR REPLACE INTO times VALUES (?, ?, ?, ?)", rows)
            learned = [(m.block, m.target.fingerprint, json.dumps(m.features)) for m in found if m.features is not None]
            database.executemany("INSERT OR REPLACE INTO features VALUES (?, ?, ?)", learned)

    def forget(self, blocks: Iterable[str], target: Target) -> None:
        """Take out times of a target."""
        with self._open() as database:
            rows = [(block, target.fingerprint) for block in blocks]
            database.executemany("DELETE FROM times WHERE block = ? AND target = ?", rows)

    def entries(self) -> list[Measured]:
        """Everything there is, in a fixed order."""
        rows = self._rows(
            "SELECT times.block, times.target, device, compiler, seconds, what, features FROM times "
            "JOIN targets ON targets.target = times.target "
            "LEFT JOIN features ON features.block = times.block AND features.target = times.target "
            "ORDER BY device, compiler, what, times.block"
        )
        return [
            Measured(block, Target(t, device, compiler), s, what, _features(found))
            for block, t, device, compiler, s, what, found in rows
        ]

    def clear(self) -> int:
        """Forget everything; tells how many times that were."""
        count = len(self.entries())
        if self.path.is_file():
            with self._open() as database:
                database.execute("DELETE FROM times")
                database.execute("DELETE FROM features")
                database.execute("DELETE FROM targets")
        return count

    def exported(self) -> dict[str, Any]:
        """Everything as plain data, to be imported elsewhere."""
        return {"edgec_profiles": SCHEMA, "times": [asdict(m) for m in self.entries()]}

    def import_(self, data: Any, where: str) -> int:
        """Take in what was exported and tell how many times that were. Raises UsageError for anything else."""
        try:
            if data["edgec_profiles"] != SCHEMA:
                raise ValueError
            found = [_entry(m) for m in data["times"]]
        except (KeyError, TypeError, ValueError):
            hint = "files are written by edgec profiles export"
            raise UsageError("this is no export of profiles", hint=hint, where=where) from None
        self.put(found)
        return len(found)

    def _rows(self, query: str, *values: str) -> list[Any]:
        if not self.path.is_file():
            return []
        with self._open() as database:
            return list(database.execute(query, values))

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """The open database; what was done is kept when the block ends well."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=30)) as database:
                database.executescript(_TABLES)
                yield database
                database.commit()
        except (OSError, sqlite3.Error) as error:
            hint = "remove it, or name another with EDGEC_PROFILES"
            raise UsageError(f"no profile database: {error}", hint=hint, where=str(self.path)) from None


def _is_time(seconds: object) -> bool:
    """Could it have been measured? A database may hold anything in the place of a number."""
    return isinstance(seconds, float) and 0 < seconds < 1e6


def _features(text: object) -> dict[str, float] | None:
    """Features as they are kept; None where there are none, or anything else is in their place."""
    try:
        found = json.loads(text) if isinstance(text, str) else text
        return _checked(found) if found is not None else None
    except (ValueError, RecursionError):
        return None


def _checked(found: Any) -> dict[str, float]:
    """Names with finite numbers. Raises ValueError for anything else."""
    if not isinstance(found, dict):
        raise ValueError
    for name, value in found.items():
        if not isinstance(name, str) or type(value) not in (int, float) or not abs(value) < 1e9:
            raise ValueError
    return {name: float(value) for name, value in found.items()}


def _entry(m: Mapping[str, Any]) -> Measured:
    target = Target(**{key: str(m["target"][key]) for key in ("fingerprint", "device", "compiler")})
    seconds = float(m["seconds"])
    if not _is_time(seconds):
        raise ValueError
    features = m.get("features")
    return Measured(str(m["block"]), target, seconds, str(m["what"]), None if features is None else _checked(features))

"""The compile cache: built folders, by the hash of everything that they were made of.

A folder of the user's (``EDGEC_COMPILE_CACHE`` names another; ``off`` does without one) holds a folder for each build.
Entries are made beside their place and renamed, so that one is whole or not there; what is taken out is copied and
compared with the hashes that were noted, so that a damaged entry, or one that another process removes meanwhile, is
only a miss. Beyond a bound (``EDGEC_COMPILE_CACHE_BYTES``), the entries that were not used for the longest time go.
"""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from edgec.artifact.publish import hidden
from edgec.errors import EdgecError, UsageError
from edgec.files import is_own, user_folder
from edgec.untrusted import read_json

#: Bytes of all entries together.
LIMIT = 2 << 30
#: What an entry says of its files; its time of change is that of the last use.
NOTES = "cache.json"
#: Value of the variable that turns it off.
OFF = "off"


class CompileCache:
    """Built folders in ``root``, at most ``limit`` bytes of them."""

    def __init__(self, root: Path, limit: int = LIMIT) -> None:
        self.root, self.limit = root, limit

    def take(self, key: str, folder: Path) -> bool:
        """Copy the entry of ``key`` into an empty folder; False where there is none, or where it is damaged."""
        entry = self.root / key
        try:
            hashes = _hashes(entry)
            for path, digest in hashes.items():
                target = folder / path
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(entry / path, target)
                if digest_of(target) != digest:
                    raise ValueError(path)
            os.utime(entry / NOTES)
        except (OSError, ValueError, EdgecError):
            for half in folder.iterdir():
                shutil.rmtree(half) if half.is_dir() else half.unlink()
            self.drop(key)
            return False
        return True

    def keep(self, key: str, folder: Path) -> None:
        """Add a folder, and remove what is beyond the bound; a disk that refuses is no error, the build is done."""
        files = [p for p in sorted(folder.rglob("*")) if p.is_file() and not p.is_symlink()]
        if sum(p.stat().st_size for p in files) > self.limit:
            return
        with suppress(OSError):
            self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not is_own(self.root):
                return
            with hidden(self.root) as fresh:
                hashes = {}
                for path in files:
                    name = path.relative_to(folder).as_posix()
                    target = fresh / name
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(path, target)
                    hashes[name] = digest_of(target)
                (fresh / NOTES).write_text(json.dumps({"files": hashes}), "utf-8")
                with suppress(OSError):  # another process was first
                    os.rename(fresh, self.root / key)
            self._trim()

    def _trim(self) -> None:
        sizes, used = {}, {}
        for entry in self.root.iterdir():
            with suppress(OSError):
                used[entry] = (entry / NOTES).stat().st_mtime
                sizes[entry] = sum(p.stat().st_size for p in entry.rglob("*"))
        for entry in sorted(sizes, key=lambda e: used[e]):
            if sum(sizes.values()) <= self.limit:
                return
            del sizes[entry]
            self.drop(entry.name)

    def drop(self, key: str) -> None:
        """Remove an entry, if there is one: it is renamed, so that nobody finds half of it, and deleted."""
        if (self.root / key).is_dir():
            with suppress(OSError), hidden(self.root) as away:
                os.rename(self.root / key, away / "gone")


def compile_cache() -> CompileCache | None:
    """The user's cache; None where it is turned off, or where its folder belongs to somebody else.

    Raises UsageError for a bound that is no number.
    """
    named = os.environ.get("EDGEC_COMPILE_CACHE", "")
    if named == OFF:
        return None
    root = Path(named) if named else user_folder("XDG_CACHE_HOME", ".cache") / "builds"
    bound = os.environ.get("EDGEC_COMPILE_CACHE_BYTES", str(LIMIT))
    if not bound.isdecimal():
        raise UsageError(f"'{bound}' is no number of bytes", where="EDGEC_COMPILE_CACHE_BYTES")
    return CompileCache(root, int(bound)) if not root.exists() or is_own(root) else None


def _hashes(entry: Path) -> dict[str, str]:
    """The files of an entry by their paths below it. Raises ValueError for notes that are none of ours."""
    notes = read_json(entry / NOTES)
    found = notes.get("files") if isinstance(notes, dict) else None
    if not isinstance(found, dict) or not found:
        raise ValueError(NOTES)
    for path, digest in found.items():
        if not isinstance(digest, str) or Path(path).is_absolute() or ".." in Path(path).parts:
            raise ValueError(path)
    return found


def digest_of(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        digest = sha256()
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()

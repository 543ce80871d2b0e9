"""Precompiled headers: the vectors' headers are most of the C compiler's time for a small file of kernels.

gcc and clang read a header that they have seen with the same options in a tenth of the time. The objects are the same,
byte for byte. A folder of the user's (``EDGEC_HEADER_CACHE`` names another; ``off`` does without) holds an entry for
each compiler, its options and the text of the headers. An entry is made when it is asked for a second time, or at once
where several files are compiled. Beyond a bound, entries that were not used for the longest time go.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from edgec.files import is_own, user_folder

HEADER = "ec_simd.h"
#: Values of the variables that turn caches off: headers are kept where builds are, unless told otherwise.
OFF = "off"
#: Files of one build from which on it pays to precompile at once.
MANY = 4
#: Entries; with gcc each takes about 26 MB.
ENTRIES = 32
_INCLUDE = re.compile(r'^#include "([\w.]+)"', re.MULTILINE)
_KERNELS = re.compile(rf'^#include "({re.escape(HEADER)}|\w+_kernels_\d+\.c)"', re.MULTILINE)
_DEFINES = re.compile(r"^[ \t]*#[ \t]*(?!include\b)\w", re.MULTILINE)
_SUFFIX = {"gcc": ".gch", "clang": ".pch"}


class Headers:
    """The precompiled headers of one build: arguments for each of its files.

    ``kind`` and ``version`` are those of the compiler that ``command`` calls. Files of kernels gain from it: they
    include ``ec_simd.h``, which lies beside them, and define nothing before that.
    """

    def __init__(self, kind: str, command: Sequence[str], version: str) -> None:
        self.kind, self.command, self.version = kind, tuple(command), version
        self._entries: dict[str, Path | None] = {}

    def arguments(self, flags: Sequence[str], source: Path, files: int) -> list[str]:
        """Options that read the precompiled header before ``source``, one of ``files``; empty where there is none."""
        if self.kind not in _SUFFIX or source.suffix != ".c" or not _gains(source):
            return []
        options = [flag for flag in flags if not flag.startswith("-I")]
        key = _key([self.kind, *self.command, self.version, *options], source.parent)
        if key not in self._entries:
            self._entries[key] = self._entry(key, options, source.parent, files)
        entry = self._entries[key]
        if entry is None:
            return []
        return ["-include", str(entry)] if self.kind == "gcc" else ["-include-pch", f"{entry}{_SUFFIX[self.kind]}"]

    def _entry(self, key: str, options: Sequence[str], folder: Path, files: int) -> Path | None:
        """The header of an entry, beside which the compiler finds the precompiled one; None where there is none yet."""
        root = _root()
        if root is None:
            return None
        header = root / key / HEADER
        compiled = Path(f"{header}{_SUFFIX[self.kind]}")
        with suppress(OSError):
            if compiled.is_file():
                os.utime(compiled)
                return header
            asked = header.is_file()
            root.mkdir(parents=True, exist_ok=True, mode=0o700)
            header.parent.mkdir(exist_ok=True, mode=0o700)
            if not is_own(root) or not is_own(header.parent):
                return None
            for name in _closure(folder):
                fresh = header.parent / f".{os.getpid()}.{name}"
                shutil.copyfile(folder / name, fresh)
                os.replace(fresh, header.parent / name)
            if asked or files >= MANY:
                return self._made(options, header, compiled)
        return None

    def _made(self, options: Sequence[str], header: Path, compiled: Path) -> Path | None:
        fresh = compiled.with_name(f".{os.getpid()}{compiled.suffix}")
        command = [*self.command, *options, "-x", "c-header", str(header), "-o", str(fresh)]
        done = subprocess.run(command, capture_output=True, check=False)
        if done.returncode or not fresh.is_file():
            fresh.unlink(missing_ok=True)
            return None
        os.replace(fresh, compiled)
        _trim(header.parent.parent)
        return header

    def drop(self) -> None:
        """Remove the entries that were used: a compiler did not take one."""
        for key, entry in self._entries.items():
            if entry is not None:
                shutil.rmtree(entry.parent, ignore_errors=True)
            self._entries[key] = None


def _root() -> Path | None:
    named = os.environ.get("EDGEC_HEADER_CACHE", OFF if os.environ.get("EDGEC_COMPILE_CACHE") == OFF else "")
    if named == OFF:
        return None
    return Path(named).absolute() if named else user_folder("XDG_CACHE_HOME", ".cache") / "headers"


def _gains(source: Path) -> bool:
    """Is it a file of kernels, or one that includes such files, to which the header means the same at the beginning?"""
    text = source.read_text("utf-8", "replace")
    found = _KERNELS.search(text)
    return found is not None and not _DEFINES.search(text, 0, found.start()) and (source.parent / HEADER).is_file()


def _closure(folder: Path) -> list[str]:
    """The header and those of the folder that it includes, and so on."""
    found = [HEADER]
    for name in found:
        text = (folder / name).read_text("utf-8")
        found += [n for n in dict.fromkeys(_INCLUDE.findall(text)) if n not in found and (folder / n).is_file()]
    return found


def _key(words: Sequence[str], folder: Path) -> str:
    digest = sha256("\0".join(words).encode())
    for name in _closure(folder):
        digest.update(f"\0{name}\0".encode() + (folder / name).read_bytes())
    return digest.hexdigest()[:32]


def _trim(root: Path) -> None:
    """Remove what is beyond the bound, that of the oldest use first."""
    used = {}
    for entry in root.iterdir():
        for compiled in (p for s in _SUFFIX.values() for p in entry.glob(f"{HEADER}{s}")):
            with suppress(OSError):
                used[entry] = compiled.stat().st_mtime
    for entry in sorted(used, key=lambda e: used[e])[: max(0, len(used) - ENTRIES)]:
        shutil.rmtree(entry, ignore_errors=True)

"""Shared libraries as they are loaded: whole files, since one that is cut off would end the process, and new ones."""

from __future__ import annotations

import shutil
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from edgec.errors import UsageError
from edgec.untrusted import reason, regular

#: By ELF's class (32 or 64 bits): the format of the head behind its identity; of a segment's entry, its format and
#: which fields are the place and the bytes in the file.
_CLASSES = {1: ("HHIIIIIHHH", "8I", 1, 4), 2: ("HHIQQQIHHH", "2I6Q", 2, 5)}
_IDENTITY = 16
_LOADED = 1  # the kind of segment that is mapped


def require_whole(path: Path) -> None:
    """Raises UsageError for an ELF file that is shorter than its segments, or that cannot be read.

    The loader maps segments whatever the length of the file, and the first touch of what is missing ends the process
    (SIGBUS). Files of other formats are left to the loader.
    """
    try:
        with regular(path).open("rb") as file:
            is_whole = all(end <= path.stat().st_size for end in _ends(file))
    except OSError as error:
        raise UsageError(f"cannot load the library: {reason(error)}", where=str(path)) from None
    except (struct.error, LookupError):  # not even its head is there
        is_whole = False
    if not is_whole:
        raise UsageError("cannot load the library: the file is cut off", hint="build it again", where=str(path))


def _ends(file: BinaryIO) -> Iterator[int]:
    """The byte behind the table of segments, then behind each that is mapped; none for a file that is no ELF file."""
    identity = file.read(_IDENTITY)
    if not identity.startswith(b"\x7fELF"):
        return
    head, entry, place, count = _CLASSES[identity[4]]
    order = "<" if identity[5] == 1 else ">"
    fields = struct.unpack(order + head, file.read(struct.calcsize(order + head)))
    table, size, entries = fields[4], fields[8], fields[9]
    yield table + size * entries
    for k in range(entries):
        file.seek(table + k * size)
        segment = struct.unpack(order + entry, file.read(struct.calcsize(order + entry)))
        if segment[0] == _LOADED:
            yield segment[place] + segment[count]


#: Which file was loaded under a name in this process.
_loaded: dict[Path, tuple[int, int]] = {}


@contextmanager
def as_new(library: Path) -> Iterator[Path]:
    """A path to load a library by: another one where an earlier build was loaded by this one.

    The system's loader goes by names, and would hand out the earlier library.
    """
    found = library.stat()
    mine = (found.st_ino, found.st_mtime_ns)
    if _loaded.setdefault(library, mine) == mine:
        yield library
        return
    with tempfile.TemporaryDirectory(prefix="edgec-") as folder:
        yield Path(shutil.copy(library, folder))

"""Shared libraries whose files are cut off, which would end the process that loads them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
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

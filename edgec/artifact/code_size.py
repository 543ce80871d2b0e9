"""The size of the machine code in a compiled library, without its constants."""

from __future__ import annotations

import struct
from pathlib import Path

#: Flag of a section that holds instructions.
_INSTRUCTIONS = 4


def code_bytes(library: Path) -> int | None:
    """Bytes of the sections of an ELF file that hold instructions; None where it is no such file."""
    try:
        data = library.read_bytes()
    except OSError:
        return None
    if data[:4] != b"\x7fELF" or data[5:6] != b"\x01":
        return None
    is_64 = data[4] == 2
    try:
        start = struct.unpack_from("<Q" if is_64 else "<I", data, 40 if is_64 else 32)[0]
        size, count = struct.unpack_from("<HH", data, 58 if is_64 else 46)
        found = 0
        for k in range(count):
            at = start + k * size
            flags = struct.unpack_from("<Q" if is_64 else "<I", data, at + 8)[0]
            length = struct.unpack_from("<Q" if is_64 else "<I", data, at + (32 if is_64 else 20))[0]
            found += length if flags & _INSTRUCTIONS else 0
    except struct.error:
        return None
    return found

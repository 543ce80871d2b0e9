"""The size of machine code, on files of two sections, for both classes of ELF."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from edgec.artifact.code_size import code_bytes

INSTRUCTIONS, DATA = 4 | 2, 2 | 1


def elf(bits: int, order: int = 1) -> bytes:
    """A head and three sections: code of 100 bytes, data of 50, code of 7."""
    wide = bits == 64
    head = bytearray(64 if wide else 52)
    head[:6] = b"\x7fELF" + bytes([2 if wide else 1, order])
    struct.pack_into("<Q" if wide else "<I", head, 40 if wide else 32, len(head))
    size = 64 if wide else 40
    struct.pack_into("<HH", head, 58 if wide else 46, size, 3)
    for flags, length in ((INSTRUCTIONS, 100), (DATA, 50), (INSTRUCTIONS, 7)):
        section = bytearray(size)
        struct.pack_into("<Q" if wide else "<I", section, 8, flags)
        struct.pack_into("<Q" if wide else "<I", section, 32 if wide else 20, length)
        head += section
    return bytes(head)


@pytest.mark.parametrize("bits", [32, 64])
def test_sections_of_instructions_count(bits: int, tmp_path: Path) -> None:
    path = tmp_path / "net.so"
    path.write_bytes(elf(bits))
    assert code_bytes(path) == 107
    for other in (elf(bits)[: -(64 if bits == 64 else 40)], elf(bits, 2), b"MZ"):
        path.write_bytes(other)
        assert code_bytes(path) is None
    assert code_bytes(tmp_path / "none") is None

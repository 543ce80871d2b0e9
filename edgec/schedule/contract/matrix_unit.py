"""Contractions of many rows by weights of few bits on the matrix unit of x86 CPUs (AMX), in bf16.

S becomes bf16 once for all panels of a task, a panel of weights once for all rows of a task. Where results are to be
as near as fp32's, both become three bf16 each (``parts``) and every product six; what is left out is about 2^-25 of a
product. A few rows, such as one token, are multiplied as `few_bits` does.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from edgec.device.device import Device
from edgec.rewrite.rule import Numeric

#: Instruction sets that it takes.
NEEDED = ("amx-tile", "amx-bf16", "avx512bf16")
#: Rows and columns of the block of sums that lies in tiles, steps of the sum in a tile, and bytes of one.
BLOCK, STEP, TILE_BYTES = 32, 32, 1024
#: Bf16 numbers that stand for one of S or of the weights.
PARTS: dict[Numeric, int] = {"reassociates": 3, "approximates": 1}
#: Rows from which on the tiles pay, although those that are not there are multiplied too.
LEAST_ROWS = 8
#: Most rows of a task, most bytes that they take in tiles, and most that a part of a panel takes.
MOST_ROWS, LEFT_BYTES, RIGHT_BYTES = 128, 1 << 20, 1 << 15


@dataclass(frozen=True)
class MatrixUnit:
    """``rows`` of a task, in blocks, and the ``slab``: elements of the sum of a panel that are in bf16 at a time."""

    parts: int
    rows: int
    slab: int
    length: int  # elements of the sum

    @property
    def left_bytes(self) -> int:
        """Bytes of the rows of a task."""
        return self.rows * self.length * 2 * self.parts

    @property
    def right_bytes(self) -> int:
        """Bytes of a slab of a panel."""
        return self.slab // STEP * 2 * self.parts * TILE_BYTES

    @property
    def scratch_bytes(self) -> int:
        """Rows, slab, and sums of a task."""
        return self.left_bytes + self.right_bytes + self.rows * BLOCK * 4


def matrix_unit(device: Device, numeric: Numeric, rows: int, length: int, whole: int) -> MatrixUnit | None:
    """The use of the matrix unit for sums of ``length``; None where there is none, or no gain.

    ``whole`` elements are decoded together: a group, or several with a factor in common.
    """
    parts = PARTS.get(numeric)
    if parts is None or rows < LEAST_ROWS or length % STEP or device.vector_lanes != 16 or device.precision != "fp32":
        return None
    if not all(map(device.has, NEEDED)):
        return None
    most = max(BLOCK, min(MOST_ROWS, LEFT_BYTES // (length * 2 * parts)) // BLOCK * BLOCK)
    chunks = ceil(rows / most)
    blocks = ceil(ceil(rows / chunks) / BLOCK)
    whole = max(STEP, whole)
    slab = max(whole, RIGHT_BYTES // (2 * parts * TILE_BYTES) * STEP // whole * whole)
    return MatrixUnit(parts, blocks * BLOCK, min(slab, length), length)

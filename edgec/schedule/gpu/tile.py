"""The tile of a matrix product that a thread block takes, and the shared memory that it needs."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Union

#: How much more memory weights may take where they lie tile by tile.
ROOM = 1.125
#: Elements between the rows of what is turned: lanes read four rows of eight floats, or eight of eight halves.
TURNED_ROOM = 8
#: Bytes of the gate of a stage.
GATE = 8
#: What groups of warps read begins at multiples of so many bytes.
SWIZZLED = 1024


def _parts(split: int) -> str:
    return f" in {split}" * (split > 1)


@dataclass(frozen=True)
class Tile:
    """A thread block computes ``m`` x ``n`` results, each thread ``thread_m`` x ``thread_n``.

    A round has ``k`` steps of the sum. ``split`` blocks share one tile, each with its part of the sum. ``element`` is
    the type of the factors: f32, or s8 for int8 and uint8, with four products an instruction.
    """

    m: int
    n: int
    k: int
    thread_m: int
    thread_n: int
    split: int
    element: str = "f32"

    @property
    def name(self) -> str:
        """The name of the tile, unique among those on offer for a product."""
        return f"{self.m}x{self.n} {self.thread_m}x{self.thread_n}{_parts(self.split)}"

    @property
    def bytes(self) -> int:
        """The size of an element."""
        return 1 if self.element == "s8" else 4

    @property
    def chunk(self) -> int:
        """Elements along k of a word in shared memory: four of int8, or one float."""
        return 4 // self.bytes

    @property
    def threads(self) -> int:
        return (self.m // self.thread_m) * (self.n // self.thread_n)

    @property
    def shared_bytes(self) -> int:
        return 2 * self.k * (self.m + self.n + 8) * self.bytes


@dataclass(frozen=True)
class TensorTile:
    """A thread block computes ``m`` x ``n`` results on tensor cores, divided among ``warps_m`` x ``warps_n`` warps.

    ``slices`` sets of warps each take their steps of k; shared memory holds operands of ``stages`` rounds, or receives
    them. ``element`` is the type of the factors: f16, bf16, tf32, f32 (each product as three of TF32), or s8 for int8
    and uint8. Where a tile of L is copied as a ``whole``, L is stored tile by tile. Shared memory has k innermost, or
    the rows or columns of a factor that is ``turned``, since they are so in memory. With ``by_group`` four warps
    multiply 64 rows by all columns at once, from shared memory. With ``two_of_four`` L is stored tile by tile, two of
    each four of its elements along k and their positions.
    """

    m: int
    n: int
    k: int
    warps_m: int
    warps_n: int
    slices: int
    stages: int
    split: int
    element: str
    whole: bool = False
    s_turned: bool = False
    l_turned: bool = False
    by_group: bool = False
    two_of_four: bool = False

    @property
    def name(self) -> str:
        """The name of the tile, unique among those on offer for a product."""
        words = [f"{self.warps_m}x{self.warps_n}x{self.slices}"]
        words += ["2:4"] * self.two_of_four + ["whole"] * self.whole + ["group"] * self.by_group
        return f"{self.m}x{self.n}x{self.k} {' '.join(words)}{_parts(self.split)}"

    @property
    def bytes(self) -> int:
        """The size of an element."""
        return {"f16": 2, "bf16": 2, "s8": 1}.get(self.element, 4)

    @property
    def chunk(self) -> int:
        """Elements of one copy, of 16 bytes."""
        return 16 // self.bytes

    @property
    def warps(self) -> int:
        """Warps that share the results."""
        return self.warps_m * self.warps_n

    @property
    def threads(self) -> int:
        return 32 * self.warps * self.slices

    @property
    def s_pitch(self) -> int:
        """The stride of rows of S in shared memory, in elements: more than a row, against bank conflicts."""
        return self.m + TURNED_ROOM if self.s_turned else self.k + self.chunk

    @property
    def l_pitch(self) -> int:
        return self.k if self.whole else self.n + TURNED_ROOM if self.l_turned else self.k + self.chunk

    @property
    def s_room(self) -> int:
        """Elements of S in shared memory that a round needs."""
        if self.by_group:
            return self.m * self.k
        return (self.k if self.s_turned else self.m) * self.s_pitch

    @property
    def l_room(self) -> int:
        if self.by_group:
            return self.n * self.k
        if self.two_of_four:
            return self.n // 16 * self.steps * self.step_bytes // self.bytes
        return (self.k if self.l_turned else self.n) * self.l_pitch

    @property
    def steps(self) -> int:
        """Instructions along k in a round, where L has two of four: each takes 64 bytes of S."""
        return self.k * self.bytes // 64

    @property
    def step_bytes(self) -> int:
        """Bytes of 16 columns of L of such a step: 16 of elements a lane, and two bits of each element."""
        return 512 + 128 // self.bytes

    @property
    def shared_bytes(self) -> int:
        rows = self.s_room + self.l_room
        operands = self.stages * (rows * self.bytes + (GATE if self.whole else 0))
        if self.by_group:
            return operands + SWIZZLED
        return max(operands, 4 * self.m * self.n * (self.slices - 1))

    def takes(self, columns: int, depth: int) -> bool:
        """Is L cut into such tiles without much room for zeros at its ends?"""
        room = ceil(columns / self.n) * self.n * ceil(depth / self.k) * self.k
        if self.two_of_four:
            return room // (self.n * self.k) * self.l_room <= columns * depth
        return not self.whole or room <= columns * depth * ROOM


AnyTile = Union[Tile, TensorTile]

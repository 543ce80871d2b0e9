"""Which tile a group of threads takes of a matrix product: predicted from the shape and the facts of the device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil
from typing import Union

from edgec.device.facts import Device

#: Steps of k whose operands lie in shared memory at once.
DEPTH = 16
#: Multiply-adds a multiprocessor starts in a cycle.
FMA_PER_CYCLE = 128
#: The same on tensor cores, in half precision.
TENSOR_FMA_PER_CYCLE = 512
#: Cycles from asking for a tile's operands to having them, and of one round of barriers.
LATENCY, BARRIERS = 500, 60
#: Cycles that adding up the parts of a split sum costs: the groups meet in memory.
MEETING = 1500
#: (rows, columns, rows a thread, columns a thread) of the tiles on offer.
SHAPES = (
    (16, 32, 2, 4), (16, 64, 4, 4), (32, 32, 4, 4), (32, 64, 4, 4), (64, 32, 4, 4), (64, 64, 4, 4), (64, 64, 8, 4),
    (128, 32, 8, 4), (64, 128, 8, 8), (128, 64, 8, 8), (128, 128, 8, 8),
)  # fmt: skip


@dataclass(frozen=True)
class Tile:
    """A group computes ``m`` x ``n`` results, each thread ``thread_m`` x ``thread_n``, ``k`` steps of the sum a round.

    ``split`` groups share one tile, each with its part of the sum.
    """

    m: int
    n: int
    k: int
    thread_m: int
    thread_n: int
    split: int

    @property
    def threads(self) -> int:
        return (self.m // self.thread_m) * (self.n // self.thread_n)


@dataclass(frozen=True)
class TensorTile:
    """A group computes ``m`` x ``n`` results on tensor cores; ``warps_m`` x ``warps_n`` warps share them out.

    ``slices`` sets of warps each take their steps of k; operands of ``stages`` rounds are in shared memory or on their
    way there. ``element`` is what is multiplied: f16 or tf32.
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

    @property
    def bytes(self) -> int:
        """Of an element."""
        return 2 if self.element == "f16" else 4

    @property
    def warps(self) -> int:
        """Warps that share the results."""
        return self.warps_m * self.warps_n

    @property
    def threads(self) -> int:
        return 32 * self.warps * self.slices

    @property
    def pitch(self) -> int:
        """Elements from one row in shared memory to the next: 16 bytes more than it has, for the sake of banks."""
        return self.k + 16 // self.bytes

    @property
    def shared_bytes(self) -> int:
        operands = self.stages * (self.m + self.n) * self.pitch * self.bytes
        return max(operands, 4 * self.m * self.n * (self.slices - 1))


#: (rows, columns, warps along rows, along columns, slices, steps of 32 bytes a round) of the tiles on offer.
TENSOR_SHAPES = (
    (16, 32, 1, 1, 4, 4), (16, 64, 1, 2, 2, 4), (32, 32, 1, 1, 4, 4), (32, 64, 1, 2, 2, 4), (64, 32, 2, 1, 2, 4),
    (64, 64, 2, 2, 1, 4), (64, 128, 2, 4, 1, 2), (128, 64, 4, 2, 1, 2), (128, 128, 2, 4, 1, 2),
)  # fmt: skip
SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
AnyTile = Union[Tile, TensorTile]


def has_tensor_cores(device: Device) -> bool:
    """Does the device multiply matrices of the precision asked for, the way the templates ask it to?"""
    return device.language == "cuda" and device.compute_capability >= 80 and device.precision != "fp32"


def tile_for(batches: int, rows: int, columns: int, depth: int, device: Device) -> AnyTile:
    """The tile and the split with the least predicted cycles."""
    offers = _tensor_offers(device) if has_tensor_cores(device) else _offers()
    best: tuple[float, AnyTile] | None = None
    for offer in offers:
        for split in SPLITS:
            if split > 1 and depth // split < 2 * offer.k:
                break
            tile = replace(offer, split=split)
            cycles = _cycles(tile, batches, rows, columns, depth, device)
            if best is None or cycles < best[0]:
                best = (cycles, tile)
    assert best is not None
    return best[1]


def _offers() -> Iterator[Tile]:
    for m, n, thread_m, thread_n in SHAPES:
        yield Tile(m, n, DEPTH, thread_m, thread_n, 1)


def _tensor_offers(device: Device) -> Iterator[TensorTile]:
    element = "f16" if device.precision == "fp16" else "tf32"
    step = 16 if element == "f16" else 8
    for m, n, warps_m, warps_n, slices, steps in TENSOR_SHAPES:
        for stages in (4, 3, 2):
            tile = TensorTile(m, n, steps * step, warps_m, warps_n, slices, stages, 1, element)
            if tile.shared_bytes <= device.shared_bytes:
                yield tile
                break


def _cycles(tile: AnyTile, batches: int, rows: int, columns: int, depth: int, device: Device) -> float:
    groups = batches * ceil(rows / tile.m) * ceil(columns / tile.n) * tile.split
    each = ceil(groups / device.multiprocessors)
    resident = max(1, min(each, 1024 // tile.threads))
    rounds = ceil(ceil(depth / tile.split) / tile.k)
    step = max(_compute(tile, resident) * resident, LATENCY / 2) + BARRIERS
    waves = ceil(each / resident)
    meeting = MEETING + tile.split * tile.m * tile.n / 64 if tile.split > 1 else 0
    return waves * (rounds * step + 2 * LATENCY + tile.m * tile.n / 32) + meeting


def _compute(tile: AnyTile, resident: int) -> float:
    """Cycles of one round of one group, where what a multiprocessor can start is the limit."""
    if isinstance(tile, TensorTile):
        rate = TENSOR_FMA_PER_CYCLE / tile.bytes * 2
        return tile.m * tile.n * tile.k / rate / min(1.0, resident * tile.threads / 256)
    # With few warps, each waits for its own results and for shared memory.
    work = tile.thread_m * tile.thread_n
    reuse = work / (tile.thread_m + tile.thread_n)  # multiply-adds for every float that comes from shared memory
    rate = FMA_PER_CYCLE * min(1.0, resident * tile.threads / 256) * min(1.0, reuse / 2.5)
    return tile.m * tile.n * tile.k / rate

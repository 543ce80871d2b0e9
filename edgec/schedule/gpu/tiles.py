"""Which tile a group of threads takes of a matrix product: predicted from the shape and the facts of the device."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from edgec.device.facts import Device

#: Steps of k whose operands lie in shared memory at once.
DEPTH = 16
#: Multiply-adds a multiprocessor starts in a cycle.
FMA_PER_CYCLE = 128
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


def tile_for(batches: int, rows: int, columns: int, depth: int, device: Device) -> Tile:
    """The tile and the split with the least predicted cycles."""
    best: tuple[float, Tile] | None = None
    for m, n, thread_m, thread_n in SHAPES:
        for split in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32):
            if split > 1 and depth // split < 2 * DEPTH:
                break
            tile = Tile(m, n, DEPTH, thread_m, thread_n, split)
            cycles = _cycles(tile, batches, rows, columns, depth, device)
            if best is None or cycles < best[0]:
                best = (cycles, tile)
    assert best is not None
    return best[1]


def _cycles(tile: Tile, batches: int, rows: int, columns: int, depth: int, device: Device) -> float:
    groups = batches * ceil(rows / tile.m) * ceil(columns / tile.n) * tile.split
    each = ceil(groups / device.multiprocessors)
    resident = max(1, min(each, 1024 // tile.threads))
    rounds = ceil(ceil(depth / tile.split) / tile.k)
    # What one multiprocessor can start: with few warps, each waits for its own results and for shared memory.
    work = tile.thread_m * tile.thread_n
    reuse = work / (tile.thread_m + tile.thread_n)  # multiply-adds for every float that comes from shared memory
    rate = FMA_PER_CYCLE * min(1.0, resident * tile.threads / 256) * min(1.0, reuse / 2.5)
    compute = tile.m * tile.n * tile.k / rate * resident
    step = max(compute, LATENCY / 2) + BARRIERS
    waves = ceil(each / resident)
    meeting = MEETING + tile.split * tile.m * tile.n / 64 if tile.split > 1 else 0
    return waves * (rounds * step + 2 * LATENCY + tile.m * tile.n / 32) + meeting

"""Which tile a group of threads takes of a matrix product: predicted from the shape and the facts of the device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil
from typing import Union

from edgec.device.facts import Device

#: Steps of k whose operands lie in shared memory at once.
DEPTH = 16


@dataclass(frozen=True)
class Costs:
    """Cycles of one multiprocessor, fitted to the times of 1200 tiles (benchmarks/cuda_tiles.py, on an H200)."""

    rate: float  # multiply-adds a cycle
    full: float  # warps that reach it
    reuse: float  # multiply-adds for every float from shared memory that reach it
    bytes: float  # from the cache that all multiprocessors share, a cycle
    latency: float  # the least a round takes
    barriers: float  # what a round takes beside its work
    start: float  # of a group, until its first operands are there
    out: float  # of a result that a thread stores
    meeting: float  # of groups that share a tile
    part: float  # of adding up one part of one result


THREADS = Costs(128, 4.7, 2.2, 72, 163, 66, 189, 3.0, 1990, 5.5)
TENSORS = Costs(585, 3.35, 0, 40, 259, 30, 1000, 4.0, 3450, 3.7)
#: Cycles until the host has enqueued one more kernel, where groups that share a tile meet in a second one (4.3 us and
#: more on the H200's driver, benchmarks/opencl_enqueue.c).
LAUNCH = 9_000.0
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
    def bytes(self) -> int:
        """Of an element."""
        return 4

    @property
    def threads(self) -> int:
        return (self.m // self.thread_m) * (self.n // self.thread_n)

    @property
    def shared_bytes(self) -> int:
        return 2 * self.k * (self.m + self.n + 8) * self.bytes


@dataclass(frozen=True)
class TensorTile:
    """A group computes ``m`` x ``n`` results on tensor cores; ``warps_m`` x ``warps_n`` warps share them out.

    ``slices`` sets of warps each take their steps of k; operands of ``stages`` rounds are in shared memory or on their
    way there. ``element`` is what is multiplied: f16, tf32
    or s8, which stands for signed and unsigned bytes.
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
        return {"f16": 2, "s8": 1}.get(self.element, 4)

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
    (128, 128, 2, 4, 1, 4), (128, 256, 2, 4, 1, 4), (256, 128, 4, 2, 1, 4),
)  # fmt: skip
#: Results of a group that is not alone on its multiprocessor, so that it shares its memory.
SMALL = 64 * 128
SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
AnyTile = Union[Tile, TensorTile]


def has_tensor_cores(device: Device) -> bool:
    """Does the device multiply matrices of the precision asked for, the way the templates ask it to?"""
    return device.language == "cuda" and device.compute_capability >= 80 and device.precision != "fp32"


def tile_for(batches: int, rows: int, columns: int, depth: int, device: Device, element: str = "") -> AnyTile:
    """The tile and the split with the least predicted cycles; ``element`` "s8" is of bytes."""
    offers = _tensor_offers(device, element) if element or has_tensor_cores(device) else _offers()
    best: tuple[float, AnyTile] | None = None
    for offer in offers:
        for split in SPLITS:
            if split > 1 and depth // split < 2 * offer.k:
                break
            tile = replace(offer, split=split)
            predicted = cycles(tile, batches, rows, columns, depth, device)
            if best is None or predicted < best[0]:
                best = (predicted, tile)
    assert best is not None
    return best[1]


def _offers() -> Iterator[Tile]:
    for m, n, thread_m, thread_n in SHAPES:
        yield Tile(m, n, DEPTH, thread_m, thread_n, 1)


def _tensor_offers(device: Device, element: str = "") -> Iterator[TensorTile]:
    element = element or ("f16" if device.precision == "fp16" else "tf32")
    step = {"s8": 32, "f16": 16, "tf32": 8}[element]
    for m, n, warps_m, warps_n, slices, steps in TENSOR_SHAPES:
        for stages in (4, 3, 2) if steps > slices else (4, 3):  # a round of one step asks for the next one early
            tile = TensorTile(m, n, steps * step, warps_m, warps_n, slices, stages, 1, element)
            limit = device.shared_bytes if m * n <= SMALL else device.largest_shared_bytes
            if tile.shared_bytes <= limit:
                yield tile
                break


def cycles(tile: AnyTile, batches: int, rows: int, columns: int, depth: int, device: Device) -> float:
    """Of a launch, by the model that tiles are chosen with."""
    costs = TENSORS if isinstance(tile, TensorTile) else THREADS
    groups = batches * ceil(rows / tile.m) * ceil(columns / tile.n) * tile.split
    each = ceil(groups / device.multiprocessors)
    resident = max(1, min(each, 1024 // tile.threads, 4 * device.shared_bytes // tile.shared_bytes))
    rounds = ceil(ceil(depth / tile.k) / tile.split)
    rate = costs.rate * min(1.0, resident * tile.threads / 32 / costs.full)
    if isinstance(tile, Tile):
        rate *= min(1.0, tile.thread_m * tile.thread_n / (tile.thread_m + tile.thread_n) / costs.reuse)
    else:
        rate *= {"s8": 2.0, "f16": 1.0, "tf32": 0.5}[tile.element]
    compute = tile.m * tile.n * tile.k * resident / rate
    load = (tile.m + tile.n) * tile.k * tile.bytes * resident / costs.bytes
    step = max(compute, load, costs.latency) + costs.barriers
    each_thread = tile.m * tile.n / tile.threads
    meet = costs.meeting if device.groups_meet else LAUNCH
    meeting = meet + tile.split * each_thread * costs.part if tile.split > 1 else 0.0
    return ceil(each / resident) * (rounds * step + costs.start + each_thread * costs.out * resident) + meeting

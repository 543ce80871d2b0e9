"""The tile of a matrix product that a thread block takes: predicted from the shape and the facts of the device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil
from typing import Literal, Union

from edgec.device.device import Device, Precision
from edgec.ir.vector import HALF

#: Steps of k whose operands are in shared memory at once.
DEPTH = 16


#: How much more memory weights may take where they lie tile by tile.
ROOM = 1.125
#: Elements between the rows of what is turned: lanes read four rows of eight floats, or eight of eight halves.
TURNED_ROOM = 8
#: Bytes of the gate of a stage.
GATE = 8
#: What groups of warps read begins at multiples of so many bytes.
SWIZZLED = 1024
#: (rows, columns, rows a thread, columns a thread) of the tiles on offer.
SHAPES = (
    (16, 32, 2, 4), (16, 64, 4, 4), (32, 32, 4, 4), (32, 64, 4, 4), (64, 32, 4, 4), (64, 64, 4, 4), (64, 64, 8, 4),
    (128, 32, 8, 4), (64, 128, 8, 8), (128, 64, 8, 8), (128, 128, 8, 8),
)  # fmt: skip


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


#: (rows, columns, warps along rows, along columns, slices, steps of 32 bytes a round) of the tiles on offer.
TENSOR_SHAPES = (
    (16, 32, 1, 1, 4, 4), (16, 32, 1, 1, 4, 8), (16, 64, 1, 2, 2, 4), (16, 64, 1, 2, 4, 8), (16, 128, 1, 4, 2, 4),
    (32, 32, 1, 1, 4, 4), (32, 32, 1, 1, 4, 8), (32, 64, 1, 2, 2, 4), (64, 32, 2, 1, 2, 4), (64, 64, 2, 2, 1, 4),
    (64, 64, 2, 2, 2, 4), (64, 128, 2, 2, 1, 4), (128, 64, 2, 2, 1, 4), (128, 128, 2, 4, 1, 4), (128, 256, 2, 4, 1, 4),
)  # fmt: skip
#: Those of groups of warps, in halves: (rows, columns). A product has enough of them for most of the device, each with
#: enough rounds, or gains nothing.
GROUP_SHAPES = ((128, 256), (128, 192), (128, 128))
GROUP_ROUNDS, GROUP_SHARE = 4, 0.7
#: The most rounds whose operands are in shared memory or on their way there.
STAGES = 5
SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
#: How much faster groups of warps multiply than warps.
BY_GROUP = 1.6
#: Thread blocks of a cluster that every device with clusters supports.
CLUSTER = 8
AnyTile = Union[Tile, TensorTile]
#: Types of factors of floats on tensor cores.
Element = Literal["f32", "tf32", "f16", "bf16"]
_MULTIPLIED: dict[Precision, Element] = {"fp32": "f32", "tf32": "tf32", "fp16": "f16", "bf16": "bf16"}


def has_tensor_cores(device: Device) -> bool:
    """Does the device have tensor cores that the templates can use?"""
    return device.language == "cuda" and device.gpu.compute_capability >= 80 and device.gpu.tensor_cores


def is_cluster(tile: AnyTile, device: Device) -> bool:
    """Are the thread blocks that share a tile a cluster, which adds up sums through shared memory?"""
    return device.has_clusters and isinstance(tile, TensorTile) and 1 < tile.split <= CLUSTER


def multiplied(device: Device) -> Element:
    """The type that tensor cores multiply in the precision asked for; f32 is three products of TF32."""
    return _MULTIPLIED[device.precision]


def tile_for(
    batches: int,
    rows: int,
    columns: int,
    depth: int,
    device: Device,
    element: str = "",
    constant: bool = False,
    name: str | None = None,
    piece: int = 16,
) -> AnyTile:
    """The tile and the split that are called ``name``, else those with the least predicted cycles."""
    found = tiles_for(batches, rows, columns, depth, device, element, constant, piece)
    return next((tile for tile in found if tile.name == name), found[0])


def tiles_for(
    batches: int, rows: int, columns: int, depth: int, device: Device, element: str, constant: bool, piece: int = 16
) -> list[AnyTile]:
    """All tiles and splits of a product, by predicted cycles; ``element`` "s8" is that of int8.

    A ``constant`` L may be stored tile by tile. ``piece`` adjacent bytes of S are one copy; 0 where its elements are
    computed.
    """
    found = [
        replace(offer, split=split)
        for offer in (
            *offers(columns, depth, device, element, constant),
            *_group_offers(batches, rows, columns, depth, device, element or multiplied(device)),
        )
        for split in SPLITS
        if split == 1 or depth // split >= 2 * offer.k
    ]
    return sorted(found, key=lambda tile: cycles(tile, batches, rows, columns, depth, device, piece))


def offers(columns: int, depth: int, device: Device, element: str, constant: bool) -> Iterator[AnyTile]:
    """The tiles that a product can be cut into, its sum in one part."""
    if not has_tensor_cores(device):
        fits = (t for t in _offers(element or "f32") if t.shared_bytes <= device.gpu.shared_bytes)
        yield from (t for t in fits if t.threads <= device.gpu.group_threads)
        return
    for tile in _tensor_offers(device, element or multiplied(device)):
        yield tile
        whole = replace(tile, whole=True)
        # fp32 gains nothing from that: splitting factors takes the time.
        if constant and device.gpu.compute_capability >= 90 and tile.element != "f32" and whole.takes(columns, depth):
            yield whole


def _offers(element: str) -> Iterator[Tile]:
    for m, n, thread_m, thread_n in SHAPES:
        tile = Tile(m, n, DEPTH, thread_m, thread_n, 1, element)
        yield replace(tile, k=DEPTH * tile.chunk)


def _tensor_offers(device: Device, element: str) -> Iterator[TensorTile]:
    step = {"s8": 32, "f16": 16, "bf16": 16}.get(element, 8)
    for m, n, warps_m, warps_n, slices, steps in TENSOR_SHAPES:
        tile = TensorTile(m, n, steps * step, warps_m, warps_n, slices, 1, 1, element)
        if element == "f32" and max(m, n) > 64:
            continue  # a warp has no registers for the remainders of factors
        tile = replace(tile, stages=stages_of(tile, device))
        if tile.shared_bytes <= device.largest_shared_bytes:
            yield tile


def _group_offers(
    batches: int, rows: int, columns: int, depth: int, device: Device, element: str
) -> Iterator[TensorTile]:
    if not device.has_warp_groups or element not in HALF:
        return
    for m, n in GROUP_SHAPES:
        tile = TensorTile(m, n, 64, m // 16, 1, 1, 4, 1, element, by_group=True)
        count = batches * ceil(rows / m) * ceil(columns / n)
        parts = depth // (GROUP_ROUNDS * tile.k)
        if rows >= m and columns >= n and count * parts >= GROUP_SHARE * device.gpu.multiprocessors:
            yield tile


def stages_of(tile: TensorTile, device: Device) -> int:
    """Rounds in shared memory, of which several thread blocks of a multiprocessor have a share."""
    size = tile.m * tile.n
    beside = 3 if size <= 64 * 64 else 2 if size <= 128 * 128 else 1
    return max(3, min(STAGES, device.largest_shared_bytes // beside // replace(tile, stages=1).shared_bytes))


def turned(tile: AnyTile, s: bool, l: bool, device: Device) -> AnyTile:
    """The tile with factors turned in shared memory, where that is of tensor cores and has room for them."""
    if not isinstance(tile, TensorTile) or not (s or l):
        return tile
    found = replace(tile, s_turned=s, l_turned=l)
    if not tile.by_group:
        found = replace(found, stages=stages_of(found, device))
    return found if found.shared_bytes <= device.largest_shared_bytes else tile


def cycles(tile: AnyTile, batches: int, rows: int, columns: int, depth: int, device: Device, piece: int = 16) -> float:
    """Of a launch, by the model that tiles are chosen with."""
    groups = batches * ceil(rows / tile.m) * ceil(columns / tile.n) * tile.split
    rounds = ceil(ceil(depth / tile.k) / tile.split)
    if isinstance(tile, Tile):
        return _on_threads(tile, groups, rounds, device)
    filled = rows / ceil(rows / tile.m), columns / ceil(columns / tile.n)
    return _on_tensors(tile, groups, rounds, filled, device, piece)


def _on_threads(tile: Tile, groups: int, rounds: int, device: Device) -> float:
    costs = device.costs.fma_tile
    each = ceil(groups / device.gpu.multiprocessors)
    resident = max(1, min(each, 1024 // tile.threads, 4 * device.gpu.shared_bytes // tile.shared_bytes))
    rate = costs.fmas * min(1.0, resident * tile.threads / 32 / costs.full_warps)
    rate *= min(1.0, tile.thread_m * tile.thread_n / (tile.thread_m + tile.thread_n) / costs.full_reuse)
    compute = tile.m * tile.n * tile.k / tile.chunk * resident / rate
    load = (tile.m + tile.n) * tile.k * tile.bytes * resident / costs.l2_bytes
    step = max(compute, load, costs.copy_latency) + costs.round
    each_thread = tile.m * tile.n / tile.threads
    meet = costs.split if device.groups_can_sync else costs.launch
    meeting = meet + tile.split * each_thread * costs.add_part if tile.split > 1 else 0.0
    return ceil(each / resident) * (rounds * step + costs.start + each_thread * costs.store * resident) + meeting


def _on_tensors(
    tile: TensorTile, groups: int, rounds: int, filled: tuple[float, float], device: Device, piece: int
) -> float:
    """``filled`` rows of S and L are there, of those a tile has room for."""
    costs = device.costs.tensor_tile_fp32 if tile.element == "f32" else device.costs.tensor_tile
    each = ceil(groups / device.gpu.multiprocessors)
    resident = max(1, min(each, 1024 // tile.threads, device.largest_shared_bytes // tile.shared_bytes))
    rate = costs.fmas * min(1.0, resident * tile.threads / 32 / costs.full_warps)
    rate *= {"s8": 2.0, "tf32": 0.5}.get(tile.element, 1.0)
    if tile.by_group:
        rate *= BY_GROUP
    results = tile.m * tile.n / tile.warps / costs.results
    if tile.two_of_four:
        rate, results = rate * costs.two_of_four, results / costs.two_of_four
    compute = tile.m * tile.n * tile.k * resident / rate
    own = tile.k * tile.bytes / 32 / tile.slices * (costs.step + results)
    if tile.by_group:
        own = 0.0  # one instruction a step
    l_share = tile.l_room / (tile.n * tile.k) if tile.two_of_four else 1.0
    own += (tile.m + tile.n * l_share * (not tile.whole)) * tile.k * tile.bytes / 16 / tile.threads * costs.copy
    bandwidth = min(
        costs.l2_bytes, costs.l2_share * device.gpu.multiprocessors / min(groups, device.gpu.multiprocessors)
    )
    load = tile.k * tile.bytes * resident / bandwidth
    of_s, of_l = filled[0], filled[1] * l_share * (costs.bulk_bytes if tile.whole else 1.0)
    gathered = 0.0
    if piece < 16:
        pieces = tile.m * tile.k * tile.bytes / (piece or tile.bytes) / tile.threads
        each_piece = costs.gather_piece if piece else costs.gather_element
        gathered = pieces * max(each_piece, costs.gather_issue * resident * tile.threads / 32)
    step = max(compute, own + gathered, (of_s + of_l) * load, costs.copy_latency / (tile.stages - 1)) + costs.round
    first = (min(tile.stages - 1, rounds) * of_l + of_s) * load + costs.bulk_start * tile.whole
    first += (tile.stages - 1) * gathered
    each_thread = tile.m * tile.n / (32 * tile.warps)
    own_results = each_thread / tile.split if is_cluster(tile, device) else each_thread
    last = own_results * costs.store * resident + each_thread * costs.add_slice * (tile.slices - 1)
    meeting = 0.0
    if is_cluster(tile, device):
        meeting = costs.cluster + each_thread * costs.add_remote_part
    elif tile.split > 1:
        meeting = costs.split + tile.split * each_thread * costs.add_part
    return ceil(each / resident) * (costs.start + first + rounds * step + last) + meeting

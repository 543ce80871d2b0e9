"""Attention on a GPU in one kernel: a thread block takes a block of queries and iterates over tiles of keys and values.

Registers hold the scores of one tile; sums are scaled down when a larger score comes (online softmax). Both matrix
products run on tensor cores where the device has them for its precision.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

from edgec.device.device import Device
from edgec.fuse.attention import MIXED
from edgec.fuse.cost_model import gpu_launch_s
from edgec.ir import expr as X
from edgec.ir.expr import Expr, Extent
from edgec.ir.nest import extent, is_fixed, most
from edgec.ir.vector import HALF
from edgec.schedule.attention.attention import parts_of, with_one_query_loop
from edgec.schedule.attention.mask import by_position
from edgec.schedule.attention.relative_bias import as_toeplitz
from edgec.schedule.flat import Flat, Weights, with_contiguous_weights
from edgec.schedule.gpu.kernel import GpuKernel, has_lanes, is_aligned, loads_lanes
from edgec.schedule.gpu.tile import SWIZZLED
from edgec.schedule.gpu.tiles import Element, has_tensor_cores, multiplied
from edgec.schedule.program import Buffer

#: Rows of a tensor core instruction; queries and keys of one thread without tensor cores.
ROWS, EACH = 16, 4
#: Queries, and keys of a tile, of a group of warps; from so many keys on, groups gain.
OF_A_GROUP, GROUP_KEYS = 64, 256
#: The largest head of a group, and how much larger it may be made by zeros.
LARGEST_OF_A_GROUP, ROOM_OF_A_GROUP = 128, 1.35
#: Two groups share keys where there are blocks for less than this part of what a multiprocessor holds at once.
SLICED = 0.7
#: Share of the multiprocessors that must get a block; with fewer, blocks are made smaller.
FULL = 0.85

#: Cycles of attention in halves: of a block; of 64 x 64 scores on a multiprocessor that has many blocks, and how many
#: more where warps multiply alone; of a tile of keys of a block. Fitted to 24 sizes on an H100 (docs/results/cuda.md).
START, TILE, PER_TILE, PER_FEATURE, BY_WARPS, PER_ROUND, PER_FEATURE_OF_A_ROUND = 3500, 64, 40, 4.4, 1.4, 900, 7.6


@dataclass(frozen=True)
class AttentionTile:
    """A thread block takes ``queries``, and ``keys`` at a time; ``features`` and ``width`` are padded.

    Each of ``slices`` sets of threads has its part of the keys. On tensor cores a warp has ``high`` times 16 of the
    queries; shared memory holds ``stages`` tiles of keys and values, or receives them. ``element`` is the type of the
    factors. With ``by_group`` four warps multiply 64 queries by all keys at once, which shared memory has swizzled.
    """

    queries: int
    keys: int
    features: int
    width: int
    element: Element
    high: int = 0
    slices: int = 1
    stages: int = 1
    by_group: bool = False

    @property
    def bytes(self) -> int:
        """The size of an element."""
        return 2 if self.element in HALF else 4

    @property
    def warps(self) -> int:
        """Warps that share the queries, on tensor cores."""
        return self.queries // (ROWS * self.high)

    @property
    def threads(self) -> int:
        return 32 * self.warps * self.slices if self.high else self.queries // EACH * (self.keys // EACH)

    @property
    def chunk(self) -> int:
        """Elements of one copy, of 16 bytes."""
        return 16 // self.bytes

    @property
    def pitch(self) -> int:
        """The stride of queries and keys in shared memory, in elements."""
        return self.features + self.chunk * (not self.by_group)

    @property
    def value_pitch(self) -> int:
        """The stride of values in shared memory, in elements."""
        return self.width + self.chunk * (not self.by_group)

    @property
    def stage(self) -> int:
        """Elements of a tile of keys and values."""
        return self.keys * (self.pitch + self.value_pitch)

    @property
    def slice(self) -> int:
        """Floats of a slice without tensor cores: weights, and transposed keys or, in their place, values."""
        own = self.keys // self.slices
        return own * (self.queries + 4) + max(self.features * (own + 4), own * self.value_pitch)

    @property
    def exchange_bytes(self) -> int:
        """Shared memory to exchange a number per thread and query where threads cannot exchange registers."""
        return 4 * EACH * self.threads

    @property
    def _held(self) -> int:
        """Accumulators of a thread, without tensor cores."""
        return EACH * self.width * EACH * self.slices // self.keys + 8

    @property
    def shared_bytes(self) -> int:
        if not self.high:
            sums = (self.slices - 1) * self.queries // EACH * self.keys // EACH // self.slices * self._held
            return 4 * max(self.features * (self.queries + 4) + self.slices * self.slice, sums)
        operands = self.bytes * (self.queries * self.pitch + self.stages * self.stage)
        return max(operands, 4 * (self.slices - 1) * self.queries * (self.width + 8)) + SWIZZLED * self.by_group

    @property
    def beside(self) -> int:
        """Thread blocks of a multiprocessor that registers suffice for."""
        return max(1, 65536 // (self.threads * (self.width + self.keys // self.slices)))


@dataclass(frozen=True)
class GpuAttention(GpuKernel):
    """Loops and parts as in `edgec.schedule.attention.attention.Parts`, and how operands can be accessed."""

    template: ClassVar[str] = "attention"
    batch: tuple[Expr, ...]
    m: Expr
    n: Expr
    d: Expr
    k: tuple[Expr, ...]
    query: Expr
    key: Expr
    value: Expr
    score: Expr
    result: Expr
    query_lanes: bool  # LANES neighbors along k are one load
    key_lanes: bool
    value_lanes: bool  # the same along d
    query_copied: bool  # 16 bytes can be copied without conversion
    key_copied: bool
    value_copied: bool
    store_lanes: bool  # LANES neighbors of the result are stored at once
    tile: AttentionTile
    seen: tuple[Expr, Expr] | None  # first and end key, over ``m`` of a block's first query; or places in a list
    listed: tuple[Expr, Expr] | None = None  # a place in it, and the tile of keys that is there

    @property
    def bodies(self) -> list[Expr]:
        return [self.query, self.key, self.value, self.score, self.result, *(self.seen or ()), *self.tiles]

    @property
    def tiles(self) -> list[Expr]:
        """The tile of keys at a place in the list; nothing where tiles are neighbors."""
        return [self.listed[1]] if self.listed is not None else []

    @property
    def features(self) -> int:
        return prod(map(most, self.k))

    @property
    def batches(self) -> int:
        return prod(map(most, self.batch))

    @property
    def blocks(self) -> Extent:
        return X.plain(-(-extent(self.m) // self.tile.queries))

    def predicted_seconds(self, device: Device) -> float | None:
        t = self.tile
        if not t.high or t.element not in HALF:
            return None
        queries, keys, size = -(-most(self.m) // TILE), -(-most(self.n) // TILE), t.features + t.width
        share = 1.0 if self.seen is None else 0.5 + 0.5 / keys
        busy = self.batches * queries * keys * share / device.gpu.multiprocessors * (PER_TILE + PER_FEATURE * size)
        waiting = -(-most(self.n) // t.keys) * (PER_ROUND + PER_FEATURE_OF_A_ROUND * size)
        cycles = START + max(busy * (1.0 if t.by_group else BY_WARPS), waiting)
        return gpu_launch_s(device) + cycles / (device.gpu.clock_mhz * 1e6)

    @property
    def describe(self) -> str:
        t = self.tile
        where = ""
        if t.high:
            warps = (
                f"{t.warps // 4} x {t.slices} groups of four warps" if t.by_group else f"{t.warps} x {t.slices} warps"
            )
            where = f" on tensor cores ({t.element}), {warps}"
        sizes = f"{extent(self.m)} queries, {extent(self.n)} keys of {self.features}, values of {most(self.d)}"
        blocks = f"blocks of {t.queries} x {t.keys}"
        if self.listed is not None:
            blocks += f", {most(self.listed[0])} of {-(-most(self.m) // t.queries) * -(-most(self.n) // t.keys)} seen"
        return f"{self.batches} x {sizes}, {blocks}{where}"


def attention(flat: Flat, device: Device, weights: Weights) -> GpuAttention | None:
    """Schedule ``flat`` as attention; None when it is none, or when a head is too large for shared memory."""
    flat = with_one_query_loop(flat)
    p = parts_of(flat, weights)
    if p is None or not is_fixed(*p.loops):
        return None
    tile = tile_for(
        prod(map(most, p.loops)), most(p.m), most(p.n), prod(map(most, p.k)), most(p.d), device, p.seen is not None
    )
    if tile is None:
        return None
    last = p.k[-1] if p.k else X.const(0)
    score = by_position(p.score, p.seen, weights) if p.seen is not None else p.score
    score = as_toeplitz(score, p.n, p.m, weights)
    score = with_contiguous_weights(score, (*flat.loops, p.n), p.n, weights)
    seen = p.seen.of_blocks(tile.queries, weights) if p.seen is not None else None
    found = p.seen.of_tiles(tile.queries, tile.keys, weights) if p.seen is not None and tile.high else None
    whole = X.substitute(p.result, {MIXED: X.load("mixed", (p.d,), "f32")})
    value = p.value if p.weight.op == "const" else p.value * p.weight
    return GpuAttention(
        flat.store, flat.address, p.loops, p.m, p.n, p.d, p.k, p.query, p.key, value, score, p.result,
        loads_lanes(p.query, last), loads_lanes(p.key, last), loads_lanes(value, p.d),
        _is_copied(p.query, last, tile), _is_copied(p.key, last, tile), _is_copied(value, p.d, tile),
        has_lanes(whole, flat.store, flat.address, p.d), tile, found[:2] if found is not None else seen,
        found[2:] if found is not None else None,
    )  # fmt: skip


def _is_copied(load: Expr, along: Expr, tile: AttentionTile) -> bool:
    stored = (tile.element if tile.element in HALF else "f32") if tile.high else ""
    buffer = load.value
    is_plain = isinstance(buffer, Buffer) and buffer.dtype == stored and along.op == "var"
    return is_plain and is_aligned(load.args[0], along, tile.chunk)


def largest_head(device: Device) -> int:
    """The largest head that a kernel of attention takes on a device; 0 where there is no such kernel."""
    if not device.is_gpu or not device.gpu.has_local_memory or device.language == "wgsl":
        return 0
    return next((h for h in range(256, 0, -16) if tile_for(1, 64, 64, h, h, device) is not None), 0)


def tile_for(
    batches: int, queries: int, keys: int, features: int, width: int, device: Device, hides: bool = False
) -> AttentionTile | None:
    """The largest block of queries that occupies most multiprocessors; None where none fits.

    Where a mask ``hides`` keys, blocks take half of the time.
    """
    blocks = batches * -(-queries // OF_A_GROUP) / device.gpu.multiprocessors / (2 if hides else 1)
    if (tile := _group_tile(blocks, queries, keys, features, width, device)) is not None:
        return tile
    offers = _tensor_tiles(features, width, device) if has_tensor_cores(device) else _tiles(features, width)
    shuffles = device.language == "cuda"  # else threads exchange scores through shared memory
    own = device.largest_shared_bytes
    fitting = [t for t in offers if t.shared_bytes + (0 if shuffles else t.exchange_bytes) <= own]
    least = min((-(-keys // t.keys) * t.keys for t in fitting), default=0)
    for tile in fitting:
        is_wasteful = tile.keys > keys and tile.keys > least
        is_wasteful |= any(queries <= t.queries < tile.queries for t in fitting)
        if not is_wasteful and batches * -(-queries // tile.queries) >= FULL * device.gpu.multiprocessors:
            return tile
    return min(fitting, key=lambda t: (t.queries, -(-keys // t.keys) * t.keys, -t.stages), default=None)


def _tensor_tiles(features: int, width: int, device: Device) -> list[AttentionTile]:
    """Tiles on tensor cores whose accumulators fit into registers, those of most queries first."""
    element = multiplied(device)
    step = 16 if element in HALF else 8
    features, width = (-(-x // step) * step for x in (features, width))
    found = []
    for high, warps, slices in ((2, 4, 1), (1, 4, 1), (1, 2, 2), (1, 1, 4)):
        for keys, stages in ((64, 2), (32, 2), (32, 1), (16, 1)):
            if element == "f32" and (high > 1 or keys > max(16, 112 - width)):
                continue  # the remainders of factors need registers too
            if high * (keys + width) <= (320 if keys == 32 else 288) and (high == 1 or keys >= 32):
                tile = AttentionTile(16 * high * warps, keys * slices, features, width, element, high, slices, stages)
                found.append(tile)
    return found


def _group_tile(
    blocks: float, queries: int, keys: int, features: int, width: int, device: Device
) -> AttentionTile | None:
    """The tile of groups of warps, of so many ``blocks`` for a multiprocessor; None where they gain nothing."""
    element = multiplied(device)
    if not device.has_warp_groups or element not in HALF or queries < OF_A_GROUP or keys < GROUP_KEYS:
        return None
    padded = [-(-x // 64) * 64 for x in (features, width)]
    if max(padded) > LARGEST_OF_A_GROUP or sum(padded) > ROOM_OF_A_GROUP * (features + width):
        return None
    features, width = padded
    tile = AttentionTile(OF_A_GROUP, OF_A_GROUP, features, width, element, 1, 1, 2, by_group=True)
    return tile if blocks >= SLICED * tile.beside else replace(tile, keys=2 * OF_A_GROUP, slices=2)


def _tiles(features: int, width: int) -> list[AttentionTile]:
    width = -(-width // 32) * 32
    shapes = ((64, 1), (32, 2), (16, 4), (32, 1), (16, 1))
    return [AttentionTile(queries, 32 * slices, features, width, "f32", slices=slices) for queries, slices in shapes]

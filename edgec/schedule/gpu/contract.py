"""Contractions on a GPU: any sum of products as a matrix product in tiles of shared memory.

``out[batch.., m.., n..] = f(sum over k.. of S[batch.., m.., k..] * L[batch.., k.., n..])``. The loops of each kind are
numbered as one (m, n, k), and decoded again where an element is loaded: a convolution is an implicit matrix
product whose k walks over the window and the channels. L is the factor whose loops are contiguous in the result; where
it is constant it is packed at build time as [.., k, n].
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np

from edgec.device.device import Device
from edgec.fuse.cost_model import gpu_launch_s
from edgec.ir import expr as X
from edgec.ir import positions
from edgec.ir.expr import Expr
from edgec.ir.nest import coefficient, is_fixed, most
from edgec.ir.types import DTYPES
from edgec.ir.vector import HALF
from edgec.schedule.contract.int8_dot import BYTES
from edgec.schedule.flat import Flat, Weights, evaluate_over, is_constant, with_contiguous_weights
from edgec.schedule.gpu.integer import factors, started, sums_of_columns
from edgec.schedule.gpu.kernel import (
    FEW_ROWS,
    LANES,
    GpuProduct,
    Prefetch,
    has_lanes,
    is_aligned,
    loads_lanes,
    packed_as,
)
from edgec.schedule.gpu.product import Loops, Signs, apart_from_signs, product_of
from edgec.schedule.gpu.results import operations_of
from edgec.schedule.gpu.sparse import without_zeros
from edgec.schedule.gpu.tile import AnyTile, TensorTile, Tile
from edgec.schedule.gpu.tile_cycles import cycles, is_cluster
from edgec.schedule.gpu.tiles import has_tensor_cores, offers, tile_for, turned
from edgec.schedule.gpu.two_of_four import packed, with_two_of_four
from edgec.schedule.offer import SparseOffer
from edgec.schedule.program import Buffer

#: With fewer columns (or rows) times steps of k, a tile is mostly empty: threads that compute results alone are faster.
FEW_PRODUCTS = 64
#: Sizes of one copy into shared memory in bytes, largest first.
COPIES = (16, 8, 4)


@dataclass(frozen=True)
class GpuContract(GpuProduct):
    """A matrix product in tiles of shared memory; a packed L has loops of its own."""

    template: ClassVar[str] = "contract"
    s: Expr  # one element of S, over batch, m and k
    l: Expr  # one element of L, over batch, l_k and l_n
    l_k: tuple[Expr, ...]
    l_n: tuple[Expr, ...]
    epilogue: Expr  # over ``accumulator``
    accumulator: Expr
    s_lanes: bool  # LANES neighbors of S along k (or along m, where it is turned) are one load
    l_lanes: bool  # LANES neighbors of L along n (on tensor cores: along k, or n where it is turned) are one load
    store_lanes: bool  # LANES neighbors of the result along n are computed and stored at once
    s_copied: int  # bytes of S along k in one copy without conversion (see ``copied``), 0 for none
    l_copied: int  # the same of L
    tile: AnyTile
    start: Expr | None = None  # of int8: the addend of a sum before it becomes a float; None where it stays an integer
    types: tuple[str, str] = ("f32", "f32")  # of the factors; int8 or uint8 where sums are integers
    fill: int = 0  # the value of copied elements of S where a select loads none
    groups_can_sync: bool = True  # the last thread block of a tile adds up its parts; else another kernel does
    is_cluster: bool = False  # thread blocks of a tile run together; each adds up the parts of its share of the results
    offer: SparseOffer | None = None  # of weights with zeros: the cost without them, and whether they are skipped
    prefetch: Prefetch = ()
    signs: Signs = "kept"  # those that L is multiplied with: taken off in registers, without tensor cores

    @property
    def is_integer(self) -> bool:
        """Are sums integers?"""
        return self.types[0] in BYTES

    @property
    def operations(self) -> float:
        """Instructions between the sum and the store of a result, about."""
        return operations_of(self.epilogue, self.accumulator)

    @property
    def bodies(self) -> list[Expr]:
        return [self.s, self.l, self.epilogue, *([self.start] if self.start is not None else [])]

    @property
    def repeats(self) -> int:
        return prod(most(v) for v in self.batch if v not in X.free_variables(self.s))

    @property
    def at_store(self) -> list[Expr]:
        return [self.epilogue]

    @property
    def prefetched(self) -> tuple[Buffer, ...]:
        return tuple(buffer for buffer, _ in self.prefetch)

    def predicted_seconds(self, device: Device) -> float | None:
        if device.language != "cuda":
            return None
        start = gpu_launch_s(device)
        sizes = (self.batches, self.rows, self.columns, self.depth)
        needed = cycles(self.tile, *sizes, device, operations=self.operations)
        return start + needed / (device.gpu.clock_mhz * 1e6)

    def multiply_adds(self, device: Device) -> float:
        if isinstance(self.tile, TensorTile) and device.gpu.tensor_multiply_adds:
            kind = {"s8": 2.0, "f16": 1.0, "bf16": 1.0}.get(self.tile.element, 0.5)
            return device.gpu.tensor_multiply_adds * kind * (2.0 if self.tile.two_of_four else 1.0)
        return float(device.gpu.multiply_adds) * (self.tile.chunk if isinstance(self.tile, Tile) else 1)

    @property
    def variant(self) -> str:
        return self.tile.name

    @property
    def describe(self) -> str:
        t = self.tile
        parts = f", the sum in {t.split} parts" * (t.split > 1)
        if isinstance(t, TensorTile):
            warps = f"{t.warps // 4} groups of four warps" if t.by_group else f"{t.warps} x {t.slices} warps"
            kind = f"{t.element}, weights 2:4" if t.two_of_four else t.element
            return f"{self.sizes}, tile {t.m} x {t.n} on tensor cores ({kind}), {warps}{parts}"
        fours = f", four {' x '.join(self.types)} a step" if self.is_integer else ""
        return f"{self.sizes}, tile {t.m} x {t.n}, {t.thread_m} x {t.thread_n} a thread{fours}{parts}"

    @property
    def tiles(self) -> int:
        return self.batches * -(-self.rows // self.tile.m) * -(-self.columns // self.tile.n)

    @property
    def scratch_bytes(self) -> int:
        """Sums over parts of k, which the last thread block of a tile adds up."""
        apart = self.tile.split > 1 and not self.is_cluster
        return 4 * self.tiles * self.tile.split * self.tile.m * self.tile.n if apart else 0

    @property
    def locks(self) -> int:
        return self.tiles if self.tile.split > 1 and self.groups_can_sync and not self.is_cluster else 0


def contract(flat: Flat, device: Device, weights: Weights, variant: str | None = None) -> GpuContract | None:
    """Schedule ``flat`` as a matrix product, in tiles called ``variant`` or the cheapest ones.

    None where it is no matrix product, or another extent than the number of rows is open.
    """
    p = product_of(flat, open_rows=device.language == "cuda" or device.gpu.has_local_memory)
    if p is None:
        return contract_of_bytes(flat, device, weights, variant)
    batches, rows, columns, depth = (prod(map(most, loops)) for loops in (p.batch, p.m, p.n, p.k))
    if min(rows, columns) * depth < FEW_PRODUCTS and rows * batches > FEW_ROWS:
        return None
    can_take_off = device.language == "cuda" and not has_tensor_cores(device)
    p, signs = apart_from_signs(p) if can_take_off else (p, "kept")
    p, offer = without_zeros(p, device, weights)
    address, batch, m, n, k, s, l, epilogue, accumulator = (
        p.address, p.batch, p.m, p.n, p.k, p.s, p.l, p.epilogue, p.accumulator
    )  # fmt: skip
    constant = is_constant(l)
    batches, rows, columns, depth = (prod(map(most, loops)) for loops in (batch, m, n, k))  # without zeros
    s_turns, l_turns = is_turned(s, k, m), is_turned(l, k, n) and not constant
    piece = pieces(s, m if s_turns else k, columns, device)
    in_order = constant and not is_fixed(*m)  # rows of weights as the kernel of one row reads them, stored once
    operations = operations_of(epilogue, accumulator)
    tile = tile_for(batches, rows, columns, depth, device, "", constant and not in_order, variant, piece, operations)
    tile, offer = with_two_of_four(p, tile, offer, device, piece, variant)
    tile = turned(tile, s_turns, l_turns, device)
    on_tensors = isinstance(tile, TensorTile)
    s_turns, l_turns = (tile.s_turned, tile.l_turned) if isinstance(tile, TensorTile) else (False, False)
    l_k, l_n = k, n
    if constant:
        kind = (tile.element if tile.bytes == 2 else "f32") if isinstance(tile, TensorTile) else packed_as(device)
        l, l_k, l_n = _packed(l, batch, k, n, weights, kind, tile)
    last = n[-1] if n else X.const(0)
    epilogue = with_contiguous_weights(epilogue, (*batch, *m, *n), last, weights)
    sides = (m if s_turns else k, l_k if on_tensors and not l_turns else l_n)
    s_along, l_along = (next((v for v in reversed(loops)), X.const(0)) for loops in sides)
    return GpuContract(
        flat.store, address, batch, m, n, k, s, l, l_k, l_n, epilogue, accumulator,
        loads_lanes(s, s_along), loads_lanes(l, l_along),
        has_lanes(X.substitute(epilogue, {accumulator: X.load("accumulator", (last,), "f32")}),
                  flat.store, address, last),
        copied(s, s_along, tile), COPIES[0] if in_tiles(tile) else copied(l, l_along, tile), tile,
        groups_can_sync=device.groups_can_sync, is_cluster=is_cluster(tile, device), offer=offer, signs=signs,
    )  # fmt: skip


def contract_of_bytes(flat: Flat, device: Device, weights: Weights, variant: str | None = None) -> GpuContract | None:
    """Schedule an int8 matrix product, on tensor cores or with four products a step.

    None where ``flat`` is none, or the device can do neither.
    """
    p = product_of(flat, "i32")
    if p is None or device.language != "cuda" or not (device.has_int8_tensor_cores or device.has_dot4):
        return None
    p, offer = without_zeros(p, device, weights, "s8")
    found = factors(p.s, p.l)
    if found is None:
        return None
    s, l, epilogue, accumulator, l_k, l_n = found.s, found.l, p.epilogue, p.accumulator, p.k, p.n
    batches, rows, columns, depth = (prod(map(most, loops)) for loops in (p.batch, p.m, p.n, p.k))
    piece = pieces(s, p.k, columns, device, found.types[0])
    operations = operations_of(epilogue, accumulator)
    tile = tile_for(batches, rows, columns, depth, device, "s8", is_constant(l), variant, piece, operations)
    tile, offer = with_two_of_four(p, tile, offer, device, piece, variant)
    if found.offset:
        more = sums_of_columns(l, p.n, p.k, weights) * X.const(found.offset, "i32")
        epilogue = X.substitute(epilogue, {accumulator: accumulator + more})
    if is_constant(l):
        l, l_k, l_n = _packed(l, p.batch, p.k, p.n, weights, found.types[1], tile)
    last = p.n[-1] if p.n else X.const(0)
    parts = started(epilogue, accumulator)
    start, epilogue, accumulator = parts if parts is not None else (None, epilogue, accumulator)
    epilogue = with_contiguous_weights(epilogue, (*p.batch, *p.m, *p.n), last, weights)
    on_lanes = X.substitute(epilogue, {accumulator: X.load("accumulator", (last,), "f32")})
    s_along, l_along = (next((v for v in reversed(loops)), X.const(0)) for loops in (p.k, l_k))
    fill = s.args[2].value if s.op == "select" and s.args[2].op == "const" else 0
    return GpuContract(
        flat.store, p.address, p.batch, p.m, p.n, p.k, s, l, l_k, l_n, epilogue, accumulator, False, False,
        start is not None and has_lanes(on_lanes, flat.store, p.address, last),
        copied(s, s_along, tile, found.types[0]),
        COPIES[0] if is_packed(tile, found.l) else copied(l, l_along, tile, found.types[1]), tile,
        start, found.types, int(fill), is_cluster=is_cluster(tile, device), offer=offer,
    )  # fmt: skip


def in_tiles(tile: AnyTile) -> bool:
    """Is L stored tile by tile?"""
    return isinstance(tile, TensorTile) and (tile.whole or tile.two_of_four)


def is_packed(tile: AnyTile, l: Expr) -> bool:
    """Is L constant, and packed in the order of copies?"""
    return in_tiles(tile) or (isinstance(tile, Tile) and is_constant(l))


def copied(e: Expr, along: Expr, tile: AnyTile, kind: str = "") -> int:
    """The bytes of a factor that can be copied without conversion: 16, 8 or 4, or 0 for none.

    Without tensor cores these are dots of four bytes.
    """
    place = plain_load(e)
    if (isinstance(tile, Tile) and not kind) or place is None or along.op != "var":
        return 0
    kind = kind or (tile.element if tile.element in HALF else "f32")
    if place.value.dtype != kind:
        return 0
    if e.op == "select" and along in X.free_variables(e.args[0]):  # some elements of a piece may be there, others not
        return tile.bytes if isinstance(tile, TensorTile) and tile.bytes in COPIES else 0
    if isinstance(tile, Tile):
        return COPIES[-1] if is_aligned(place.args[0], along, tile.chunk) else 0
    for size in COPIES:
        if size == tile.bytes or is_aligned(place.args[0], along, size // tile.bytes):
            return size
    return 0


def pieces(s: Expr, k: Loops, columns: int, device: Device, kind: str = "") -> int:
    """The bytes of S of one copy (see ``copied``), for tiles of any size on tensor cores."""
    tile = next(offers(columns, 1, device, "s8" if kind else "", False))
    return copied(s, k[-1], tile, kind) if isinstance(tile, TensorTile) and k else COPIES[0]


def is_turned(e: Expr, k: Loops, rows: Loops) -> bool:
    """Are neighbors along rows neighbors in memory, those along k not?"""
    if not k or not rows:
        return False
    places = [load.args[0] for load in X.loads(e) if load.args and rows[-1] in X.free_variables(load)]
    along = [(coefficient(p, rows[-1]), coefficient(p, k[-1])) for p in places]
    return bool(along) and all(row == 1 and of_k != 1 for row, of_k in along)


def plain_load(e: Expr) -> Expr | None:
    """The load that ``e`` is, or selects instead of zero (of int8: instead of any number)."""
    other = e.args[2] if e.op == "select" else None
    if other is not None and other.op == "const" and (not other.value or e.dtype in BYTES) and not X.loads(e.args[0]):
        e = e.args[1]
    return e if e.op == "load" and isinstance(e.value, Buffer) else None


def _packed(
    l: Expr, batch: Loops, k: Loops, n: Loops, weights: Weights, kind: str, tile: AnyTile
) -> tuple[Expr, Loops, Loops]:
    """L as a load from [batch.., k, n], its rows padded with zeros to whole lanes.

    For tensor cores it is [batch.., n, k]; or, stored tile by tile, the first element of a tile, with loops over tiles.
    Of int8 in dots of four it is [batch.., k/4, n, 4].
    """
    outer = tuple(v for v in batch if v in X.free_variables(l))
    values = evaluate_over(l, (*outer, *k, *n)).astype(DTYPES[kind])
    size = values.itemsize if isinstance(tile, TensorTile) else 0
    if isinstance(tile, Tile) and tile.chunk > 1:
        return _in_dots(values, outer, k, n, weights, kind, tile.chunk)
    if isinstance(tile, TensorTile) and tile.element == "tf32" and (tile.whole or tile.by_group):
        values = as_tf32(values)  # others are rounded in registers
    if isinstance(tile, TensorTile) and in_tiles(tile):
        values = values.reshape(-1, prod(map(most, k)), prod(map(most, n))).transpose(0, 2, 1)
        tiles = packed(values[0], tile)[None] if tile.two_of_four else cut(values, tile)
        buffer = weights.add(tiles)
        row, column = X.fresh(tiles.shape[1]), X.fresh(tiles.shape[2])
        place = positions.linearize((*outer, row, column), (*map(most, outer), *tiles.shape[1:3]))
        load = X.load(buffer, (place * tile.l_room,), kind if kind in BYTES else "f32")
        return load, (column,), (row,)
    depth, columns = prod(map(most, k)), prod(map(most, n))
    values = values.reshape(-1, depth, columns)
    if size:
        values = values.transpose(0, 2, 1)
    lanes = 16 // size if size else LANES
    width = -(-values.shape[2] // lanes) * lanes
    padded = np.zeros((*values.shape[:2], width), values.dtype)
    padded[:, :, : values.shape[2]] = values
    buffer = weights.add(padded)
    row, column = X.fresh(values.shape[1]), X.fresh(width)
    place = positions.linearize((*outer, row, column), (*map(most, outer), values.shape[1], width))
    load = X.load(buffer, (place,), kind if kind in BYTES else "f32")
    return (load, (column,), (row,)) if size else (load, (row,), (column,))


def _in_dots(
    values: np.ndarray, outer: Loops, k: Loops, n: Loops, weights: Weights, kind: str, size: int
) -> tuple[Expr, Loops, Loops]:
    """int8 as [batch.., k/4, n, 4], padded with zeros at the end of k."""
    depth, columns = prod(map(most, k)), prod(map(most, n))
    values = values.reshape(-1, depth, columns)
    dots = -(-depth // size)
    padded = np.zeros((len(values), dots * size, columns), values.dtype)
    padded[:, :depth] = values
    buffer = weights.add(padded.reshape(-1, dots, size, columns).transpose(0, 1, 3, 2))
    row, column = X.fresh(dots * size), X.fresh(columns)
    place = positions.linearize((*outer, row // size, column, row % size), (*map(most, outer), dots, columns, size))
    return X.load(buffer, (place,), kind), (row,), (column,)


def as_tf32(values: np.ndarray) -> np.ndarray:
    """Finite floats rounded to what tensor cores take of them: 10 bits of mantissa."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(values), rounded.view(np.float32), values)


def cut(values: np.ndarray, tile: TensorTile) -> np.ndarray:
    """[batch, n, k] as [batch, tile of n, tile of k, ..]: tiles in the layout of shared memory.

    Ends are padded with zeros. The 16-byte chunk c of row r is at c ^ r % 8 (a swizzle), so that eight rows use
    different banks.
    """
    chunk = tile.chunk
    values = np.pad(values, ((0, 0), (0, -values.shape[1] % tile.n), (0, -values.shape[2] % tile.k)))
    batches, columns, depth = values.shape
    shape = (batches, columns // tile.n, tile.n, depth // tile.k, tile.k // chunk, chunk)
    tiles = values.reshape(shape).transpose(0, 1, 3, 2, 4, 5)
    rows, chunks = np.arange(tile.n)[:, None], np.arange(tile.k // chunk)
    return np.ascontiguousarray(tiles[:, :, :, rows, chunks ^ rows % 8])

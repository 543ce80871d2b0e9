"""The tiles on offer for a matrix product, chosen by predicted cycles: from the shape and the facts of the device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from edgec.device.device import Device, Precision
from edgec.ir.vector import HALF
from edgec.schedule.gpu.tile import AnyTile, TensorTile, Tile
from edgec.schedule.gpu.tile_cycles import cycles

#: Steps of k whose operands are in shared memory at once.
DEPTH = 16


#: (rows, columns, rows a thread, columns a thread) of the tiles on offer.
SHAPES = (
    (16, 32, 2, 4), (16, 64, 4, 4), (32, 32, 4, 4), (32, 64, 4, 4), (64, 32, 4, 4), (64, 64, 4, 4), (64, 64, 8, 4),
    (128, 32, 8, 4), (64, 128, 8, 8), (128, 64, 8, 8), (128, 128, 8, 8),
)  # fmt: skip


#: (rows, columns, warps along rows, along columns, slices, steps of 32 bytes a round) of the tiles on offer.
TENSOR_SHAPES = (
    (16, 32, 1, 1, 4, 4), (16, 32, 1, 1, 4, 8), (16, 64, 1, 2, 2, 4), (16, 64, 1, 2, 4, 8), (16, 128, 1, 4, 2, 4),
    (32, 32, 1, 1, 4, 4), (32, 32, 1, 1, 4, 8), (32, 64, 1, 2, 2, 4), (64, 32, 2, 1, 2, 4), (64, 64, 2, 2, 1, 4),
    (64, 64, 2, 2, 2, 4), (64, 128, 2, 2, 1, 4), (128, 64, 2, 2, 1, 4), (128, 128, 2, 4, 1, 4), (128, 256, 2, 4, 1, 4),
)  # fmt: skip
#: (rows, columns) of those of groups of four warps, and the bytes along k of a round.
GROUP_SHAPES = (
    (64, 32), (64, 64), (64, 128), (64, 192), (64, 256), (128, 64), (128, 128), (128, 192), (128, 256),
)  # fmt: skip
GROUP_ROW = 128
#: The most rounds whose operands are in shared memory or on their way there.
STAGES = 5
SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
#: Types of factors of floats on tensor cores.
Element = Literal["f32", "tf32", "f16", "bf16"]
_MULTIPLIED: dict[Precision, Element] = {"fp32": "f32", "tf32": "tf32", "fp16": "f16", "bf16": "bf16"}


def has_tensor_cores(device: Device) -> bool:
    """Does the device have tensor cores that the templates can use?"""
    return device.language == "cuda" and device.gpu.compute_capability >= 80 and device.gpu.tensor_cores


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
    operations: float = 0.0,
) -> AnyTile:
    """The tile and the split that are called ``name``, else those with the least predicted cycles."""
    found = tiles_for(batches, rows, columns, depth, device, element, constant, piece, operations)
    return next((tile for tile in found if tile.name == name), found[0])


def tiles_for(
    batches: int,
    rows: int,
    columns: int,
    depth: int,
    device: Device,
    element: str,
    constant: bool,
    piece: int = 16,
    operations: float = 0.0,
) -> list[AnyTile]:
    """All tiles and splits of a product, by predicted cycles; ``element`` "s8" is that of int8.

    A ``constant`` L may be stored tile by tile. ``piece`` adjacent bytes of S are one copy; 0 where its elements are
    computed. So many ``operations`` follow for each result.
    """
    found = [
        replace(offer, split=split)
        for offer in (
            *offers(columns, depth, device, element, constant),
            *group_offers(rows, columns, depth, device, element or multiplied(device), constant),
        )
        for split in SPLITS
        if split == 1 or depth // split >= 2 * offer.k
    ]
    return sorted(found, key=lambda tile: cycles(tile, batches, rows, columns, depth, device, piece, operations))


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


def group_offers(
    rows: int, columns: int, depth: int, device: Device, element: str, constant: bool
) -> Iterator[TensorTile]:
    """Tiles of groups of four warps that a product can be cut into, its sum in one part.

    Of TF32 L is constant: weights are rounded when they are packed, since what multiplies only drops bits.
    """
    if not device.has_warp_groups or not (element in (*HALF, "s8") or (element == "tf32" and constant)):
        return
    for m, n in GROUP_SHAPES:
        tile = TensorTile(m, n, 64, m // 16, 1, 1, 4, 1, element, by_group=True)
        tile = replace(tile, k=GROUP_ROW // tile.bytes)
        if rows <= m // 2 or columns <= n // 2 or (n < 64 and not constant):  # what is turned has rows of 64
            continue
        yield tile
        whole = replace(tile, whole=True)
        if constant and whole.takes(columns, depth):
            yield whole


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

"""Matrix products on tensor cores by weights of which two of each four along k are zero (2:4, semi-structured).

The instruction `mma.sp` takes its sparse factor as rows: columns of L are its rows, and the rows of S its columns, so
that a warp has the transposed result (`ec_transpose` turns it). L is stored tile by tile; of a tile, the 16 columns of
one instruction are behind one another as its lanes hold them: 16 bytes of elements a lane, then words of positions.
A position is two bits, those of the first element of a group of four below those of the second.

It is taken where the model says that it is so much faster as the device file asks (``two_of_four_gain`` of
``costs.tensor_tile``), or where a variant of that name was chosen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

import numpy as np

from edgec.device.device import Device
from edgec.ir import expr as X
from edgec.ir.nest import is_fixed, most
from edgec.schedule.contract.sparse import is_sparse
from edgec.schedule.flat import evaluate_over, is_constant
from edgec.schedule.gpu.kernel import FEW_ROWS
from edgec.schedule.gpu.product import Product
from edgec.schedule.gpu.tile import AnyTile, TensorTile
from edgec.schedule.gpu.tile_cycles import cycles
from edgec.schedule.gpu.tiles import SPLITS, has_tensor_cores, stages_of
from edgec.schedule.offer import SparseOffer

#: (rows, columns, warps along rows, along columns, slices, steps of 64 bytes of S a round) of the tiles on offer.
SPARSE_SHAPES = (
    (16, 32, 1, 1, 4, 4), (16, 64, 1, 2, 2, 2), (16, 64, 1, 2, 4, 4), (16, 128, 1, 4, 2, 2), (16, 128, 1, 4, 2, 4),
    (32, 32, 1, 1, 4, 4), (32, 64, 1, 2, 2, 2), (32, 64, 1, 2, 2, 4), (32, 128, 1, 4, 1, 4), (64, 32, 2, 1, 2, 2),
    (64, 64, 2, 2, 1, 1), (64, 64, 2, 2, 1, 2), (64, 64, 2, 2, 1, 4), (64, 64, 2, 2, 2, 4), (64, 128, 2, 2, 1, 2),
    (64, 128, 2, 2, 1, 4), (128, 64, 2, 2, 1, 2), (128, 128, 4, 2, 1, 2), (128, 128, 4, 2, 1, 4), (64, 256, 2, 4, 1, 2),
    (64, 256, 2, 4, 1, 4),
)  # fmt: skip
#: The width of the vectors that are kept or left out: single elements.
SINGLE = 1


def sparse_offers(columns: int, depth: int, device: Device, element: str) -> Iterator[TensorTile]:
    """The tiles of a product by weights that have two of each four along k, its sum in one part."""
    step = {"s8": 64, "f16": 32, "bf16": 32}.get(element, 0)
    for m, n, warps_m, warps_n, slices, steps in SPARSE_SHAPES if step and has_tensor_cores(device) else ():
        tile = TensorTile(m, n, steps * step, warps_m, warps_n, slices, 1, 1, element, two_of_four=True)
        tile = replace(tile, whole=device.gpu.compute_capability >= 90)
        tile = replace(tile, stages=stages_of(tile, device))
        if tile.shared_bytes <= device.largest_shared_bytes and tile.takes(columns, depth):
            yield tile


def sparse_tiles_for(
    batches: int, rows: int, columns: int, depth: int, device: Device, element: str, piece: int
) -> list[TensorTile]:
    """All tiles and splits for weights with two of each four, by predicted cycles; see `tiles_for`."""
    offered = sparse_offers(columns, depth, device, element)
    found = [replace(t, split=parts) for t in offered for parts in SPLITS if parts == 1 or depth // parts >= 2 * t.k]
    return sorted(found, key=lambda tile: cycles(tile, batches, rows, columns, depth, device, piece))


def has_two_of_four(p: Product, device: Device) -> bool:
    """Are at most two of each four weights along k not zero, in a product that tensor cores can take so?

    Not where each group of a convolution or each of a batch has weights of its own, nor with an open number of rows.
    """
    if not has_tensor_cores(device) or not is_constant(p.l) or not is_fixed(*p.m) or not p.k or not p.n:
        return False
    if X.free_variables(p.l) - {*p.n, *p.k} or prod(map(most, (*p.batch, *p.m))) <= FEW_ROWS:
        return False
    if not any(is_sparse(load.value.data) for load in X.loads(p.l)):
        return False  # told without evaluating all
    values = _values(p)
    return bool(values.any()) and bool((_groups(values != 0).sum(axis=1) <= 2).all())


def with_two_of_four(
    p: Product, dense: AnyTile, offer: SparseOffer | None, device: Device, piece: int, variant: str | None
) -> tuple[AnyTile, SparseOffer | None]:
    """(the tile to take, the comparison) of a product whose ``dense`` tile is given.

    Both are those given where weights do not have two of each four, or whole slices of them are left out already.
    """
    if not isinstance(dense, TensorTile) or (offer is not None and offer.taken) or not has_two_of_four(p, device):
        return dense, offer
    batches, rows, columns, depth = (prod(map(most, loops)) for loops in (p.batch, p.m, p.n, p.k))
    sizes = batches, rows, columns, depth
    found = sparse_tiles_for(*sizes, device, dense.element, piece)
    if not found:
        return dense, offer
    tile = next((t for t in found if t.name == variant), found[0])
    before, after = (cycles(t, *sizes, device, piece) for t in (dense, tile))
    is_asked = variant in (dense.name, tile.name)
    taken = variant == tile.name if is_asked else before >= after * device.costs.tensor_tile.two_of_four_gain
    values = _values(p)
    zeros = 1 - float(np.count_nonzero(values) / values.size)
    return (tile if taken else dense), SparseOffer(zeros, 0.5, SINGLE, before, after, 0.5, taken)


def is_two_of_four(offer: SparseOffer | None) -> bool:
    """Was a comparison made of weights with two of each four?"""
    return offer is not None and offer.width == SINGLE


def packed(values: np.ndarray, tile: TensorTile) -> np.ndarray:
    """Weights [columns, depth] as [tile of columns, tile of k, ..], in the elements of the tile.

    Ends are padded with zeros. Raises ValueError for weights with more than two of four along k.
    """
    values = np.pad(values, ((0, -values.shape[0] % tile.n), (0, -values.shape[1] % tile.k)))
    kept, places = _two_of_each_four(values)
    columns, stored = kept.shape
    step = 32 // tile.bytes  # elements of a column in one instruction
    # [.., upper eight columns or lower, column, half of the step, lane of four, a word of elements]
    parts = kept.reshape(columns // 16, 2, 8, stored // step, 2, 4, 4 // tile.bytes)
    words = parts.transpose(0, 3, 2, 5, 4, 1, 6)  # [16 columns, step, lane (two), register (two), element]
    elements = np.ascontiguousarray(words).view(np.uint8).reshape(columns // 16, stored // step, 512)
    codes = _codes(places, tile.bytes)
    together = np.concatenate([elements, codes], axis=-1)
    shape = (columns // tile.n, tile.n // 16, stored * 2 // tile.k, tile.steps, tile.step_bytes)
    whole = together.reshape(shape).transpose(0, 2, 1, 3, 4)
    return np.ascontiguousarray(whole).reshape(*whole.shape[:2], -1).view(values.dtype)


def _codes(places: np.ndarray, size: int) -> np.ndarray:
    """[16 columns, step, bytes] of positions [columns, stored elements] of elements of ``size`` bytes.

    A word has 16 of them: of bytes those of half a step of one column, lanes 4 g and 4 g + 1 those of columns g and
    g + 8, lanes 4 g + 2 and 4 g + 3 the other half; of halves those of both columns, lane 4 g the first half of a step
    and lane 4 g + 1 the second. Lanes that give none have no word.
    """
    columns, stored = places.shape
    half = 16 // size
    parts = places.reshape(columns // 16, 2, 8, stored // (2 * half), 2, half)
    codes = parts.transpose(0, 3, 2, 4, 1, 5).reshape(columns // 16, stored // (2 * half), -1, 16).astype(np.uint32)
    words = (codes << (2 * np.arange(16, dtype=np.uint32))).sum(axis=-1, dtype=np.uint32)
    return np.ascontiguousarray(words).view(np.uint8)


def _two_of_each_four(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """([columns, depth / 2] of elements, their positions in the group): those that are not zero, in order."""
    groups = values.reshape(len(values), -1, 4)
    there = groups != 0
    if (there.sum(axis=-1) > 2).any():
        raise ValueError("more than two of four weights are not zero")
    # What is not zero first; among the zeros the first, so that positions are distinct and in order.
    chosen = np.sort(np.argsort(~there, axis=-1, kind="stable")[..., :2], axis=-1)
    kept = np.take_along_axis(groups, chosen, axis=-1)
    return kept.reshape(len(values), -1), chosen.reshape(len(values), -1).astype(np.uint8)


def _values(p: Product) -> np.ndarray:
    """[k, n] of the weights."""
    return evaluate_over(p.l, (*p.k, *p.n)).reshape(prod(map(most, p.k)), -1)


def _groups(values: np.ndarray) -> np.ndarray:
    """[group, 4, n] of [k, n]."""
    return np.pad(values, ((0, -len(values) % 4), (0, 0))).reshape(-1, 4, values.shape[1])

"""Variants of a matmul on a GPU: the tiles of a thread block, or the register blocks of a work-item, by their names.

The schedulers price all that there are; those next to the cheapest are worth measuring on the device.
"""

from __future__ import annotations

from edgec.device.device import Device
from edgec.schedule.flat import is_constant
from edgec.schedule.gpu.contract import GpuContract, is_turned, pieces
from edgec.schedule.gpu.kernel import GpuKernel
from edgec.schedule.gpu.registers import GpuBlocked, GpuRegisters, block_name, tiles_of
from edgec.schedule.gpu.tile_cycles import cycles
from edgec.schedule.gpu.tiles import multiplied, tiles_for
from edgec.schedule.gpu.two_of_four import is_two_of_four, sparse_tiles_for

#: Tiles and blocks that are worth measuring, by the model of the device.
TILES = 6


def tile_cycles(params: GpuKernel, device: Device) -> dict[str, float]:
    """Predicted cycles of every tile of a thread block, the least first; of none where blocks lie in registers."""
    if not isinstance(params, GpuContract):
        return {}
    element, constant = "s8" * params.is_integer, is_constant(params.l)
    turns = not params.is_integer and is_turned(params.s, params.k, params.m)
    inner, kind = params.m if turns else params.k, params.types[0] if params.is_integer else ""
    piece = pieces(params.s, inner, params.columns, device, kind)
    sizes = (params.batches, params.rows, params.columns, params.depth)
    operations = params.operations
    found = tiles_for(*sizes, device, element, constant, piece, operations)
    if is_two_of_four(params.offer):
        kind = element or multiplied(device)
        found += sparse_tiles_for(*sizes, device, kind, piece)
    prices = {tile.name: cycles(tile, *sizes, device, piece, operations) for tile in found}
    return dict(sorted(prices.items(), key=lambda one: one[1]))


def proposed(params: GpuKernel, device: Device) -> list[str]:
    """The cheapest variants of the product of a record, by the model of the device."""
    if isinstance(params, GpuContract):
        names = list(tile_cycles(params, device))
        if is_two_of_four(params.offer):  # half of each form, as the price between them is the coarsest
            forms = [[n for n in names if ("2:4" in n.split()) is sparse][: TILES // 2] for sparse in (False, True)]
            return [*forms[0], *forms[1]]
        return names[:TILES]
    if isinstance(params, GpuBlocked):
        rows, fp16_sums, whole = params.batches * params.rows, False, False
        if isinstance(params, GpuRegisters):
            fp16_sums, whole = params.fp16_steps > 0, params.l.data is None
        blocks = tiles_of(rows, params.columns, params.lanes, whole, device, fp16_sums)
        return [block_name(*block) for block in blocks[:TILES]]
    return []

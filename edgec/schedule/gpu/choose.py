"""Which GPU schedule a block gets: the first that accepts it, from the most to the least specialized."""

from __future__ import annotations

from edgec.device.facts import Device
from edgec.fuse import Block
from edgec.schedule.flat import Flat, Weights
from edgec.schedule.gpu.contract import contract
from edgec.schedule.gpu.kernel import GpuKernel
from edgec.schedule.gpu.loops import map_, reduce


def choose(block: Block, flat: Flat, device: Device, weights: Weights) -> tuple[str, GpuKernel]:
    """The schedule's name and its record."""
    params: GpuKernel | None
    if block.kind == "contract":
        params = contract(flat, device, weights)
        if params is not None:
            return "contract", params
    if block.kind in ("window", "row", "contract"):
        params = reduce(flat, device)
        if params is not None:
            return "reduce", params
    return "map", map_(flat, weights)

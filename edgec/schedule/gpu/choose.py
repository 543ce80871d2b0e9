"""The choice of a block's GPU schedule: the first that accepts it, from the most to the least specialized."""

from __future__ import annotations

from dataclasses import replace

from edgec.device.device import Device
from edgec.fuse import Block
from edgec.schedule.flat import Flat, Weights
from edgec.schedule.gpu.attention import attention
from edgec.schedule.gpu.contract import contract
from edgec.schedule.gpu.dots import dots
from edgec.schedule.gpu.integer import exact_in_floats, of_floats
from edgec.schedule.gpu.kernel import FEW_ROWS, GpuKernel
from edgec.schedule.gpu.loops import map_, reduce
from edgec.schedule.gpu.product import product_of
from edgec.schedule.gpu.registers import registers
from edgec.schedule.gpu.window import window


def choose(block: Block, flat: Flat, device: Device, weights: Weights, variant: str | None = None) -> GpuKernel:
    """The record of the schedule; a product takes the ``variant`` of that name where there is one."""
    params: GpuKernel | None
    flat = replace(flat, body=of_floats(flat.body))
    if block.kind == "attention" and device.has_local_memory:
        params = attention(flat, device, weights)
        if params is not None:
            return params
    if block.kind == "contract" and not device.has_local_memory:
        product = product_of(flat)
        params = registers(product, device, weights, variant) if product is not None else None
        if params is not None:
            return params
    if block.kind == "contract" and device.language == "opencl":
        params = dots(flat, device, weights, variant)
        if params is not None:
            return params
    if block.kind == "contract":
        params = contract(flat, device, weights, variant)
        if params is not None and params.rows * params.batches > FEW_ROWS:
            return params
        if params is not None:  # a vector times a matrix: every weight is read once, and a tile would be mostly empty
            team = reduce(flat, device, weights)
            return team if team is not None and team.lanes else params
    flat = replace(flat, body=exact_in_floats(flat.body, weights))
    if block.kind in ("window", "contract") and not device.has_local_memory:
        params = window(flat, device, weights)
        if params is not None:
            return params
    if block.kind in ("window", "row", "contract"):
        params = reduce(flat, device, weights)
        if params is not None:
            return params
    return map_(flat, weights, device)

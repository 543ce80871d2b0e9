"""Weight prefetching: a matrix product asks for the weights of the next one while it multiplies.

Weights of a large network do not stay in the L2 cache from one run to the next, and small kernels between products
leave the memory idle. A prefetch changes no result, only when the weights arrive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from edgec.device.device import Device
from edgec.ir import expr as X
from edgec.schedule.flat import is_constant
from edgec.schedule.gpu.contract import GpuContract
from edgec.schedule.gpu.tiles import TensorTile
from edgec.schedule.program import Buffer, Kernel

#: A network whose weights take more than this part of the L2 cache reads them from memory in every run.
FULL = 0.5
#: The part of the L2 cache that prefetched weights may take at most.
SHARE = 0.25


def prefetch_weights(kernels: Sequence[Kernel], device: Device) -> list[Kernel]:
    """``kernels``, of which products prefetch the weights of the next one into the L2 cache, where that pays."""
    products = {k: buffer for k in kernels if (buffer := _weights(k)) is not None}
    total = sum(b.bytes for b in dict.fromkeys(products.values()))
    if device.language != "cuda" or device.gpu.compute_capability < 90 or total <= FULL * device.gpu.l2_bytes:
        return list(kernels)
    most = int(SHARE * device.gpu.l2_bytes) // 16 * 16
    then = {a: products[b] for a, b in pairwise(products)}
    return [_prefetching(k, then[k], most) if k in then and then[k] not in k.operands else k for k in kernels]


def _weights(kernel: Kernel) -> Buffer | None:
    """The weights of a product on tensor cores, or None where its second factor is not one constant buffer."""
    record = kernel.schedule
    if not isinstance(record, GpuContract) or not isinstance(record.tile, TensorTile) or not is_constant(record.l):
        return None
    buffers = [load.value for load in X.loads(record.l) if load.value.space == "weights"]
    return buffers[0] if len(buffers) == 1 else None


def _prefetching(kernel: Kernel, buffer: Buffer, most: int) -> Kernel:
    assert isinstance(kernel.schedule, GpuContract)
    record = replace(kernel.schedule, prefetch=buffer, prefetch_bytes=min(buffer.bytes // 16 * 16, most))
    return replace(kernel, schedule=record, operands=(*kernel.operands[:-1], buffer, kernel.operands[-1]))

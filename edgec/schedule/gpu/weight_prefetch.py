"""Prefetching into the L2 cache: a kernel asks for the weights of the next product, and for small constants of its own.

Weights of a large network do not stay in the L2 cache from one run to the next, and small kernels between products
leave the memory idle. A bias, or the scale of a normalization, is needed at the end of a kernel, which would then wait
for the memory. A prefetch changes no result, only when the weights arrive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from edgec.device.device import Device
from edgec.ir import expr as X
from edgec.schedule.flat import is_constant
from edgec.schedule.gpu.contract import GpuContract
from edgec.schedule.gpu.few_queries import GpuFewQueries
from edgec.schedule.gpu.loops import GpuMap, GpuReduce
from edgec.schedule.gpu.tile import TensorTile
from edgec.schedule.gpu.together import GpuTogether
from edgec.schedule.gpu.vector import GpuVector
from edgec.schedule.program import Buffer, Kernel, Schedule

#: A network whose weights take more than this part of the L2 cache reads them from memory in every run.
FULL = 0.5
#: The part of the L2 cache that prefetched weights may take at most.
SHARE = 0.25
#: Bytes that a product of one vector prefetches: it reads as fast as memory gives. On an H200 a token of 1.2 billion
#: weights in fp16 took 0.820 ms without, 0.750 with these, 0.769 with 3 MB and 0.823 with the share above.
VECTOR_BYTES = 1 << 18
#: The largest constant that a kernel asks for itself.
CONSTANT_BYTES = 1 << 16


def prefetch_weights(kernels: Sequence[Kernel], device: Device) -> list[Kernel]:
    """``kernels``, of which products on tensor cores prefetch the weights of the next one, where that pays."""
    return _prefetched(kernels, device, SHARE * device.gpu.l2_bytes, GpuContract)


def prefetch_vectors(kernels: Sequence[Kernel], device: Device) -> list[Kernel]:
    """The same for programs of one token: products of one vector prefetch, and attention between them."""
    return _prefetched(kernels, device, VECTOR_BYTES, GpuVector, GpuFewQueries)


def prefetch_constants(kernels: Sequence[Kernel], device: Device) -> list[Kernel]:
    """``kernels``, of which products on tensor cores, reductions and maps ask for small constants that they read."""
    weights = {b for k in kernels for b in k.operands if b.space == "weights"}
    full = sum(b.bytes for b in weights) > FULL * device.gpu.l2_bytes
    if device.language != "cuda" or device.gpu.compute_capability < 90 or not full:
        return list(kernels)
    return [_asking_early(k) for k in kernels]


def _asking_early(kernel: Kernel) -> Kernel:
    record = kernel.schedule
    if isinstance(record, GpuContract) and isinstance(record.tile, TensorTile):
        bodies = [record.epilogue, *([record.start] if record.start is not None else [])]
    elif isinstance(record, (GpuMap, GpuReduce)):
        bodies = record.bodies
    else:
        return kernel
    read = dict.fromkeys(load.value for body in bodies for load in X.loads(body) if isinstance(load.value, Buffer))
    early = tuple(b for b in read if b.space == "weights" and 16 <= b.bytes <= CONSTANT_BYTES)
    return replace(kernel, schedule=replace(record, early=early)) if early else kernel


def _prefetched(kernels: Sequence[Kernel], device: Device, most: float, *kinds: type[Schedule]) -> list[Kernel]:
    products = {k: found for k in kernels if (found := _weights(k.schedule, kinds))}
    total = sum(b.bytes for b in dict.fromkeys(b for found in products.values() for b in found))
    if device.language != "cuda" or device.gpu.compute_capability < 90 or total <= FULL * device.gpu.l2_bytes:
        return list(kernels)
    result: list[Kernel] = []
    following: tuple[Buffer, ...] = ()  # weights that the kernel before should ask for
    for kernel in reversed(kernels):
        asks = isinstance(kernel.schedule, kinds) and (kernel in products or not _is_product(kernel.schedule))
        if asks and following and not set(following) & set(kernel.operands):
            result.append(_asking(kernel, following, most))
        else:
            result.append(kernel)
        following = products.get(kernel, () if asks else following)
    return result[::-1]


def _is_product(record: Schedule) -> bool:
    return isinstance(record, (GpuContract, GpuVector, GpuTogether))


def _weights(record: Schedule, kinds: Sequence[type[Schedule]]) -> tuple[Buffer, ...]:
    """The constant buffers that a product of these kinds multiplies with; none where there is more than a product."""
    if isinstance(record, GpuTogether):
        return tuple(b for k in record.kernels for b in _weights(k.schedule, kinds))
    if not isinstance(record, tuple(kinds)):
        return ()
    if isinstance(record, GpuVector):
        return tuple(record.tables)
    if not isinstance(record, GpuContract) or not isinstance(record.tile, TensorTile) or not is_constant(record.l):
        return ()
    buffers = tuple(load.value for load in X.loads(record.l) if load.value.space == "weights")
    return buffers if len(buffers) == 1 else ()


def _asking(kernel: Kernel, buffers: Sequence[Buffer], most: float) -> Kernel:
    """The kernel, which asks for the same part of each buffer."""
    record = kernel.schedule
    assert isinstance(record, (GpuContract, GpuVector, GpuFewQueries))
    part = min(1.0, most / sum(b.bytes for b in buffers))
    wanted = tuple((b, int(b.bytes * part) // 16 * 16) for b in buffers)
    operands = (*kernel.operands[:-1], *buffers, kernel.operands[-1])
    return replace(kernel, schedule=replace(record, prefetch=wanted), operands=operands)

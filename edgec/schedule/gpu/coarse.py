"""Kernels whose results are stored in 16 bits or fewer: their error functions need not have 24.

That of the CUDA library takes some thirty instructions, more than a product of few steps takes for a result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from edgec.device.device import Device
from edgec.ir import expr as X
from edgec.ir.vector import HALF
from edgec.schedule.contract.int8_dot import BYTES
from edgec.schedule.gpu.kernel import GpuKernel
from edgec.schedule.program import Kernel


def with_coarse_functions(kernels: Sequence[Kernel], device: Device) -> list[Kernel]:
    """``kernels``, of which those with an error function and short results are coarse, in fp16 and bf16 on CUDA."""
    if device.language != "cuda" or device.precision not in ("fp16", "bf16"):
        return list(kernels)
    return [_coarse(k) if isinstance(k.schedule, GpuKernel) else k for k in kernels]


def _coarse(kernel: Kernel) -> Kernel:
    record = kernel.schedule
    assert isinstance(record, GpuKernel)
    is_short = record.store.dtype in (*HALF, *BYTES)
    if not is_short or not any(e.op == "erf" for body in record.bodies for e in X.walk(body)):
        return kernel
    return replace(kernel, schedule=replace(record, coarse=True))

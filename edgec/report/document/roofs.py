"""The roofs of a device by the type that a kernel multiplies, and that type of every kernel."""

from __future__ import annotations

from collections.abc import Iterable

from edgec.build import Built
from edgec.device.device import Device
from edgec.fuse import Block
from edgec.ir.graph import Node
from edgec.report.kernels import blocks_of
from edgec.report.record import Record
from edgec.rewrite.measure import OpCosts
from edgec.schedule.program import Kernel

#: Types as they are stored, and the arithmetic with them.
_ARITHMETIC = {"u8": "int8", "i8": "int8", "f16": "fp16", "bf16": "bf16", "f64": "fp64"}
#: Multiply-adds of int8 on tensor cores for one of fp16.
_INT8_OF_FP16 = 2


def computes(kernel: Kernel, device: Device) -> str:
    """The type whose roof a kernel stands under: of its products, else fp32, or int8 where it sees bytes alone."""
    for step in kernel.steps:
        if getattr(step.schedule, "dots", None) is not None:
            return "int8"
        if getattr(step.schedule, "fp16", None) is not None:
            return "fp16"
    blocks = blocks_of(kernel)
    factors = [_stored(a) for b in blocks for n in b.nodes if n.op in ("conv", "matmul") for a in n.args[:2]]
    if factors:
        types = {_ARITHMETIC.get(t, "fp32") for t in factors}
        found = types.pop() if len(types) == 1 else "fp32"
        is_half = device.is_gpu and device.precision in ("fp16", "bf16")
        return str(device.precision) if found == "fp32" and is_half else found
    return "int8" if _all_bytes(blocks) else "fp32"


def _stored(node: Node) -> str:
    """The type of a factor before it is widened for the product."""
    while node.op == "cast" and node.args:
        node = node.args[0]
    return str(node.type.dtype)


def _all_bytes(blocks: Iterable[Block]) -> bool:
    types = {n.type.dtype for b in blocks for n in (*b.nodes, *b.inputs)}
    return bool(types) and types <= {"u8", "i8"}


def roofline(built: Built) -> Record:
    """The roofs of one core (of a GPU, the whole): arithmetic a second by type, and bytes a second."""
    device, costs = built.options.device, built.options.device.costs.kernel
    measured, memory = device.figure("fp32_gflops"), device.figure("read_gbps")
    gpu = device.gpu
    if device.is_gpu and gpu.multiply_adds:
        peak = measured or 2e-3 * gpu.multiprocessors * gpu.multiply_adds * gpu.clock_mhz
        rate, is_measured, lanes = float(gpu.memory_gbps), False, 1
    else:
        peak, rate = measured or costs.clock_ghz * 4 * device.lanes(4), memory or costs.clock_ghz * costs.memory_bytes
        is_measured, lanes = measured is not None and memory is not None, device.lanes(4)
    kinds = dict.fromkeys(["fp32", *(computes(k, device) for k in built.program.kernels)])
    roofs = [{"computes": kind, "gflops": peak * _times(kind, device)} for kind in kinds]
    return {"gflops": peak, "roofs": roofs, "gbytes": rate, "is_measured": is_measured, "lanes": lanes}


def _times(kind: str, device: Device) -> float:
    """Operations of a type in the time of one in fp32."""
    gpu = device.gpu
    tensor = gpu.tensor_multiply_adds / gpu.multiply_adds if device.is_gpu and gpu.multiply_adds else 0.0
    if kind == "int8":
        if device.has_int8_tensor_cores and tensor:
            return _INT8_OF_FP16 * tensor
        return 1.0 if device.is_gpu and not device.has_dot4 else OpCosts.on(device).bytes
    if kind in ("fp16", "bf16"):
        pairs = device.has_fp16_fma if kind == "fp16" else device.has_bf16_dot
        return tensor or (2.0 if pairs else 1.0)
    return 0.5 if kind == "fp64" else 1.0

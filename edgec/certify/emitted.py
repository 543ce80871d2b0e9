"""The code that bounds are about: a build, and what of it has bounds."""

from __future__ import annotations

from collections.abc import Iterable

from edgec.certify.network import Network
from edgec.errors import ModelError
from edgec.fuse import Plan
from edgec.ir.types import FLOATS
from edgec.options import Options
from edgec.options.dispatch import require_one
from edgec.schedule.gpu.contract import GpuContract
from edgec.schedule.gpu.tile import TensorTile
from edgec.schedule.gpu.vector import GpuVector
from edgec.schedule.order import is_sum, orders_of
from edgec.schedule.program import Kernel, Program
from edgec.text import listed

#: Kernels that compute each element by its formula, with the terms of its sums in an order of their own.
_BY_FORMULA = frozenset(
    {"contract", "sparse", "row", "rows", "window", "sweep", "map", "transpose", "halo_fill", "chain", "procedure"}
)
#: Those in CUDA.
_ON_GPU = frozenset({"contract", "map", "reduce", "vector"})
#: The other kernels, what they do otherwise, and how to have none of them.
_OTHERS = {
    "winograd": ("multiplies in another domain, of which the rounding is not bounded", "build with --numeric exact"),
    "few_bits": ("rounds its operands to few bits", "build with --numeric exact, or from weights in fp32"),
    "attention": ("rescales its sums on the way", "build with --no-fuse"),
    "few_queries": ("rescales its sums on the way", "build with --no-fuse"),
}


def network_of(plan: Plan | None, program: Program, options: Options, any_order: bool = False) -> Network:
    """The network whose bounds hold for the code of a program, with its order of additions or with ``any_order``.

    Raises ModelError for kernels, types and devices whose rounding has no bound, in words.
    """
    if plan is None:
        raise ModelError("the build began after its plan, which bounds are made of", hint="certify the model itself")
    if options.device.is_gpu:
        raise ModelError("code for a GPU has no bounds", hint="bounds are those of the C for a CPU, or --bounds")
    require_formulas(plan, program, options)
    return Network(plan, {} if any_order else orders_of(program.kernels, program.views))


def sums_in_any_order(network: Network) -> tuple[str, ...]:
    """Names of the sums of floats whose order is not known."""
    nodes = [n for n in network.graph.nodes() if is_sum(n) and n not in network.orders]
    return tuple(dict.fromkeys((*network.graph.names(n), n.op)[0] for n in nodes))


def require_formulas(plan: Plan, program: Program, options: Options) -> None:
    """Raises ModelError for a program of which a kernel computes by another formula, or a type has no bounds."""
    if program.parts or options.gpu is not None:
        raise ModelError("code for several devices has no bounds", hint="leave out --gpu and --gpus")
    require_one(options.levels, "bounds hold")
    if options.device.precision != "fp32" or plan.bf16_layers:
        raise ModelError(
            "sums in fp16 and bf16, and products in TF32, have no bounds", hint="build with --precision fp32"
        )
    if program.states or program.training is not None:
        raise ModelError("a network with states has no bounds", hint="bounds are those of one run from its inputs")
    on_gpu = options.device.is_gpu
    for kernel in _all(program.kernels):
        if on_gpu:
            _require_formula_on_gpu(kernel)
            continue
        if kernel.template in _OTHERS:
            what, hint = _OTHERS[kernel.template]
            raise ModelError(
                f"kernel '{kernel.template}' {what}", hint=hint, where=listed(list(kernel.names[:3])) or None
            )
        if kernel.template not in _BY_FORMULA or _is_narrow(kernel):
            raise ModelError(f"kernel '{kernel.template}' has no bounds: {kernel.describe}")


def _require_formula_on_gpu(kernel: Kernel) -> None:
    """Raises ModelError for a kernel in CUDA that does not compute its formula in fp32, with sums in any order."""
    schedule, where = kernel.schedule, listed(list(kernel.names[:3])) or None
    if kernel.template in _ON_GPU:
        if isinstance(schedule, GpuContract) and (isinstance(schedule.tile, TensorTile) or schedule.is_integer):
            raise ModelError("products on tensor cores have no bounds", hint="build with --bounds", where=where)
        if not isinstance(schedule, GpuVector) or schedule.kind == "f32":
            return
        raise ModelError("weights of few bits have no bounds", hint="build from weights in fp32", where=where)
    if kernel.template in _OTHERS:
        what, hint = _OTHERS[kernel.template]
        raise ModelError(f"kernel '{kernel.template}' {what}", hint=hint, where=where)
    raise ModelError(f"kernel '{kernel.template}' has no bounds: {kernel.describe}", where=where)


def _all(kernels: Iterable[Kernel]) -> Iterable[Kernel]:
    for kernel in kernels:
        yield from kernel.steps if kernel.steps != (kernel,) else (kernel,)


def _is_narrow(kernel: Kernel) -> bool:
    """Does a sum of floats run on an instruction that multiplies narrower numbers?"""
    micro = getattr(kernel.schedule, "micro", None)
    block = kernel.block
    if kernel.schedule.uses_tiles:
        return True
    if micro is None or block is None or block.output.type.dtype not in FLOATS:
        return False
    return "fp32" not in micro.factors and "int8" not in micro.factors

"""A build with bounds: the program that computes them, over the weights of the network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from edgec.certify.emitted import require_formulas
from edgec.certify.network import refuse_kinds
from edgec.certify.pair_rules import ULPS
from edgec.certify.pairs_of import enclosed
from edgec.emit.language import language_of
from edgec.errors import UsageError
from edgec.fuse import Plan
from edgec.ir.graph import Graph
from edgec.options import Options
from edgec.schedule.contract.contract import Contract
from edgec.schedule.program import Kernel, Program
from edgec.schedule.sharing import sharing

#: A graph as a program, with register tiles (rows, vectors) of products by the names of their nodes.
Make = Callable[[Graph, Mapping[str, tuple[int, int]]], Program]


def for_bounds(options: Options) -> Options:
    """The options with a device whose sums have bounds: tensor cores of GPUs take products apart, so none are used."""
    device = options.device
    if not device.is_gpu:
        return options
    return replace(options, device=replace(device, gpu=replace(device.gpu, tensor_cores=False)))


def with_bounds(program: Program, plan: Plan, options: Options, make: Make) -> Program:
    """The program with the one of its bounds. Raises ModelError for what has no bounds, UsageError for a device."""
    if not language_of(options.device).bounds:
        hint = "build for a processor: edgec device list"
        raise UsageError(f"bounds are not written in {options.device.language} yet", hint=hint, where="--bounds")
    require_formulas(plan, program, options)
    refuse_kinds(plan)
    found = make(enclosed(plan, ULPS[options.device.language]), _tiles(program.kernels))
    program, bounds = sharing(program, found)
    return replace(program, bounds=bounds)


def _tiles(kernels: Iterable[Kernel]) -> dict[str, tuple[int, int]]:
    """The tiles of products with packed weights, of two rows at least: panels of one width are the same weights."""
    found = {}
    for kernel in kernels:
        for step in kernel.steps:
            s = step.schedule
            if isinstance(s, Contract) and s.l_mode == "packed" and not s.window:
                found.update(dict.fromkeys(step.names, (max(2, s.rows), s.vectors)))
    return found

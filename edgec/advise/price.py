"""Predicted time of a program, comparable between types of numbers and shares of zeros.

The planner's price of a block (`edgec.fuse.cost_model`) compares plans of one network. Here the arithmetic of products
counts less where they are of bytes, of 16 bits, or leave zeros out.
"""

from __future__ import annotations

import numpy as np

from edgec.device.device import Device
from edgec.fuse import Block
from edgec.fuse.cost_model import CostModel
from edgec.report.kernels import blocks_of
from edgec.report.launches import predicted as predicted_launch
from edgec.rewrite.measure import OpCosts
from edgec.schedule.program import Kernel, Program


def predicted_ms(program: Program, device: Device, threads: int = 1) -> float | None:
    """Milliseconds of a run; None for a program of two devices."""
    if program.parts:
        return None
    return 1e3 * sum(seconds_of(kernel, device, threads) for kernel in program.kernels)


def seconds_of(kernel: Kernel, device: Device, threads: int = 1) -> float:
    """Seconds of one kernel on so many threads of a processor, or on a GPU."""
    if device.is_gpu:
        return predicted_launch(kernel, device)
    model, total = CostModel(device, threads), 0.0
    skips_zeros = any("sparse" in step.template for step in kernel.steps)
    for block in blocks_of(kernel):
        arithmetic, transfers = model.limits(block)
        if block.kind == "contract":
            density = _density(block) if skips_zeros else 1.0
            arithmetic, transfers = arithmetic * density / _factor(block, device), transfers
        total += device.costs.kernel.launch_s + max(arithmetic, transfers)
    return total


def _factor(block: Block, device: Device) -> float:
    """Products that a vector does where it does one of fp32."""
    types = {n.type.dtype for n in block.inputs if n.type.rank > 1}
    if types and types <= {"i8", "u8"}:
        return float(OpCosts.on(device).bytes)
    has_halves = (device.precision == "bf16" and device.has_bf16_dot) or device.has_fp16_fma
    return 2.0 if has_halves else 1.0


def _density(block: Block) -> float:
    """The share of weights that are not zero."""
    weights = [n for n in block.inputs if n.is_const and n.type.rank > 1]
    total = sum(n.type.elements for n in weights)
    return sum(int(np.count_nonzero(n.value)) for n in weights) / total if total else 1.0

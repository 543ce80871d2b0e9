"""Weights that a product asks for before the next one needs them, and constants that a kernel asks for itself."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from small_graphs import graph, layernorm, value, weights

from edgec import ops
from edgec.device.device import Device
from edgec.device.load import load_device
from edgec.emit.project import files
from edgec.fuse import plan
from edgec.ir.graph import Graph
from edgec.schedule.build import schedule
from edgec.schedule.options import ScheduleOptions
from edgec.schedule.program import Kernel

LAYERS = (256, 512, 128, 64)


def chain() -> Graph:
    """Products of one after the other, their weights 512, 256 and 32 KiB in floats."""
    x = value("x", 128, LAYERS[0])
    for depth, columns in pairwise(LAYERS):
        x = ops.node("sigmoid", ops.node("matmul", x, weights(depth, columns)))
    return graph(x)


def with_cache(device: Device, size: int) -> Device:
    return replace(device, gpu=replace(device.gpu, l2_bytes=size))


def products(device: Device) -> list[Kernel]:
    return [
        k
        for k in schedule(plan(chain(), gpu=True), device, ScheduleOptions(fp32_blocks=0)).kernels
        if k.template == "contract"
    ]


def test_a_product_asks_for_a_share_of_what_the_next_one_multiplies_with() -> None:
    kernels = products(with_cache(load_device("cuda_sm90"), 1 << 19))
    sizes = [4 * depth * columns for depth, columns in pairwise(LAYERS)]
    assert [k.weights_bytes for k in kernels] == sizes
    assert [[size for _, size in k.schedule.prefetch] for k in kernels] == [[(1 << 19) // 4], [sizes[2]], []]
    for kernel, following in pairwise(kernels):
        ((buffer, _),) = kernel.schedule.prefetch
        assert buffer in following.reads and buffer in kernel.reads


def test_nothing_is_asked_for_where_weights_stay_or_nobody_can_ask() -> None:
    orin = with_cache(load_device("jetson"), 1 << 19)
    for device in (load_device("cuda_sm90"), orin):
        assert all(not k.schedule.prefetch for k in products(device))


def biased(columns: int) -> Graph:
    """A product with a bias, and a normalization by rows with a scale."""
    x = ops.node("add", ops.node("matmul", value("x", 128, 256), weights(256, columns)), weights(columns))
    return graph(ops.node("mul", layernorm(x, 1), weights(columns)))


@pytest.mark.parametrize("columns, asked", [(512, {"contract"}), (9216, {"contract", "reduce"})])
def test_kernels_ask_for_their_small_constants_before_they_wait(columns: int, asked: set[str]) -> None:
    """Those of short rows are in registers by then."""
    device = with_cache(load_device("cuda_sm90"), 1 << 19)
    program = schedule(plan(biased(columns), gpu=True), device, ScheduleOptions(fp32_blocks=0))
    early = {k.template: {b.bytes for b in k.schedule.early} for k in program.kernels}
    assert early == {"contract": {4 * columns}, "reduce": {4 * columns}}
    written = files(program, device, "net")
    text = "".join(c.decode() for path, c in written.items() if "_kernels_" in path and path.endswith(".cu"))
    kernels = {k.template: text.split(f"net_{n}_{k.template}", 1)[1] for n, k in enumerate(program.kernels)}
    for template, kernel in kernels.items():
        assert ("ec_prefetch(" in kernel[kernel.index("(", 1) : kernel.index("ec_wait()")]) == (template in asked)


def test_constants_that_stay_in_the_cache_are_not_asked_for() -> None:
    for device in (load_device("cuda_sm90"), with_cache(load_device("jetson"), 1 << 19)):
        kernels = schedule(plan(biased(512), gpu=True), device, ScheduleOptions(fp32_blocks=0)).kernels
        assert not any(k.schedule.early for k in kernels)

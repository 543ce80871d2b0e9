"""Weights that a product asks for before the next one needs them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from small_graphs import graph, value, weights

from edgec import ops
from edgec.device.device import Device
from edgec.device.load import load_device
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

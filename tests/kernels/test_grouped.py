"""When convolutions of groups have lanes along the channels of several groups; that they are right: `test_kernels`."""

from __future__ import annotations

import pytest
from compiled import program_of
from kernel_cases import cases
from small_graphs import conv, graph, pad, relu, value, weights

from edgec.device.load import load_device
from edgec.ir.graph import Graph
from edgec.schedule.window import Window

CASES = cases()["grouped"]


def groups(network: Graph, device: str) -> set[int]:
    """The sizes of groups that windows spread over lanes."""
    kernels = program_of(network, load_device(device)).kernels
    return {k.schedule.group for k in kernels if isinstance(k.schedule, Window)} - {1}


@pytest.mark.parametrize(
    ("device", "spread"), [("x86_64_avx512", {2, 4, 8}), ("x86_64_avx2", {2, 4}), ("cortex_a55", {2})]
)
def test_groups_that_fill_lanes_are_contractions(device: str, spread: set[int]) -> None:
    """Of 16, 8 and 4 lanes."""
    assert set().union(*(groups(CASES[name], device) for name in CASES)) == spread


def test_of_one_group_and_of_channels_that_lie_apart() -> None:
    assert not groups(CASES["1 of 4"], "x86_64_avx512")
    apart = graph(relu(conv(pad(value("x", 1, 8, 6, 6), 1, 1), weights(8, 1, 3, 3), groups=8)))
    assert not groups(apart, "x86_64_avx512"), "depthwise: a channel of its own each"

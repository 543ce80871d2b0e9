"""When convolutions of groups have lanes along the channels of several groups; that they are right: `test_kernels`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from chance import RANDOM
from compiled import compile_graphs, program_of
from kernel_cases import cases
from small_graphs import conv, graph, pad, relu, value, weights

from edgec import ops
from edgec.device.load import load_device
from edgec.ir.evaluate import run
from edgec.ir.graph import Graph, Node
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


def in_halves(dtype: str) -> Graph:
    """A convolution in groups of a file in 16 bits, between two others; sums are fp32."""

    def rounded(x: Node) -> Node:
        return ops.node("cast", ops.node("cast", x, to=dtype), to="f32")

    inside = rounded(conv(value("x", 1, 5, 6, 9), rounded(weights(20, 5, 1, 1))))
    inside = rounded(relu(conv(pad(inside, 1, 1), rounded(weights(20, 4, 3, 3)), groups=5)))
    return graph(conv(inside, rounded(weights(6, 20, 1, 1))))


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_groups_of_halves(dtype: str, tmp_path: Path) -> None:
    """Widened when they are loaded, rounded when they are stored: sums may round otherwise."""
    network = in_halves(dtype)
    assert groups(network, "x86_64_avx512") == {4}
    given = {"x": RANDOM.standard_normal((1, 5, 6, 9)).astype(np.float32)}
    found = compile_graphs({"halves": network}, tmp_path)["halves"](given)["y0"]
    expected = run(network, given)["y0"]
    step = 2.0 ** -(10 if dtype == "f16" else 7)
    assert np.abs(found - expected).max() <= 0.1 * step * np.abs(expected).max()

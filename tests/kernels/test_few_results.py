"""Products of few results that read channels side by side: lanes run along the sum, several results at once."""

from __future__ import annotations

from math import prod

import pytest
from compiled import program_of
from kernel_cases import cases
from small_graphs import conv, graph, pad, relu, value, weights

from edgec import ops
from edgec.device.load import load_device
from edgec.ir.graph import Graph
from edgec.schedule.program import Kernel
from edgec.schedule.rows import Rows

CASES = cases()["few"]


def last_of(network: Graph, device: str) -> Kernel:
    return program_of(network, load_device(device)).kernels[-1]


@pytest.mark.parametrize("name", CASES)
def test_lanes_run_along_the_sum(name: str) -> None:
    schedule = last_of(CASES[name], "x86_64_avx2").schedule
    assert isinstance(schedule, Rows)
    assert schedule.tile, "results share what they load"


@pytest.mark.parametrize(("results", "is_by_rows"), [(1, True), (3, True), (5, True), (16, False)])
def test_many_results_fill_lanes(results: int, is_by_rows: bool) -> None:
    """Of 16 lanes: vectors of terms are full where those of results are not."""
    inside = pad(relu(conv(value("x", 1, 3, 12, 40), weights(32, 3, 1, 1))), 1, 1)
    last = last_of(graph(conv(inside, weights(results, 32, 3, 3))), "x86_64_avx512")
    assert (last.template == "rows") == is_by_rows


@pytest.mark.parametrize(("terms", "are_shared"), [(400_000, True), (400, False)], ids=["long", "short"])
def test_long_sums_are_in_several_tiles(terms: int, are_shared: bool) -> None:
    """Six results are one tile for one thread, where they take hardly longer than a barrier, and else several."""
    distance = ops.node("abs", ops.node("sub", value("x", 6, terms), value("y", 6, terms)))
    total = graph(ops.node("reduce", ops.node("abs", ops.node("neg", distance)), combine="add", axes=(1,)))
    schedule = last_of(total, "x86_64_avx512").schedule
    assert isinstance(schedule, Rows)
    assert (prod(count for _, count in schedule.tile) < 6) == are_shared


def test_channels_share_pixels_and_pixels_weights() -> None:
    inside = pad(relu(conv(value("x", 1, 3, 12, 40), weights(64, 3, 1, 1))), 1, 1)
    schedule = last_of(graph(conv(inside, weights(3, 64, 3, 3))), "x86_64_avx512").schedule
    assert isinstance(schedule, Rows)
    assert sorted(count for _, count in schedule.tile) == [3, 8]
    assert schedule.on_lanes, "results along a row are neighbors in memory"

"""Attention inside the windows of a picture: queries and keys are over rows and columns, with factors and a bias."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from emulated import Emulated, emulate
from small_graphs import arrays, graph, number, softmax, transpose, value, weights
from test_cuda_kernels import TOLERANCE, difference

from edgec import ops
from edgec.device.load import load_device
from edgec.fuse import plan
from edgec.ir import evaluate
from edgec.ir.graph import Graph
from edgec.schedule.gpu.attention import GpuAttention, largest_head
from edgec.schedule.program import Program

HEADS, SIZE = 2, 16


def windows(rows: int, columns: int, masks: bool, of_key: bool = False) -> Graph:
    """Six windows of a picture with queries, keys and values side by side, as they come from one product."""
    across, area, width = 3, rows * columns, HEADS * SIZE
    product = ops.node("matmul", value("x", 2, rows, across, columns, 24), weights(24, 3 * width, scale=0.2))
    qkv = transpose(product, 0, 2, 1, 3, 4)
    qkv = ops.node("reshape", qkv, shape=(2 * across, area, 3, HEADS, SIZE))
    one = (2 * across, area, 1, HEADS, SIZE)
    parts = [ops.node("slice", qkv, starts=(0, 0, part, 0, 0), steps=(1,) * 5, shape=one) for part in range(3)]
    q, k, v = (transpose(ops.node("reshape", p, shape=(2 * across, area, HEADS, SIZE)), 0, 2, 1, 3) for p in parts)
    q = ops.node("mul", q, number(0.3))
    if of_key:
        k, v = ops.node("mul", k, number(0.9)), ops.node("mul", v, number(1.7))
    bias = weights(1, HEADS, area, area)
    if masks:
        bias = ops.node("add", bias, weights(2 * across, 1, area, area, scale=3.0))
    scores = ops.node("add", ops.node("matmul", q, transpose(k, 0, 1, 3, 2)), bias)
    mixed = ops.node("matmul", softmax(scores, 3), v)
    return graph(ops.node("reshape", transpose(mixed, 0, 2, 1, 3), shape=(2 * across, rows, columns, width)))


def _kernels(program: Program) -> list[object]:
    return [k.schedule for k in program.kernels]


@pytest.mark.parametrize(
    ("precision", "rows", "columns", "masks", "of_key"),
    [
        ("fp32", 7, 7, True, False),
        ("fp16", 7, 7, True, False),
        ("fp16", 5, 8, False, True),
        ("fp32", 8, 9, False, True),
    ],
)
def test_a_window_is_one_block_of_queries(
    precision: str, rows: int, columns: int, masks: bool, of_key: bool, tmp_path: Path
) -> None:
    g = windows(rows, columns, masks, of_key)
    device = replace(load_device("cuda_sm90"), precision=precision)
    network = emulate({"net": g}, tmp_path, device)["net"]
    assert isinstance(network, Emulated)
    *before, found = _kernels(network.program)
    assert len(before) == 1 + of_key and isinstance(found, GpuAttention)
    area = rows * columns
    assert f"{6 * HEADS} x {area} queries, {area} keys of {SIZE}" in found.describe
    assert found.tile.queries < area + 64
    given = arrays(g, 1)
    want = evaluate.run(g, given)
    for output, got in network(given).items():
        assert difference(got, want[output], TOLERANCE[precision]) is None, output


def test_a_factor_that_others_read_stays() -> None:
    """The scaled queries are a result too: they are computed before attention."""
    x, k, v = value("q", 1, 64, 16), value("k", 1, 64, 16), value("v", 1, 64, 16)
    q = ops.node("mul", x, number(0.25))
    mixed = ops.node("matmul", softmax(ops.node("matmul", q, transpose(k, 0, 2, 1)), 2), v)
    device = load_device("cuda_sm90")
    shared = plan(graph(mixed, q), gpu=True, head=largest_head(device))
    alone = plan(graph(mixed), gpu=True, head=largest_head(device))
    assert [len(p.blocks) for p in (alone, shared)] == [1, 2]

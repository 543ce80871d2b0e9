"""Attention with a mask in blocks: a block of queries computes the tiles of keys that it sees anything of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from attention_cases import attention
from chance import RANDOM
from emulated import Emulated, emulate
from small_graphs import arrays, graph, value
from test_cuda_kernels import TOLERANCE, difference

from edgec.device.device import Device
from edgec.device.load import load_device
from edgec.fuse import plan
from edgec.ir import evaluate
from edgec.ir.graph import Graph, constant
from edgec.ir.nest import most
from edgec.schedule.build import schedule
from edgec.schedule.flat import evaluate_over
from edgec.schedule.gpu.attention import GpuAttention, largest_head
from edgec.schedule.options import ScheduleOptions

QUERIES, KEYS, BLOCK = 500, 580, 50


def in_blocks(share: float) -> np.ndarray:
    """[queries, keys] of truth: some blocks with holes, among them the first keys, and one key of each query."""
    blocks = RANDOM.random((-(-QUERIES // BLOCK), -(-KEYS // BLOCK))) < share
    blocks[:, 0] = True
    sees = blocks.repeat(BLOCK, 0).repeat(BLOCK, 1)[:QUERIES, :KEYS] & (RANDOM.random((QUERIES, KEYS)) < 0.9)
    sees[np.arange(QUERIES), np.arange(QUERIES)] = True
    return sees


def attended(mask: np.ndarray) -> Graph:
    shapes = ("q", QUERIES, 16), ("k", KEYS, 16), ("v", KEYS, 16)
    q, k, v = (value(name, 2, rows, columns) for name, rows, columns in shapes)
    return graph(attention(q, k, v, constant(mask)))


def added(sees: np.ndarray) -> np.ndarray:
    return np.where(sees, 0, -np.inf).astype(np.float32)


def scheduled(g: Graph, device: Device) -> GpuAttention:
    planned = plan(g, gpu=True, head=largest_head(device))
    (found,) = (k.schedule for k in schedule(planned, device, ScheduleOptions(fp32_blocks=0)).kernels)
    assert isinstance(found, GpuAttention)
    return found


@pytest.mark.parametrize(("precision", "is_added"), [("fp32", False), ("fp16", True)])
def test_listed_tiles_are_all_that_is_seen(precision: str, is_added: bool, tmp_path: Path) -> None:
    device = replace(load_device("jetson"), precision=precision)
    sees = in_blocks(0.1)
    g = attended(added(sees) if is_added else sees)
    network = emulate({"blocks": g}, tmp_path, device)["blocks"]
    assert isinstance(network, Emulated)
    (found,) = (k.schedule for k in network.program.kernels)
    assert isinstance(found, GpuAttention) and found.listed is not None
    given = arrays(g, 1)
    want = evaluate.run(g, given)
    for output, got in network(given).items():
        assert difference(got, want[output], TOLERANCE[precision]) is None, output


def test_a_list_has_each_tile_once_and_in_order() -> None:
    device = load_device("jetson")
    sees = in_blocks(0.1)
    found = scheduled(attended(added(sees)), device)
    assert found.listed is not None and found.seen is not None
    queries, keys = found.tile.queries, found.tile.keys
    first, end = (evaluate_over(e, (found.m,))[::queries] for e in found.seen)
    tiles = evaluate_over(found.listed[1], (found.listed[0],))
    for block, (begin, behind) in enumerate(zip(first, end)):
        mine = sees[block * queries : (block + 1) * queries]
        want = [n for n in range(-(-KEYS // keys)) if mine[:, n * keys : (n + 1) * keys].any()]
        assert tiles[begin:behind].tolist() == want
    assert end[-1] == most(found.listed[0]) and f"{end[-1]} of " in found.describe


def test_nothing_is_listed_where_neighbors_are_seen() -> None:
    device = load_device("jetson")
    m, n = np.mgrid[:QUERIES, :KEYS]
    for sees in (n <= m, abs(m - n) < 60, in_blocks(0.99)):
        assert scheduled(attended(added(sees)), device).listed is None
    for other in (load_device("opencl_h200"), replace(device, gpu=replace(device.gpu, compute_capability=75))):
        assert scheduled(attended(added(in_blocks(0.1))), other).listed is None

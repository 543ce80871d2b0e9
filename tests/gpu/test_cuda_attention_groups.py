"""Attention by groups of four warps, in emulation: sizes around tiles, heads of both widths, masks, slices of keys."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from attention_cases import attention
from emulated import Emulated, emulate
from small_graphs import arrays, graph, value
from test_cuda_kernels import TOLERANCE, difference

from edgec.device.device import Device
from edgec.device.load import load_device
from edgec.ir import evaluate
from edgec.ir.graph import Graph, constant
from edgec.schedule.gpu import attention as scheduled
from edgec.schedule.gpu.attention import GpuAttention, tile_for


def _device(multiprocessors: int, precision: str) -> Device:
    device = load_device("cuda_sm90")
    return replace(device, precision=precision, gpu=replace(device.gpu, multiprocessors=multiprocessors))


def _attended(queries: int, keys: int, features: int, width: int, mask: str) -> Graph:
    shapes = ("q", queries, features), ("k", keys, features), ("v", keys, width)
    q, k, v = (value(name, 1, rows, columns) for name, rows, columns in shapes)
    m, n = np.mgrid[:queries, :keys]
    own = m + keys - queries
    causal, blocks = n <= own, (n // 50 % 3 == m // 50 % 3) | (n == 0)
    sees = {"causal": causal, "window": causal & (n > own - 130), "blocks": blocks}.get(mask)
    added = None if sees is None else constant(np.where(sees, 0, -np.inf).astype(np.float32))
    return graph(attention(q, k, v, added))


@pytest.mark.parametrize(
    ("precision", "queries", "keys", "features", "width", "mask", "multiprocessors", "tile"),
    [
        ("fp16", 130, 129, 64, 64, "", 1, (64, 1)),
        ("fp16", 130, 200, 64, 48, "", 2, (128, 2)),
        ("bf16", 65, 200, 48, 64, "causal", 2, (128, 2)),
        ("fp16", 130, 300, 64, 64, "window", 1, (128, 2)),
        ("fp16", 70, 130, 128, 96, "", 2, (128, 2)),
        ("fp16", 129, 190, 64, 128, "blocks", 1, (64, 1)),
    ],
)
def test_groups_attend_as_the_reference(
    precision: str, queries: int, keys: int, features: int, width: int, mask: str,
    multiprocessors: int, tile: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(scheduled, "GROUP_KEYS", 1)
    g = _attended(queries, keys, features, width, mask)
    network = emulate({"net": g}, tmp_path, _device(multiprocessors, precision))["net"]
    assert isinstance(network, Emulated)
    (found,) = (k.schedule for k in network.program.kernels)
    assert isinstance(found, GpuAttention) and found.tile.by_group and (found.tile.keys, found.tile.slices) == tile
    assert (found.seen is not None) == bool(mask)
    given = arrays(g, 1)
    want = evaluate.run(g, given)
    for output, got in network(given).items():
        assert difference(got, want[output], TOLERANCE["fp16"] * (8 if precision == "bf16" else 1)) is None, output


@pytest.mark.parametrize("device", ["cuda_sm90", "jetson"])
def test_padding_by_large_finite_scores(device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tile of keys, and whole rows, that are masked by a large finite number, which no unit may round away."""
    if device == "jetson":
        monkeypatch.delenv("EDGEC_TEST_GPU", raising=False)  # its code runs on no other GPU: in emulation everywhere
    monkeypatch.setattr(scheduled, "GROUP_KEYS", 1)
    large = np.array([-1e4, -3e8, -1e9, -3e38, np.finfo(np.float32).min, 3e8])
    masks = [np.where(np.arange(160) < end, number, 0) for number in large for end in (70, 160)]
    q, k, v = (value(name, 1, rows, 64) for name, rows in (("q", 72), ("k", 160), ("v", 160)))
    g = graph(attention(q, k, v, value("mask", 1, 72, 160)))
    chosen = replace(load_device(device), precision="fp16")
    network = emulate({"net": g}, tmp_path, chosen)["net"]
    assert isinstance(network, Emulated)
    (found,) = (k.schedule for k in network.program.kernels)
    assert isinstance(found, GpuAttention) and found.tile.high and found.tile.by_group == (device == "cuda_sm90")
    given = arrays(g, 1) | {"mask": np.tile(np.array(masks, np.float32), (6, 1))[None]}
    want = evaluate.run(g, given)
    for output, got in network(given).items():
        assert difference(got, want[output], TOLERANCE["fp16"]) is None, output


def test_groups_take_long_attention_in_halves_alone() -> None:
    long = 16, 1024, 1024, 64, 64

    def by_group(*sizes: int, device: Device) -> bool:
        tile = tile_for(*sizes, device)
        return tile is not None and tile.by_group

    assert by_group(*long, device=_device(132, "fp16"))
    assert not by_group(*long, device=_device(132, "tf32"))
    assert not by_group(16, 1024, 128, 64, 64, device=_device(132, "fp16"))
    assert not by_group(16, 1024, 1024, 32, 32, device=_device(132, "fp16"))
    older = _device(132, "fp16")
    assert not by_group(*long, device=replace(older, gpu=replace(older.gpu, compute_capability=87)))

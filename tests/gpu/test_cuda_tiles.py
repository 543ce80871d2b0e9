"""Tiles of tensor cores that the sizes of other tests would not ask for: L in memory tile by tile."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from emulated import Emulated, emulate
from small_graphs import arrays, doubled, graph, value, weights
from test_cuda_kernels import SEED, TOLERANCE, difference

from edgec import ops
from edgec.device.load import load_device
from edgec.ir import evaluate
from edgec.ir.graph import Graph, constant
from edgec.schedule.gpu import contract
from edgec.schedule.gpu.tile import TensorTile

#: (rows, columns, warps along both, slices, steps of 32 bytes a round, stages, parts of the sum)
TILES = (
    (16, 32, 1, 1, 4, 4, 3, 1), (32, 32, 1, 1, 2, 8, 3, 2), (64, 64, 2, 2, 1, 4, 4, 1), (32, 64, 1, 2, 2, 4, 5, 3),
    (16, 32, 1, 1, 4, 4, 3, 8),
)  # fmt: skip


def products(bytes_: bool) -> Graph:
    """A product of each tile of the list, every other one with room at the ends, of what another kernel made."""
    made = []
    for number, (_, columns, *_) in enumerate(TILES):
        depth, columns = (768, 2 * columns) if number % 2 else (760, 2 * columns - 3)
        a = value(f"a{number}", 100, depth)
        if bytes_:
            rounded = ops.node("round", ops.node("mul", a, constant(np.float32(40 + number))))
            low, high = (constant(np.float32(x)) for x in (-127, 127))
            a = ops.node("cast", ops.node("min", ops.node("max", rounded, low), high), to="i8")
            w = constant(np.random.default_rng(number).integers(-127, 128, (depth, columns)).astype(np.int8))
            sums = ops.node("matmul", *(ops.node("cast", x, to="i32") for x in (a, w)))
            y = ops.node("mul", ops.node("cast", sums, to="f32"), constant(np.float32(1e-4)))
        else:
            a = ops.node("mul", a, constant(np.float32(1 + number)))
            y = ops.node("matmul", a, weights(depth, columns))
        made += [y, ops.node("slice", a, starts=(0, 0), steps=(1, 1), shape=(1, 1))]  # so that it lies in memory
    return graph(*made)


@pytest.mark.parametrize("element", ["f16", "f32", "tf32", "s8"])
def test_weights_that_lie_tile_by_tile(element: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    precision = {"f32": "fp32", "tf32": "tf32"}.get(element, "fp16")
    found = load_device("cuda_sm90")
    device = replace(found, precision=precision, gpu=replace(found.gpu, l2_bytes=1 << 16))  # weights come ahead
    step = {"f16": 16, "f32": 8, "tf32": 8, "s8": 32}[element]
    left = [
        TensorTile(m, n, steps * step, *warps, stages, split, element, True)
        for m, n, *warps, steps, stages, split in TILES
    ]
    monkeypatch.setattr(contract, "tile_for", lambda *_: left.pop(0))
    whole = products(element == "s8")
    network = emulate({"tiles": whole}, tmp_path, device)["tiles"]
    assert isinstance(network, Emulated) and not left
    given = arrays(whole, SEED)
    want = evaluate.run(doubled(whole), {k: v.astype(np.float64) for k, v in given.items()})
    # Bytes that are rounded the other way are a step of a factor.
    allowed = 2e-3 if element == "s8" else TOLERANCE[precision]
    told = {name: difference(got, want[name], allowed) for name, got in network(given).items()}
    assert {name: what for name, what in told.items() if what} == {}, f"seed {SEED}"


@pytest.mark.parametrize("element, size", [("f16", 2), ("s8", 1), ("tf32", 4)])
def test_shared_memory_has_rows_apart_and_a_gate_for_each_stage(element: str, size: int) -> None:
    """Rows are 16 bytes longer than what is read of them, but those that one copy brings as a whole behind a gate."""
    tile = TensorTile(32, 64, 64, 1, 2, 1, 3, 1, element)
    apart = 3 * (32 + 64) * (64 * size + 16)
    assert tile.shared_bytes == apart
    assert replace(tile, whole=True).shared_bytes == apart - 3 * 64 * 16 + 3 * 8
    assert replace(tile, slices=9).shared_bytes == max(apart, 8 * 32 * 64 * 4)  # sums of eight sets of warps

"""Products on tensor cores whose factors lie in memory with their rows or columns, not k, innermost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from chance import SEED
from emulated import Emulated, emulate
from small_graphs import arrays, doubled, graph, transpose, value

from edgec import ops
from edgec.device.load import load_device
from edgec.fuse import plan
from edgec.ir import evaluate
from edgec.ir.graph import Graph
from edgec.schedule.build import schedule
from edgec.schedule.gpu.contract import GpuContract
from edgec.schedule.gpu.tiles import TensorTile

SIZES = ((64, 72, 100), (24, 40, 33), (96, 17, 50), (17, 96, 50), (130, 68, 64))
BOUND = {"fp32": 1e-6, "tf32": 2e-3, "fp16": 2e-3}


def _products() -> Graph:
    """a' b, c b, a' d' and a sum times b, of what other kernels have computed."""
    found = []
    for m, n, k in SIZES:
        shapes = {"a": (k, m), "b": (k, n), "c": (m, k), "d": (n, k)}
        a, b, c, d = (ops.node("tanh", value(f"{name}{m}", *shape)) for name, shape in shapes.items())
        turned = transpose(a, 1, 0)
        found += [ops.node("matmul", turned, b), ops.node("matmul", turned, transpose(d, 1, 0))]
        found += [ops.node("matmul", c, b), ops.node("matmul", ops.node("add", c, c), b)]
    return graph(*found)


@pytest.mark.parametrize("precision", list(BOUND))
def test_products_are_those_of_their_factors(precision: str, tmp_path: Path) -> None:
    device, whole = replace(load_device("cuda_sm90"), precision=precision), _products()
    network = emulate({"products": whole}, tmp_path, device)["products"]
    assert isinstance(network, Emulated)
    given = arrays(whole, SEED)
    want = evaluate.run(doubled(whole), {k: v.astype(np.float64) for k, v in given.items()})
    for name, got in network(given).items():
        np.testing.assert_allclose(got, want[name], rtol=0, atol=BOUND[precision] * np.abs(want[name]).max())


def test_each_factor_is_read_as_it_lies() -> None:
    """Sixteen bytes at once where rows allow it, whichever of the four cases it is."""
    program = schedule(plan(_products(), gpu=True), load_device("cuda_sm90"))
    found = [k.schedule for k in program.kernels if isinstance(k.schedule, GpuContract)]
    tiles = [(c, c.tile) for c in found if isinstance(c.tile, TensorTile)]
    assert {(t.s_turned, t.l_turned) for _, t in tiles} == {(True, True), (True, False), (False, True)}
    whole = [c for c, _ in tiles if c.rows % 4 == c.columns % 4 == c.depth % 4 == 0]
    assert whole and all(c.s_copied == c.l_copied == 16 for c in whole)

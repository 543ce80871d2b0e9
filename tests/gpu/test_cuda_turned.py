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
from edgec.schedule.gpu.tile import TensorTile
from edgec.schedule.turned import with_turned_copies

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


@pytest.mark.parametrize("groups", [1, 2, 32])
def test_weights_of_a_run_are_turned_once(groups: int, tmp_path: Path) -> None:
    """Two convolutions of the same weights, which are inputs: one copy has output channels innermost for both."""
    x, w = ops.node("tanh", value("x", 2, 32, 9, 7)), value("w", 32, 32 // groups, 3, 3)
    fields = {"strides": (1, 1), "dilations": (1, 1), "groups": groups}
    whole = graph(*(ops.node("conv", of, w, **fields) for of in (x, ops.node("abs", x))))
    device = load_device("cuda_sm90")
    blocks = with_turned_copies(plan(whole, gpu=True), device).blocks
    assert sum(b.inputs == (w,) for b in blocks) == 1
    assert sum(w in b.inputs for b in blocks) == 1
    network = emulate({"turned": whole}, tmp_path, device)["turned"]
    assert isinstance(network, Emulated)
    given = arrays(whole, SEED)
    want = evaluate.run(doubled(whole), {k: v.astype(np.float64) for k, v in given.items()})
    for name, got in network(given).items():
        np.testing.assert_allclose(got, want[name], rtol=0, atol=BOUND["fp32"] * np.abs(want[name]).max())


def test_inputs_whose_rows_are_long_stay_as_they_are() -> None:
    """Weights of a single tap, and pictures, have neighbors for vectors."""
    fields = {"strides": (1, 1), "dilations": (1, 1), "groups": 1}
    whole = graph(ops.node("conv", value("x", 1, 32, 20, 20), value("w", 64, 32, 1, 1), **fields))
    before = plan(whole, gpu=True)
    assert with_turned_copies(before, load_device("cuda_sm90")).blocks == before.blocks

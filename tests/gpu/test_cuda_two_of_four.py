"""Products by weights with two of each four along k on tensor cores: priced, packed, and right on the processor."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from chance import RANDOM
from emulated import Emulated, emulate
from integer_cases import bias, requantized, scales
from small_graphs import arrays, conv, graph, pad, relu, transpose, value, weights
from test_cuda_kernels import TOLERANCE, difference

from edgec import ops
from edgec.device.device import Device
from edgec.device.load import load_device
from edgec.ir import evaluate
from edgec.ir.graph import Graph, Node, constant
from edgec.schedule.gpu.contract import GpuContract
from edgec.schedule.gpu.tiles import TensorTile


def halved(w: np.ndarray, axis: int) -> np.ndarray:
    """Two of each four along an axis, which two for every other index by chance; some groups with fewer."""
    last = np.moveaxis(w, axis, -1).copy()
    room = np.pad(last, [(0, 0)] * (w.ndim - 1) + [(0, -last.shape[-1] % 4)]).reshape(*last.shape[:-1], -1, 4)
    rank = RANDOM.random(room.shape).argsort(axis=-1)
    room[(rank > 1) | (RANDOM.random(room.shape) < 0.1)] = 0
    return np.ascontiguousarray(np.moveaxis(room.reshape(*last.shape[:-1], -1)[..., : last.shape[-1]], -1, axis))


def matrix(depth: int, columns: int) -> Node:
    return constant(halved(RANDOM.standard_normal((depth, columns)) / np.sqrt(depth), 0).astype(np.float32))


def kernels(*shape: int) -> Node:
    w = RANDOM.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
    return constant(halved(w, 1).astype(np.float32))


def floats() -> dict[str, Graph]:
    image = transpose(value("x", 1, 9, 11, 20), 0, 3, 1, 2)
    window = conv(pad(image, 1, 1), kernels(70, 20, 3, 3), 2)
    biased = ops.node("add", ops.node("matmul", value("a", 70, 203), matrix(203, 133)), weights(133))
    rows = ops.node("matmul", transpose(value("t", 96, 70), 1, 0), matrix(96, 64))
    return {
        "odd": graph(relu(biased)),
        "batch": graph(ops.node("matmul", value("b", 3, 40, 512), matrix(512, 96))),
        "turned": graph(rows),
        "window": graph(transpose(relu(window), 0, 2, 3, 1)),
    }


def bytes_() -> dict[str, Graph]:
    found = {}
    for number, (dtype, columns, depth) in enumerate((("i8", 133, 203), ("u8", 96, 512))):
        w = constant(halved(RANDOM.integers(-128, 128, (depth, columns)), 0).astype(np.int8))
        a = ops.node("cast", value("a", 70, depth, dtype=dtype), to="i32")
        sums = ops.node("add", ops.node("matmul", a, ops.node("cast", w, to="i32")), bias(columns))
        found[f"bytes {number}"] = graph(requantized(sums, scales(columns)))
    image = ops.node("cast", transpose(value("x", 1, 7, 5, 32, dtype="i8"), 0, 3, 1, 2), to="i32")
    w = constant(halved(RANDOM.integers(-128, 128, (90, 32, 3, 3)), 1).astype(np.int8))
    found["window"] = graph(
        transpose(requantized(conv(image, ops.node("cast", w, to="i32")), scales(90, 1, 1)), 0, 2, 3, 1)
    )
    return found


def asking(device: Device, gain: float, rate: float = 1.0) -> Device:
    """The device that takes 2:4 from a gain on, and multiplies it so much faster."""
    tile = replace(device.costs.tensor_tile, two_of_four_gain=gain, two_of_four=rate)
    return replace(device, costs=replace(device.costs, tensor_tile=tile))


@pytest.mark.parametrize("name", ["cuda_sm90", "jetson"])
@pytest.mark.parametrize("precision", ["fp16", "int8"])
def test_kernels_are_right(name: str, precision: str, tmp_path: Path) -> None:
    device = replace(load_device(name), precision="fp32" if precision == "int8" else precision)
    graphs = bytes_() if precision == "int8" else floats()
    for title, network in emulate(graphs, tmp_path, asking(device, 0.01)).items():
        assert isinstance(network, Emulated), (title, network)
        tiles = [k.schedule.tile for k in network.program.kernels if isinstance(k.schedule, GpuContract)]
        assert tiles and all(isinstance(t, TensorTile) and t.two_of_four for t in tiles), title
        given = arrays(graphs[title], 1)
        want = evaluate.run(graphs[title], given)
        for output, got in network(given).items():
            assert difference(got, want[output], TOLERANCE[device.precision]) is None, (title, output)

"""Products on a GPU without the empty slices of their weights: priced, packed, and right on the processor."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from chance import RANDOM
from emulated import Emulated, emulate
from integer_cases import bias, requantized, scales
from small_graphs import arrays, conv, graph, pad, relu, transpose, value, weights
from test_cuda_kernels import DEVICE, TOLERANCE, difference

from edgec import ops
from edgec.device.load import load_device
from edgec.fuse import plan
from edgec.ir import evaluate
from edgec.ir.graph import Graph, Node, constant
from edgec.schedule.build import schedule


def holed(depth: int, columns: int, step: int, share: float) -> np.ndarray:
    """[depth, columns] of truth: slices of ``step`` x 32 that stay, a panel full, one empty, the others by chance."""
    stays = RANDOM.random((depth // step, columns // 32)) < share
    stays[:, -1] = False
    return stays.repeat(step, 0).repeat(32, 1)


def matrix(depth: int, columns: int, step: int, share: float = 0.1) -> np.ndarray:
    w = RANDOM.standard_normal((depth, columns)) * holed(depth, columns, step, share) / np.sqrt(depth)
    return np.asarray(w, np.float32)


def floats() -> dict[str, Graph]:
    product = ops.node("matmul", value("a", 70, 1024), constant(matrix(1024, 256, 8)))
    batch = ops.node("matmul", value("b", 3, 40, 512), constant(matrix(512, 96, 8)))
    w = matrix(9 * 128, 128, 8).reshape(3, 3, 128, 128).transpose(3, 2, 0, 1)
    image = transpose(value("x", 1, 17, 17, 128), 0, 3, 1, 2)
    window = conv(pad(image, 1, 1), constant(np.ascontiguousarray(w)), 2)
    return {
        "product": graph(relu(ops.node("add", product, weights(256)))),
        "batch": graph(batch),
        "window": graph(transpose(relu(window), 0, 2, 3, 1)),
    }


def bytes_() -> dict[str, Graph]:
    w: Node = constant((RANDOM.integers(-128, 128, (2048, 128)) * holed(2048, 128, 16, 0.1)).astype(np.int8))
    a = ops.node("cast", value("a", 70, 2048, dtype="i8"), to="i32")
    sums = ops.node("add", ops.node("matmul", a, ops.node("cast", w, to="i32")), bias(128))
    return {"bytes": graph(requantized(sums, scales(128)))}


@pytest.mark.parametrize(("precision", "graphs"), [("fp32", floats() | bytes_()), ("fp16", floats())])
def test_empty_slices_are_left_out(precision: str, graphs: dict[str, Graph], tmp_path: Path) -> None:
    device = replace(load_device(DEVICE), precision=precision)
    for name, network in emulate(graphs, tmp_path, device).items():
        assert isinstance(network, Emulated), name
        (kernel,) = (k for k in network.program.kernels if k.sparsity is not None)
        assert kernel.sparsity.taken and kernel.sparsity.density < 0.5, name
        given = arrays(graphs[name], 1)
        want = evaluate.run(graphs[name], given)
        for output, got in network(given).items():
            assert difference(got, want[output], TOLERANCE[precision]) is None, (name, output)


def test_scattered_zeros_stay() -> None:
    w = np.where(RANDOM.random((512, 128)) < 0.5, 0, RANDOM.standard_normal((512, 128))).astype(np.float32)
    g = graph(ops.node("matmul", value("a", 200, 512), constant(w)))
    device = load_device(DEVICE)
    (kernel,) = schedule(plan(g, gpu=True), device).kernels
    assert kernel.sparsity is not None and not kernel.sparsity.taken and kernel.sparsity.density == 1
    assert kernel.schedule.batches == 1

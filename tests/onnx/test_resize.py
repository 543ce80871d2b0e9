"""Resize beside onnxruntime: sizes that scales give, and filters of many taps."""

from __future__ import annotations

import numpy as np
import pytest
from small_models import model, node, tensor_input, weights

from edgec.execute.executor import run_graph
from edgec.frontend.onnx import import_model
from edgec.ir.graph import Graph

ort = pytest.importorskip("onnxruntime")
RANDOM = np.random.default_rng(4)


def both(x: np.ndarray, scales: list[float], **told: object) -> tuple[Graph, np.ndarray, np.ndarray]:
    """The graph of one Resize, its result, and onnxruntime's."""
    made = node("Resize", ["x", "", "scales"], ["y"], **told)
    constants = [weights("scales", np.float32(scales))]
    proto = model([made], [tensor_input("x", x.shape)], initializers=constants, opset=19)
    proto.ir_version = 9
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    graph = import_model(proto)
    return graph, run_graph(graph, {"x": x})["y"], session.run(None, {"x": x})[0]


@pytest.mark.parametrize(("extent", "scale"), [(320, 1.4), (10, 0.7), (100, 0.29), (3, 1 / 3), (1000, 1.001)])
def test_sizes_are_of_products_rounded_to_floats(extent: int, scale: float) -> None:
    """1.4 as a float is a little less: 320 times it is 448 in floats, and less than that in doubles."""
    x = RANDOM.standard_normal((1, 1, 2, extent)).astype(np.float32)
    _, got, want = both(x, [1, 1, 1, scale], mode="nearest")
    assert got.shape == want.shape


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize(("width", "is_product"), [(40, True), (2100, False)])
def test_filters_of_many_taps_are_products_along_rows(mode: str, width: int, is_product: bool) -> None:
    """Not for tables that are too large. Few taps, and those along columns, are sums of moved elements."""
    x = RANDOM.standard_normal((1, 2, 9, width)).astype(np.float32)
    graph, got, want = both(x, [1, 1, 0.5, 0.3], mode=mode, antialias=1)
    np.testing.assert_allclose(got, want, atol=1e-3)  # whose coordinates are floats
    products = [n for n in graph.operations() if n.op == "matmul"]
    assert len(products) == is_product

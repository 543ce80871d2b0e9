"""Choices by data between neighbors, with an open batch: GCC 12 makes wrong masks of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

import edgec


def test_places_of_a_pool_of_an_open_batch(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MaxPool", ["x"], ["y", "place"], kernel_shape=[2], strides=[2]),
        helper.make_node("Mul", ["place", "two"], ["twice"]),
    ]
    graph = helper.make_graph(
        nodes, "pool",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, 4])],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in (("y", 1), ("twice", 7))],
        [helper.make_tensor("two", TensorProto.INT64, [2], [2, 3])],
    )  # fmt: skip
    path = tmp_path / "pool.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    network = edgec.build(path, tmp_path / "net", dims={"N": (1, 64)})
    for batch in (1, 7, 64):
        x = np.random.default_rng(batch).standard_normal((batch, 3, 4)).astype(np.float32)
        pairs = x.reshape(batch, 3, 2, 2)
        want = (np.arange(x.size).reshape(pairs.shape)[..., 0] + pairs.argmax(-1)) * [2, 3]
        assert np.array_equal(network(x)["twice"], want), batch

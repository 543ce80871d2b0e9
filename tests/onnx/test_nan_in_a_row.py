"""A row with NaN leaves the other rows of a dynamically quantized batch as they are without it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from chance import RANDOM
from compiled import Compiled, compile_graphs
from onnx import TensorProto, helper, numpy_helper
from small_graphs import graph, value, weights

from edgec import ops
from edgec.compress.dynamic import dynamic
from edgec.compress.layers import layers_of
from edgec.frontend.onnx import import_model
from edgec.ir.graph import Graph
from edgec.rewrite import simplify


def by_the_model() -> Graph:
    """One scale for the whole batch, as ONNX Runtime's quantizer writes it."""
    w = RANDOM.integers(-100, 100, (24, 5)).astype(np.int8)
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"]),
        helper.make_node("MatMulInteger", ["q", "w", "zero"], ["total"]),
        helper.make_node("Cast", ["total"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["floats", "scale"], ["y"]),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, (4, 24))]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, (4, 5))]
    made = helper.make_graph(nodes, "g", inputs, outputs, [numpy_helper.from_array(w, "w")])
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)])
    return simplify(import_model(model))[0]


def by_the_compiler() -> Graph:
    """A scale for every row, as int8-dynamic has them."""
    plain = graph(ops.node("matmul", value("x", 4, 24), weights(24, 5)))
    return dynamic(plain, layers_of(plain))


def test_other_rows_are_the_same(tmp_path: Path) -> None:
    x = RANDOM.standard_normal((4, 24)).astype(np.float32)
    x[2] = 0
    spoiled = x.copy()
    spoiled[2, ::3] = np.nan
    for name, net in compile_graphs({"model": by_the_model(), "compiler": by_the_compiler()}, tmp_path).items():
        assert isinstance(net, Compiled)
        (want,), (got,) = (net({"x": array}).values() for array in (x, spoiled))
        np.testing.assert_array_equal(np.delete(got, 2, 0), np.delete(want, 2, 0), err_msg=name)
        assert np.abs(want[:2]).min() > 0

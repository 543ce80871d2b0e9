"""A few words for writing ONNX graphs by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper


class Writer:
    """Collects nodes and weights; every method gives the name of the tensor it made."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, onnx.TensorProto] = {}

    def weight(self, name: str, array: np.ndarray) -> str:
        if name not in self.weights:
            self.weights[name] = numpy_helper.from_array(np.array(array, order="C"), name)
        return name

    def node(
        self, op: str, *inputs: str, name: str | None = None, results: Sequence[str] = (), **attributes: Any
    ) -> str:
        """A node; with ``results`` one of several, of which the first is given back."""
        given = list(results) or [name or f"{op.lower()}_{len(self.nodes)}"]
        self.nodes.append(helper.make_node(op, inputs, given, name=given[0], **attributes))
        return given[0]

    def model(
        self,
        name: str,
        inputs: Mapping[str, tuple[int, Sequence[int | str]]],
        outputs: Mapping[str, tuple[int, Sequence[int | str]]],
        opset: int,
    ) -> onnx.ModelProto:
        """The finished model; inputs and outputs are (element type, shape) by name."""

        def ports(values: Mapping[str, tuple[int, Sequence[int | str]]]) -> list[onnx.ValueInfoProto]:
            return [helper.make_tensor_value_info(n, dtype, shape) for n, (dtype, shape) in values.items()]

        graph = helper.make_graph(self.nodes, name, ports(inputs), ports(outputs), list(self.weights.values()))
        opsets = [helper.make_opsetid("", opset)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="edgec benchmarks")

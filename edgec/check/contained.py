"""Copies of a model's message with all that a session needs inside."""

from __future__ import annotations

import onnx
from onnx import numpy_helper

from edgec.frontend.onnx.model import Model, tensor


def self_contained(model: Model) -> onnx.ModelProto:
    """A copy of the model with all its weights inside."""
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    for t in proto.graph.initializer:
        if t.data_location == onnx.TensorProto.EXTERNAL:
            t.raw_data = numpy_helper.from_array(tensor(t, model.folder)).raw_data
            t.data_location = onnx.TensorProto.DEFAULT
            del t.external_data[:]
    return proto


def with_every_tensor(model: Model) -> onnx.ModelProto:
    """A copy of the model with every tensor that its nodes compute as an output."""
    wider = self_contained(model)
    known = {o.name for o in wider.graph.output}
    for node in model.proto.graph.node:
        for name in node.output:
            if name and name not in known:
                known.add(name)
                wider.graph.output.append(onnx.ValueInfoProto(name=name))
    return wider

"""Weights that a file stores in narrower numbers, as the floats that layers read: those that are trained.

A file may hold a weight as integers behind DequantizeLinear, or as halves behind Cast, so that it is smaller. What such
a node makes of constants is a constant, and a weight like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from edgec.frontend.onnx.model import Model, tensor


def with_floats(model: Model) -> Model:
    """The model whose constants that nodes only widen are floats of 32 bits; the same model where there are none.

    Where rows of blocks have scales of their own, the constant stays as it is stored.
    """
    graph = model.proto.graph
    held = {t.name: t for t in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
            held[node.output[0]] = node.attribute[0].t
    wide: dict[str, np.ndarray] = {}
    for node in graph.node:
        found = _widened(node, held, model)
        if found is not None:
            wide[node.output[0]] = found
    if not wide:
        return model
    proto = ModelProto()
    proto.CopyFrom(model.proto)
    kept = [n for n in proto.graph.node if not wide.keys() & set(n.output)]
    read = {name for n in kept for name in n.input} | {o.name for o in proto.graph.output}
    stored = [t for t in proto.graph.initializer if t.name in read]
    del proto.graph.node[:]
    proto.graph.node.extend(n for n in kept if n.op_type != "Constant" or n.output[0] in read)
    del proto.graph.initializer[:]
    proto.graph.initializer.extend([*stored, *(numpy_helper.from_array(a, name) for name, a in wide.items())])
    return replace(model, proto=proto, path=None)


def _widened(node: NodeProto, held: Mapping[str, TensorProto], model: Model) -> np.ndarray | None:
    """The floats that a node makes of constants; None for one that does something else."""
    names = [name for name in node.input if name]
    if not names or any(name not in held for name in names) or len(held[names[0]].dims) == 0:
        return None
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    if node.op_type == "Cast":
        narrow = (TensorProto.FLOAT16, TensorProto.BFLOAT16)
        if attributes.get("to") != TensorProto.FLOAT or held[names[0]].data_type not in narrow:
            return None
        return np.asarray(tensor(held[names[0]], model.folder), np.float32)
    if node.op_type != "DequantizeLinear" or attributes.get("block_size", 0):
        return None
    if attributes.get("output_dtype", 0) not in (0, TensorProto.FLOAT) or held[names[1]].data_type != TensorProto.FLOAT:
        return None
    stored, scale, *zero = (tensor(held[name], model.folder) for name in names)
    shape = [1] * stored.ndim
    if scale.ndim == 1 and scale.size > 1:
        shape[attributes.get("axis", 1)] = scale.size
    elif scale.size != 1:
        return None
    shift = np.asarray(zero[0], np.int64).reshape(shape) if zero else 0
    found: np.ndarray = (stored.astype(np.int64) - shift).astype(np.float32) * scale.reshape(shape)
    return found

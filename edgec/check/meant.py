"""The model as its operators are meant, where onnxruntime rounds operands that a built network does not."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np
import onnx
from onnx import helper, numpy_helper

from edgec.check.contained import self_contained
from edgec.frontend.onnx.model import Model
from edgec.ir.graph import Graph

#: The attribute of products by weights of few bits that says how exact they may be.
LEVEL = "accuracy_level"
_MICROSOFT = "com.microsoft"
#: Operands of a quantized LSTM that are those of one of floats: sequence, biases, lengths, states and peepholes.
_FLOATS = (0, 3, 4, 5, 6, 7)


def in_floats(model: Model, graph: Graph | None = None) -> Model:
    """The model whose products by weights of few bits are of floats, as the operator is defined.

    An `accuracy_level` above 1 lets onnxruntime round the other factor too, to 16 or to 8 bits. Quantized LSTMs that
    are loops in ``graph`` keep their states in floats there, which onnxruntime rounds in every step.
    """
    loops = _loops(graph) if graph is not None else set()
    nodes = model.proto.graph.node
    if not any(rounds_its_operand(n) or _is_loop(n, loops) for n in nodes):
        return model
    proto = self_contained(model)
    for node in filter(rounds_its_operand, proto.graph.node):
        next(a for a in node.attribute if a.name == LEVEL).i = 1
    arrays = {t.name: t for t in proto.graph.initializer}
    found: list[onnx.NodeProto] = []
    for node in proto.graph.node:
        found += _of_floats(node, proto.graph, arrays) if _is_loop(node, loops) else [node]
    kept = [onnx.NodeProto.FromString(n.SerializeToString()) for n in found]
    del proto.graph.node[:]
    proto.graph.node.extend(kept)
    return replace(model, proto=proto, path=None)


def rounds_its_operand(node: onnx.NodeProto) -> bool:
    """True for a product by weights of few bits that onnxruntime computes in less than floats."""
    return node.domain == _MICROSOFT and any(a.name == LEVEL and a.i > 1 for a in node.attribute)


def _loops(graph: Graph) -> set[str]:
    """Nodes of the model that are loops over time in a graph."""
    return {name for n in graph.operations() if n.op == "recurrence" for name in graph.origin.get(n, ())}


def _is_loop(node: onnx.NodeProto, loops: Collection[str]) -> bool:
    named = node.name or next(iter(node.output), "")
    return node.op_type == "DynamicQuantizeLSTM" and node.domain == _MICROSOFT and named in loops


def _of_floats(
    node: onnx.NodeProto, graph: onnx.GraphProto, arrays: dict[str, onnx.TensorProto]
) -> list[onnx.NodeProto]:
    """An LSTM of floats by the same weights, on the sequence as it is after rounding; the node where these are unknown.

    Weights are [D, k, 4 H], with one scale and zero point of each direction, or of each of its columns.
    """
    if any(node.input[k] not in arrays for k in (1, 2, 8, 9, 10, 11)):
        return [node]
    own = node.output[0] or node.name
    names = [f"{own} {part}" for part in ("codes", "scale", "zero", "sequence", "W", "R")]
    for target, (codes, scale, zero) in zip(names[4:], ((1, 8, 9), (2, 10, 11))):
        q, s, z = (numpy_helper.to_array(arrays[node.input[k]]) for k in (codes, scale, zero))
        s, z = (a.reshape(len(q), 1, -1).astype(np.float32) for a in (s, z))
        real = ((q.astype(np.float32) - z) * s).swapaxes(1, 2)
        graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(real), target))
    floats = [node.input[k] if k < len(node.input) else "" for k in _FLOATS]
    lstm = helper.make_node("LSTM", [names[3], *names[4:], *floats[1:]], node.output, node.name)
    lstm.attribute.extend(node.attribute)
    return [
        helper.make_node("DynamicQuantizeLinear", [node.input[0]], names[:3]),
        helper.make_node("DequantizeLinear", names[:3], [names[3]]),
        lstm,
    ]

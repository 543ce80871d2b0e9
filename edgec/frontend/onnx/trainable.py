"""Weights of an ONNX model that can be trained: which there are, a model that takes them as inputs, one with others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from edgec.errors import UsageError
from edgec.frontend.onnx.model import Model, tensor
from edgec.frontend.onnx.support import label_of
from edgec.text import printable

#: Operators with weights, and what their operands are, from the second on.
_LAYERS = {
    "Conv": ("weight", "bias"), "ConvTranspose": ("weight", "bias"), "Gemm": ("weight", "bias"),
    "LSTM": ("weight", "weight", "bias"), "GRU": ("weight", "weight", "bias"), "RNN": ("weight", "weight", "bias"),
}  # fmt: skip
_NORMS = dict.fromkeys(
    ("BatchNormalization", "InstanceNormalization", "LayerNormalization", "GroupNormalization"), ("norm", "norm")
)
#: Operators that take a weight on any side.
_EITHER = {"MatMul": "weight", "Add": "bias", "Mul": "norm", "PRelu": "norm", "Concat": "weight"}
#: Operators that move the elements of their first operand; Concat moves those of all.
_MOVES = {"Identity", "Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Slice", "Split", "Expand"}


@dataclass(frozen=True)
class Weight:
    """A weight: its name in the model, the first node that reads it, what it is (weight, bias, norm), and its layer.

    Layers are the nodes that read a matrix of weights, counted from 0; a bias belongs to the layer before it.
    """

    name: str
    node: str
    kind: str
    layer: int
    value: np.ndarray


def weights_of(model: Model) -> list[Weight]:
    """The weights of the main graph in the order of the nodes that read them: several floats of 32 bits each.

    A node may read a weight transposed, in parts, or joined with others, as exporters write it. Numbers of
    preprocessing in front of the model are none.
    """
    held = _floats(model)
    moved = {name: (name,) for name in held}
    found: dict[str, Weight] = {}
    layer = -1
    for node in model.proto.graph.node:
        if (sources := _moved(node, moved)) is not None:
            moved.update(dict.fromkeys(node.output, sources))
            continue
        kinds = [(name, kind) for operand, kind in _kinds(node) for name in moved.get(operand, ())]
        if any(kind == "weight" for _, kind in kinds):
            layer += 1
        for name, kind in kinds:
            if name not in found:
                value = tensor(held[name], model.folder)
                found[name] = Weight(name, label_of(node), kind, max(layer, 0), value)
    return list(found.values())


def _moved(node: NodeProto, moved: Mapping[str, tuple[str, ...]]) -> tuple[str, ...] | None:
    """The weights whose elements are all that the results of a node have; None where they have others."""
    if node.op_type != "Concat" and node.op_type not in _MOVES:
        return None
    operands = node.input if node.op_type == "Concat" else node.input[:1]
    if not operands or any(name not in moved for name in operands):
        return None
    return tuple(dict.fromkeys(name for operand in operands for name in moved[operand]))


def _kinds(node: NodeProto) -> Iterable[tuple[str, str]]:
    """(operand, what it is) of the operands of a node that may be weights."""
    if node.op_type in _EITHER:
        return [(name, _EITHER[node.op_type]) for name in node.input]
    if node.op_type == "Gather":
        return [(node.input[0], "weight")]
    return zip(node.input[1:], _LAYERS.get(node.op_type) or _NORMS.get(node.op_type) or ())


def _floats(model: Model) -> dict[str, TensorProto]:
    """The model's own tensors of floats with more than one element: initializers, and values of nodes Constant."""
    graph, front = model.proto.graph, model.front
    tensors = {t.name: t for t in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
            tensors[node.output[0]] = node.attribute[0].t
    outputs = {o.name for o in graph.output}
    return {
        name: t
        for name, t in tensors.items()
        if t.data_type == TensorProto.FLOAT
        and int(np.prod(t.dims)) > 1
        and name not in outputs
        and not (front is not None and name.startswith(front.prefix))
    }


def with_inputs(model: Model, weights: Iterable[Weight], outputs: Iterable[str] = ()) -> Model:
    """The model with ``weights`` as inputs, behind its own; ``outputs`` name tensors in place of its outputs."""
    proto = ModelProto()
    proto.CopyFrom(model.proto)
    graph = proto.graph
    chosen = {w.name: w for w in weights}
    _without(graph, set(chosen))
    own = [i for i in graph.input if i.name not in chosen]
    del graph.input[:]
    graph.input.extend(own)
    graph.input.extend(helper.make_tensor_value_info(w.name, TensorProto.FLOAT, w.value.shape) for w in chosen.values())
    names = list(outputs)
    if names:
        declared = {o.name: o for o in (*graph.value_info, *graph.output)}
        kept = [declared.get(name, onnx.ValueInfoProto(name=name)) for name in names]
        del graph.output[:]
        graph.output.extend(kept)
    return replace(model, proto=proto, path=None)


def with_values(model: Model, values: Mapping[str, np.ndarray]) -> ModelProto:
    """The model in one file, with other values for some of its weights, which keep their shapes."""
    proto = ModelProto()
    proto.CopyFrom(model.proto)
    graph = proto.graph
    for t in graph.initializer:
        if t.data_location == TensorProto.EXTERNAL:
            t.CopyFrom(numpy_helper.from_array(tensor(t, model.folder), t.name))
        if t.name in values:
            t.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(values[t.name], np.float32), t.name))
    for node in graph.node:
        if node.op_type == "Constant" and node.output[0] in values:
            value = np.ascontiguousarray(values[node.output[0]], np.float32)
            node.attribute[0].t.CopyFrom(numpy_helper.from_array(value, node.attribute[0].t.name))
    return proto


def with_batch(model: Model, shapes: Mapping[str, Sequence[int]]) -> Model:
    """The model with inputs of these shapes, whatever it says of them and of what follows."""
    proto = ModelProto()
    proto.CopyFrom(model.proto)
    for given in proto.graph.input:
        if given.name in shapes:
            element = given.type.tensor_type.elem_type
            given.CopyFrom(helper.make_tensor_value_info(given.name, element, shapes[given.name]))
    del proto.graph.value_info[:]
    for made in proto.graph.output:
        made.ClearField("type")
    return replace(model, proto=proto, path=None)


def _without(graph: onnx.GraphProto, names: set[str]) -> None:
    """Remove the initializers and nodes Constant called ``names``."""
    kept = [t for t in graph.initializer if t.name not in names]
    nodes = [n for n in graph.node if n.op_type != "Constant" or n.output[0] not in names]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    del graph.node[:]
    graph.node.extend(nodes)


def answers_of(model: Model, wanted: str | None, activations: Sequence[str]) -> tuple[str, int]:
    """(the tensor that a loss judges, its axis of classes) of the output ``wanted``, or the first one.

    Where one of ``activations`` is the last node, it is what comes before it. Raises UsageError for a name that is no
    output.
    """
    output = _output_of(model, wanted)
    last = next((n for n in model.proto.graph.node if output in n.output), None)
    if last is None or last.op_type not in activations:
        return output, 1
    usual = -1 if model.opsets.get("", 0) >= 13 else 1
    return last.input[0], next((a.i for a in last.attribute if a.name == "axis"), usual)


def _output_of(model: Model, wanted: str | None) -> str:
    names: list[str] = [o.name for o in model.proto.graph.output]
    if wanted is None:
        return names[0]
    if wanted not in names:
        known = ", ".join(map(printable, names))
        raise UsageError(f"there is no output '{printable(wanted)}'", hint=f"the outputs are {known}", where="--loss")
    return wanted

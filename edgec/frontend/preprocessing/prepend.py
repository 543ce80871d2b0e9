"""A model with preprocessing in front of one of its inputs, which its graph computes then.

What follows (rewriting, fusion, checks beside onnxruntime) knows nothing of it: the model is an ONNX model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import onnx
from onnx import TensorProto, helper

from edgec.errors import ModelError, UsageError
from edgec.frontend.onnx.model import Front, Model
from edgec.frontend.preprocessing.nodes import OLDEST, Nodes, names_in
from edgec.frontend.preprocessing.picture import picture
from edgec.frontend.preprocessing.sound import sound
from edgec.media.before import OPTION, Before, PictureBytes, SoundSamples
from edgec.media.pictures import Preparation, frame_of
from edgec.text import listed, printable

#: Element types of inputs that a picture becomes, with their name as a frame has it.
_ELEMENTS: Mapping[int, str] = {TensorProto.FLOAT: "f32", TensorProto.FLOAT16: "f32", TensorProto.UINT8: "u8"}

Shapes = Mapping[str, Sequence[int]]
Ranges = Mapping[str, tuple[int, int, int]]


def prepended(model: Any, given: Before, wanted: Preparation, shapes: Shapes, dims: Ranges) -> Model:
    """The model with work in front of an input, whose shape may be one of ``shapes``.

    ``dims`` are (least, most, step) of open dimensions by name, or by INPUT.AXIS.

    Raises UsageError where the model is not in ONNX, or has no such input.
    """
    if not isinstance(model, Model):
        raise UsageError("preprocessing is put in front of ONNX models alone", hint="leave out --pre", where=OPTION)
    opset = model.opsets.get("", 0)
    if opset < OLDEST:
        hint = f"onnx.version_converter.convert_version(model, {OLDEST}) makes it newer"
        raise UsageError(f"the model has operator set {opset}", hint=hint, where=OPTION)
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    graph = proto.graph
    port = _port(graph, given.input)
    shape, open_dims = _shape(port, shapes, dims), _dims_of(port)
    inner, element, nodes = port.name, port.type.tensor_type.elem_type, Nodes(names_in(graph), opset)
    if isinstance(given, PictureBytes):
        name, dtype = nodes.name("picture"), TensorProto.UINT8
        result = _of_picture(nodes, name, given, wanted, shape, element, printable(inner))
    else:
        name, dtype = nodes.name("sound"), TensorProto.INT16 if given.type == "i16" else TensorProto.FLOAT
        result = _of_sound(nodes, name, given, shape, element, printable(inner))
    nodes.nodes.append(helper.make_node("Identity", [result], [inner], name=nodes.name(f"{nodes.prefix}input")))
    port.CopyFrom(helper.make_tensor_value_info(name, dtype, given.shape))
    own = list(graph.node)
    del graph.node[:]
    graph.node.extend([*nodes.nodes, *own])
    graph.initializer.extend(nodes.constants)
    fixed = open_dims.difference(*map(_dims_of, graph.input))
    front = Front(inner, tuple(nodes.kept), nodes.prefix, frozenset(fixed))
    return replace(model, proto=proto, path=None, front=front)


def _of_picture(
    nodes: Nodes, x: str, given: PictureBytes, wanted: Preparation, shape: tuple[int, ...], element: int, shown: str
) -> str:
    """The input of a ``shape`` and an ONNX type ``element`` of the bytes ``x``; ``shown`` is its name."""
    dtype = _ELEMENTS.get(element, TensorProto.DataType.Name(element).lower())
    if len(shape) == 4 and shape[0] != 1:
        told = f"input '{shown}' takes {shape[0]} pictures"
        raise UsageError(told, hint="one at a time is preprocessed", where=OPTION)
    return picture(nodes, x, given, frame_of(shape, dtype, shown, wanted.layout), wanted, element)


def _of_sound(nodes: Nodes, x: str, given: SoundSamples, shape: tuple[int, ...], element: int, shown: str) -> str:
    """The same of the samples ``x``."""
    if element not in (TensorProto.FLOAT, TensorProto.FLOAT16):
        told = f"input '{shown}' is {TensorProto.DataType.Name(element).lower()}{list(shape)}"
        raise UsageError(told, hint="features of sounds are floats", where=OPTION)
    result = sound(nodes, x, given, shape, shown)
    return result if element == TensorProto.FLOAT else nodes.cast(result, element)


def _port(graph: onnx.GraphProto, name: str | None) -> onnx.ValueInfoProto:
    """The one input, or that of a name."""
    constants = {t.name for t in graph.initializer}
    ports = [p for p in graph.input if p.name not in constants]
    if name is None and len(ports) != 1:
        told = f"the network has {len(ports)} inputs: {listed(p.name for p in ports)}"
        raise UsageError(told, hint="add input=NAME to --pre", where=OPTION)
    found = [p for p in ports if name in (None, p.name)]
    if not found:
        hint = f"it has {listed(p.name for p in ports)}"
        raise UsageError(f"there is no input '{printable(str(name))}'", hint=hint, where=OPTION)
    port: onnx.ValueInfoProto = found[0]
    return port


def _dims_of(port: onnx.ValueInfoProto) -> set[str]:
    """The names that an input's dimensions have, and those by INPUT.AXIS."""
    dims = port.type.tensor_type.shape.dim
    return {d.dim_param for d in dims if d.dim_param} | {f"{port.name}.{k}" for k in range(len(dims))}


def _shape(port: onnx.ValueInfoProto, shapes: Shapes, dims: Ranges) -> tuple[int, ...]:
    """The extents of an input: those that were given, or that the model has; a batch that it leaves open is 1."""
    shown, declared = printable(port.name), port.type.tensor_type
    if not port.type.HasField("tensor_type"):
        raise ModelError(f"input '{shown}' is no tensor", hint="name another one: input=NAME", where=OPTION)
    if port.name in shapes:
        return tuple(int(n) for n in shapes[port.name])
    found = [d.dim_value if d.HasField("dim_value") else None for d in declared.shape.dim]
    for k, dim in enumerate(declared.shape.dim):
        name = dim.dim_param if dim.dim_param in dims else f"{port.name}.{k}"
        if found[k] is None and name in dims:
            low, high, _ = dims[name]
            if low != high:
                told = f"'{printable(name)}' of input '{shown}' is from {low} to {high}"
                raise UsageError(told, hint=f"preprocessing is for one size: --dim {name}={high}", where=OPTION)
            found[k] = low
    found[:1] = [1 if n is None else n for n in found[:1]]
    if None in found or not declared.HasField("shape"):
        told = f"input '{shown}' has open dimensions"
        raise UsageError(told, hint=f"fix them with --shape {shown}=1,3,224,224", where=OPTION)
    return tuple(n for n in found if n is not None)

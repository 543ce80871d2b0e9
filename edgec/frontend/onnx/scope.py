"""One place of a model: the names that it sees, tensors that are not read yet, and attributes of its function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from onnx import AttributeProto, GraphProto, NodeProto, SparseTensorProto, TensorProto

from edgec.frontend.onnx.sequences import Item

Tensors = dict[str, "TensorProto | SparseTensorProto"]


def tensors_of(graph: GraphProto) -> Tensors:
    return {**{t.name: t for t in graph.initializer}, **{s.values.name: s for s in graph.sparse_initializer}}


@dataclass
class Scope:
    """The values of names at one place of the model; inner scopes see the outer ones' names."""

    names: dict[str, Item]
    opsets: Mapping[str, int]
    #: Initializers that have not been read yet.
    tensors: Tensors = field(default_factory=dict)
    outer: Scope | None = None
    #: How the names of nodes begin here, which several may have, and those of tensors, which one node makes.
    prefix: str = ""
    place: str = ""
    #: Attributes of the function being lowered, for nodes that refer to them.
    attributes: Mapping[str, AttributeProto] = field(default_factory=dict)
    #: The functions whose bodies are being lowered, outermost first.
    calls: tuple[str, ...] = ()


def attributes_of(node: NodeProto, enclosing: Mapping[str, AttributeProto]) -> dict[str, AttributeProto]:
    """Attributes by name; references to attributes of the enclosing function are resolved."""
    found = {}
    for a in node.attribute:
        if not a.ref_attr_name:
            found[a.name] = a
        elif a.ref_attr_name in enclosing:
            found[a.name] = enclosing[a.ref_attr_name]
    return {name: a for name, a in found.items() if a.type != AttributeProto.UNDEFINED}


def without(node: NodeProto, absent: set[str]) -> NodeProto:
    """The node without the operands that are ``absent``: optional inputs of the function that its caller omits."""
    if not absent.intersection(node.input):
        return node
    result = NodeProto()
    result.CopyFrom(node)
    del result.input[:]
    result.input.extend("" if name in absent else name for name in node.input)
    return result

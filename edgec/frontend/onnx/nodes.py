"""Nodes of a model's functions: attributes and operands that the caller decides."""

from __future__ import annotations

from collections.abc import Mapping

from onnx import AttributeProto, NodeProto


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

"""Attributes that a node leaves out have the values that ONNX's schema of its operator set says."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_recipes  # noqa: F401
import pytest
from onnx import AttributeProto, helper
from onnx_graphs import RECIPES, alone

from edgec.errors import EdgecError
from edgec.frontend.onnx import import_model
from edgec.ir.graph import Graph

#: Operators with attributes that have defaults, and draws of each.
KEYS = [key for key in sorted(RECIPES) if not key[0] and onnx.defs.has(key[1])]
FIRST, COUNT = 2000, 7


def defaults(node: onnx.NodeProto, opset: int) -> dict[str, AttributeProto]:
    """Attributes with the value that each has where it is left out."""
    attributes = onnx.defs.get_schema(node.op_type, opset, node.domain).attributes
    known = {name: a.default_value for name, a in attributes.items()}
    return {name: a for name, a in known.items() if a.type != AttributeProto.UNDEFINED}


def lowered(model: onnx.ModelProto) -> Graph | str:
    try:
        return import_model(model)
    except EdgecError as error:
        return error.message


def spelled(model: onnx.ModelProto, is_full: bool) -> tuple[onnx.ModelProto, int]:
    """The same model with every default written, or with none; and how many attributes that changed."""
    made, changed = onnx.ModelProto(), 0
    made.CopyFrom(model)
    opset = next(o.version for o in model.opset_import if not o.domain)
    for node in (n for n in made.graph.node if not n.domain):
        for name, usual in defaults(node, opset).items():
            own = [a for a in node.attribute if a.name == name]
            value = helper.get_attribute_value(usual)
            if is_full and not own:
                node.attribute.append(helper.make_attribute(name, value, attr_type=usual.type))
                changed += 1
            elif not is_full and own and np.array_equal(helper.get_attribute_value(own[0]), value):
                node.attribute.remove(own[0])
                changed += 1
    return made, changed


def alike(one: Graph | str, other: Graph | str) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    return [n for _, n in one.outputs] == [n for _, n in other.outputs]


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key[1])
def test_attribute_defaults(key: tuple[str, str]) -> None:
    for number in range(FIRST, FIRST + COUNT):
        drawn = alone(key, number)
        if drawn is None:
            continue
        model = drawn.proto()
        for is_full in (True, False):
            other, changed = spelled(model, is_full)
            assert not changed or alike(lowered(model), lowered(other)), (number, is_full)

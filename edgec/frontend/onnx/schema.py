"""The ONNX standard's schema of an operator: its attributes' defaults, and its body where it is a function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, FunctionProto, NodeProto, TypeProto

from edgec.errors import ModelError
from edgec.frontend.onnx.model import domain_name
from edgec.frontend.onnx.sequences import Item
from edgec.frontend.values import Value
from edgec.ir.types import DTYPES

#: onnx.defs.OpSchema; its type stubs lack half of it.
Schema = Any


def schema_of(node: NodeProto, opset: int | None) -> Schema | None:
    """The standard's description of a node's operator in a version of its operator set, if there is one."""
    if opset is None:
        return None
    try:
        return onnx.defs.get_schema(node.op_type, opset, domain_name(node.domain))
    except onnx.defs.SchemaError:
        return None


def has_body(schema: Schema | None) -> bool:
    """True if the standard defines the operator by other operators."""
    return schema is not None and bool(schema.has_function or schema.has_context_dependent_function)


def default_attributes(schema: Schema | None) -> dict[str, AttributeProto]:
    found = {} if schema is None else {name: a.default_value for name, a in schema.attributes.items()}
    return {name: value for name, value in found.items() if value.type != AttributeProto.UNDEFINED}


def check_operands(schema: Schema | None, inputs: Sequence[Item | None]) -> None:
    """Raises ModelError where an operand that has to be there is not, or two that want one type are of two."""
    if schema is None or not schema.inputs:
        return
    single = onnx.defs.OpSchema.FormalParameterOption.Single
    parameters = {constraint.type_param_str for constraint in schema.type_constraints}
    for k, formal in enumerate(schema.inputs):
        if formal.option == single and (k >= len(inputs) or inputs[k] is None):
            raise ModelError(f"operand {k} is missing", hint="export the model again")
    known: dict[str, str] = {}
    for k, value in enumerate(inputs):
        formal = schema.inputs[min(k, len(schema.inputs) - 1)]
        if isinstance(value, Value) and formal.is_homogeneous and formal.type_str in parameters:
            first = known.setdefault(formal.type_str, value.dtype)
            if first != value.dtype:
                raise ModelError(f"operands of different types: {', '.join(sorted({first, value.dtype}))}")


#: Operators with a body in the standard that it defines for lengths above 0 only.
_LENGTHS = ("BlackmanWindow", "HammingWindow", "HannWindow")


def check_lengths(operator: str, inputs: Sequence[Item | None]) -> None:
    """Raises ModelError for windows of no elements, which their bodies in the standard would compute somehow."""
    if operator in _LENGTHS and isinstance(inputs[0], Value) and inputs[0].is_const and inputs[0].node.value.max() < 1:
        raise ModelError(f"a window of {inputs[0].node.value.max()} elements", hint="its length is 1 or more")


def body_of(
    schema: Schema,
    node: NodeProto,
    attributes: Sequence[AttributeProto],
    opset: int,
    inputs: Sequence[Item | None],
) -> FunctionProto:
    """The standard's own definition of an operator by other operators, for operands of these types."""
    function = FunctionProto()
    if schema.has_context_dependent_function:
        concrete = NodeProto()
        concrete.CopyFrom(node)
        del concrete.attribute[:]
        concrete.attribute.extend(attributes)
        types = [_type_of(v).SerializeToString() for v in inputs]
        version = _newest(schema.context_dependent_function_opset_versions, opset)
        text = schema.get_context_dependent_function_with_opset_version(version, concrete.SerializeToString(), types)
    else:
        text = schema.get_function_with_opset_version(_newest(schema.function_opset_versions, opset))
    function.ParseFromString(text)
    return function


def _newest(versions: Sequence[int], opset: int) -> int:
    return max((v for v in versions if v <= opset), default=opset)


def _type_of(value: Item | None) -> TypeProto:
    if not isinstance(value, Value):
        return TypeProto()
    code = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(DTYPES[value.dtype]))
    return onnx.helper.make_tensor_type_proto(code, [n if isinstance(n, int) else None for n in value.shape])

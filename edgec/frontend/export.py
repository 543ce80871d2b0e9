"""The way back: a graph of core operators as an ONNX model (operator set 17), to go on with elsewhere.

Every core operator written here has one ONNX operator of the same meaning, or two. What has none is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from edgec.errors import UsageError
from edgec.ir.graph import Graph, Node
from edgec.ir.types import DTYPES

OPSET = 17
#: Scalar functions whose ONNX operator has another name than the function with a capital.
_SCALAR = {
    "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual", "eq": "Equal", "select": "Where",
    "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "max": "Max", "min": "Min", "exp": "Exp", "log": "Log",
    "sqrt": "Sqrt", "tanh": "Tanh", "sigmoid": "Sigmoid", "erf": "Erf", "abs": "Abs", "neg": "Neg", "floor": "Floor",
    "ceil": "Ceil", "round": "Round", "pow": "Pow", "and": "And", "or": "Or", "xor": "Xor", "not": "Not",
    "sin": "Sin", "cos": "Cos", "tan": "Tan", "sign": "Sign",
}  # fmt: skip
_TYPES = {
    "f32": TensorProto.FLOAT, "f64": TensorProto.DOUBLE, "f16": TensorProto.FLOAT16, "i64": TensorProto.INT64,
    "i32": TensorProto.INT32, "i16": TensorProto.INT16, "i8": TensorProto.INT8, "u8": TensorProto.UINT8,
    "u16": TensorProto.UINT16, "u32": TensorProto.UINT32, "bool": TensorProto.BOOL,
}  # fmt: skip


class _Writer:
    """Collects nodes and constants; ``names`` is what the value of each graph node is called."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, onnx.TensorProto] = {}
        self.names: dict[Node, str] = {}
        self.count = 0

    def constant(self, value: Any, dtype: Any = np.int64) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants[name] = numpy_helper.from_array(np.asarray(value, dtype), name)
        return name

    def add(self, n: Node, op: str, *inputs: str, **attributes: Any) -> str:
        """An ONNX node; the last one of a graph node gives its value."""
        self.count += 1
        name = f"{n.op}_{self.count}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        return name


def to_onnx(graph: Graph) -> onnx.ModelProto:
    """``graph`` as an ONNX model. Raises UsageError for an operator or a type that has no form here."""
    if graph.sizes or not all(n.type.is_fixed for n in graph.nodes()):
        raise UsageError("a network with open dimensions is not written as ONNX", hint="fix them with --shape")
    g = _Writer(graph)
    for n in graph.nodes():
        if n.type.dtype not in _TYPES:
            raise UsageError(f"{n.type.dtype} is not written as ONNX", where=", ".join(graph.names(n)))
        if n.op == "input":
            g.names[n] = n.attributes["name"]
        elif n.op == "const":
            g.names[n] = g.constant(n.value, DTYPES[n.type.dtype])
        else:
            g.names[n] = _form(graph, n)(g, n, *(g.names[a] for a in n.args))
    for name, n in graph.outputs:
        g.nodes.append(helper.make_node("Identity", [g.names[n]], [name], name=f"output_{name}"))
    inputs = [_port(n.attributes["name"], n) for n in graph.inputs]
    outputs = [_port(name, n) for name, n in graph.outputs]
    proto = helper.make_graph(g.nodes, graph.name or "net", inputs, outputs, list(g.constants.values()))
    model = helper.make_model(
        proto, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8, producer_name="edgec"
    )
    onnx.checker.check_model(model)
    return model


def save(graph: Graph, path: Path) -> None:
    onnx.save(to_onnx(graph), str(path))


def _port(name: str, n: Node) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, _TYPES[n.type.dtype], list(n.type.shape))


Form = Callable[..., str]


def _form(graph: Graph, n: Node) -> Form:
    found = _FORMS.get(n.op)
    if found is not None:
        return found
    if n.op in _SCALAR:
        return lambda g, n, *args: g.add(n, _SCALAR[n.op], *args)
    hint = "write a network of convolutions, products, pools and element-wise operators"
    raise UsageError(f"'{n.op}' is not written as ONNX", hint=hint, where=", ".join(graph.names(n)))


def _conv(g: _Writer, n: Node, x: str, w: str) -> str:
    a = n.attributes
    kernel = n.args[1].type.shape[2:]
    return g.add(
        n, "Conv", x, w, strides=a["strides"], dilations=a["dilations"], group=a["groups"], kernel_shape=kernel
    )


def _reshape(g: _Writer, n: Node, x: str) -> str:
    return g.add(n, "Reshape", x, g.constant(n.type.shape))


def _broadcast(g: _Writer, n: Node, x: str) -> str:
    return g.add(n, "Expand", x, g.constant(n.type.shape))


def _pad(g: _Writer, n: Node, x: str) -> str:
    a = n.attributes
    value = g.constant(a["value"], DTYPES[n.type.dtype])
    return g.add(n, "Pad", x, g.constant([*a["before"], *a["after"]]), value, mode="constant")


def _slice(g: _Writer, n: Node, x: str) -> str:
    a, low = n.attributes, np.iinfo(np.int64).min
    ends = [s + step * size for s, step, size in zip(a["starts"], a["steps"], n.type.shape)]
    ends = [low if step < 0 and e < 0 else e for e, step in zip(ends, a["steps"])]
    axes = g.constant(range(n.type.rank))
    return g.add(n, "Slice", x, g.constant(a["starts"]), g.constant(ends), axes, g.constant(a["steps"]))


def _reduce(g: _Writer, n: Node, x: str) -> str:
    axes, combine = list(n.attributes["axes"]), n.attributes["combine"]
    if combine == "add":
        return g.add(n, "ReduceSum", x, g.constant(axes), keepdims=1)
    ops = {"mul": "ReduceProd", "max": "ReduceMax", "min": "ReduceMin"}
    if combine not in ops:
        raise UsageError(f"'{n.op}' by '{combine}' is not written as ONNX", where=", ".join(g.graph.names(n)))
    return g.add(n, ops[combine], x, axes=axes, keepdims=1)


def _pool(g: _Writer, n: Node, x: str) -> str:
    a = n.attributes
    options = {"kernel_shape": a["kernel"], "strides": a["strides"], "dilations": a["dilations"]}
    whole = n.type.rank - 2 == len(a["kernel"])
    if a["combine"] == "max" and whole:
        return g.add(n, "MaxPool", x, **options)
    if a["combine"] == "add" and whole and set(a["dilations"]) == {1}:
        mean = g.add(n, "AveragePool", x, kernel_shape=a["kernel"], strides=a["strides"])
        return g.add(n, "Mul", mean, g.constant(np.prod(a["kernel"]), DTYPES[n.type.dtype]))
    raise UsageError(f"'{n.op}' by '{a['combine']}' is not written as ONNX", where=", ".join(g.graph.names(n)))


_FORMS: dict[str, Form] = {
    "conv": _conv,
    "matmul": lambda g, n, a, b: g.add(n, "MatMul", a, b),
    "reshape": _reshape,
    "broadcast": _broadcast,
    "pad": _pad,
    "slice": _slice,
    "reduce": _reduce,
    "pool": _pool,
    "transpose": lambda g, n, x: g.add(n, "Transpose", x, perm=n.attributes["perm"]),
    "concat": lambda g, n, *xs: g.add(n, "Concat", *xs, axis=n.attributes["axis"]),
    "cast": lambda g, n, x: g.add(n, "Cast", x, to=_TYPES[n.type.dtype]),
    "gather": lambda g, n, x, i: g.add(n, "Gather", x, i, axis=n.attributes["axis"]),
    "ne": lambda g, n, a, b: g.add(n, "Not", g.add(n, "Equal", a, b)),
}

"""Graphs of core operators as ONNX models: to be looked at with Netron, run by other engines, or handed on.

Most core operators are one of ONNX. What ONNX has no operator for (sums of bytes in 32 bits, procedures, extents that
are formulas) becomes a node of the domain "edgec" with the same operands: it can be looked at, not run elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from edgec.errors import UsageError
from edgec.ir.expr import Expr
from edgec.ir.graph import Array, Graph, Node
from edgec.ir.text import INLINE_ELEMENTS
from edgec.ir.types import DTYPES, Type, plain
from edgec.text import printable

#: The operator set and file format that are written.
OPSET, IR_VERSION = 21, 10
#: The domain of what ONNX has no operator for.
DOMAIN = "edgec"

_TYPES = {
    "f32": "FLOAT", "f64": "DOUBLE", "f16": "FLOAT16", "bf16": "BFLOAT16", "bool": "BOOL",
    **{f"{c}{n}": f"{word}{n}" for c, word in (("i", "INT"), ("u", "UINT")) for n in (8, 16, 32, 64)},
    "f8e4m3fn": "FLOAT8E4M3FN", "f8e5m2": "FLOAT8E5M2", "f8e4m3fnuz": "FLOAT8E4M3FNUZ", "f8e5m2fnuz": "FLOAT8E5M2FNUZ",
}  # fmt: skip
_FLOATS = ("f32", "f64", "f16")
#: Functions that are operators of ONNX under another name, on every type that both have.
_ELEMENTWISE = {
    "add": "Add", "sub": "Sub", "mul": "Mul", "max": "Max", "min": "Min", "abs": "Abs", "neg": "Neg", "sign": "Sign",
    "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual", "eq": "Equal",
    "and": "And", "or": "Or", "xor": "Xor", "not": "Not", "select": "Where", "branch": "Where",
    "bitand": "BitwiseAnd", "bitor": "BitwiseOr", "bitxor": "BitwiseXor", "bitnot": "BitwiseNot",
}  # fmt: skip
#: The same, of floats only.
_OF_FLOATS = {
    name: name.capitalize()
    for name in (
        "div", "pow", "floor", "ceil", "round", "sqrt", "exp", "log", "sigmoid", "tanh", "erf", "sin", "cos", "tan",
        "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh",
    )
} | {"isnan": "IsNaN", "isinf": "IsInf"}  # fmt: skip
_REDUCTIONS = {"add": "ReduceSum", "mul": "ReduceProd", "max": "ReduceMax", "min": "ReduceMin"}
_SCATTERS = {"last": "none", "add": "add", "mul": "mul", "max": "max", "min": "min"}


@dataclass
class _Writer:
    """A model in the making. ``constants`` is where arrays lie as .npy files by digest, to be pointed at."""

    graph: Graph
    constants: Path | None
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    initializers: dict[str, TensorProto] = field(default_factory=dict)
    infos: list[onnx.ValueInfoProto] = field(default_factory=list)
    names: dict[Node, str] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)  # names of values
    called: set[str] = field(default_factory=set)  # names of nodes

    def unique(self, wanted: str) -> str:
        name, k = wanted, 2
        while name in self.taken:
            name, k = f"{wanted}_{k}", k + 1
        self.taken.add(name)
        return name

    def constant(self, value: Any, dtype: str = "i64") -> str:
        """A small tensor of the exporter's own."""
        array = np.asarray(value, dtype=np.dtype(np.int64) if dtype == "i64" else None)
        return self.array(Array(array), dtype)

    def array(self, array: Array, dtype: str) -> str:
        name = f"c_{array.digest}"
        if name not in self.initializers:
            self.initializers[name] = _tensor(name, array, dtype, self.constants)
            self.taken.add(name)
        return name

    def emit(self, op: str, inputs: Iterable[str], node: Node, output: str | None = None, **attrs: Any) -> str:
        """One node of ONNX; its output is the value of ``node`` unless that is named otherwise."""
        made = output if output is not None else self.unique(f"{node.op}_{len(self.nodes)}")
        origin = [printable(n) for n in self.graph.names(node)]
        domain = DOMAIN if op not in _ONNX else ""
        called, k = origin[-1] if origin else made, 2
        while called in self.called:
            called, k = f"{origin[-1] if origin else made}#{k}", k + 1
        self.called.add(called)
        proto = helper.make_node(op, list(inputs), [made], name=called, domain=domain, **attrs)
        proto.doc_string = ", ".join(origin)
        self.nodes.append(proto)
        return made

    def value(self, node: Node) -> str:
        return self.array(node.attributes["value"], node.type.dtype) if node.is_const else self.names[node]


def to_onnx(graph: Graph, constants: Path | None = None) -> onnx.ModelProto:
    """The model of a graph; nodes say in their documentation which nodes of the user's model they come from.

    With ``constants``, large arrays are not copied: they are external data in the .npy files of that folder, which lies
    beside the file that is written.
    """
    w = _Writer(graph, constants)
    given = {n: w.unique(n.attributes["name"]) for n in graph.inputs}
    w.names.update(given)
    w.taken.update(name for name, _ in graph.outputs)
    first = {n: name for name, n in reversed(graph.outputs) if n.op not in ("input", "const")}
    for node in graph.nodes():
        if node.op in ("input", "const"):
            continue
        w.names[node] = _write(w, node, first.get(node))
        if node not in first:
            w.infos.append(_info(w.names[node], node.type))
    for name, node in graph.outputs:
        if w.value(node) != name:
            w.emit("Identity", [w.value(node)], node, name)
    made = helper.make_graph(
        w.nodes,
        graph.name or "graph",
        [_info(name, n.type) for n, name in given.items()],
        [_info(name, n.type) for name, n in graph.outputs],
        list(w.initializers.values()),
        value_info=w.infos,
    )
    opsets = [helper.make_opsetid("", OPSET)]
    if any(n.domain == DOMAIN for n in w.nodes):
        opsets.append(helper.make_opsetid(DOMAIN, 1))
    model = helper.make_model(made, opset_imports=opsets, ir_version=IR_VERSION, producer_name="edgec")
    helper.set_model_props(model, {str(k): str(v) for k, v in graph.metadata.items()})
    return model


def runnable(graph: Graph) -> onnx.ModelProto:
    """The model of a graph for other engines. Raises UsageError where ONNX has no operator for one of it."""
    if graph.sizes or not all(n.type.is_fixed for n in graph.nodes()):
        raise UsageError("a network with open dimensions is not written as ONNX", hint="fix them with --shape")
    model = to_onnx(graph)
    for n in model.graph.node:
        if n.domain == DOMAIN:
            hint = "write a network of convolutions, products, pools, movement and element-wise operators"
            raise UsageError(f"'{n.op_type}' is not written as ONNX", hint=hint, where=n.doc_string)
    onnx.checker.check_model(model)
    return model


def is_runnable(model: onnx.ModelProto) -> bool:
    """Is everything in it ONNX's own?"""
    return all(n.domain != DOMAIN for n in model.graph.node)


def _write(w: _Writer, node: Node, name: str | None) -> str:
    """Write one core operator; gives the name of its value."""
    inputs = [w.value(a) for a in node.args]
    writer = _WRITERS.get(node.op)
    is_open = any(_is_open(v) for _, v in node.attrs)
    if not is_open and node.op in _ELEMENTWISE:
        return w.emit(_ELEMENTWISE[node.op], inputs, node, name)
    if not is_open and node.op in _OF_FLOATS and node.args[0].type.dtype in _FLOATS:
        return w.emit(_OF_FLOATS[node.op], inputs, node, name)
    if not is_open and writer is not None:
        made = writer(w, node, inputs, name)
        if made is not None:
            return made
    attrs = {key: _attribute(value) for key, value in node.attrs if value is not None and value != ()}
    return w.emit(node.op, inputs, node, name, **attrs)


Writer = Callable[[_Writer, Node, "list[str]", "str | None"], "str | None"]


def _conv(w: _Writer, node: Node, inputs: list[str], name: str | None) -> str | None:
    a = node.attributes
    if node.type.dtype not in _FLOATS:
        return None
    return w.emit("Conv", inputs, node, name, strides=a["strides"], dilations=a["dilations"], group=a["groups"])


def _matmul(w: _Writer, node: Node, inputs: list[str], name: str | None) -> str | None:
    return w.emit("MatMul", inputs, node, name) if node.type.dtype in (*_FLOATS, "i32", "i64") else None


def _reduce(w: _Writer, node: Node, inputs: list[str], name: str | None) -> str | None:
    op = _REDUCTIONS.get(node.attributes["combine"])
    if not node.attributes["axes"]:  # which ONNX takes for all
        return w.emit("Identity", inputs, node, name)
    if op is None or node.type.dtype == "bool":
        return None
    return w.emit(op, [*inputs, w.constant(node.attributes["axes"])], node, name, keepdims=1)


def _pool(w: _Writer, node: Node, inputs: list[str], name: str | None) -> str | None:
    a = node.attributes
    if node.type.rank - len(a["kernel"]) != 2 or node.type.dtype not in _FLOATS or a["combine"] not in ("max", "add"):
        return None
    windows = {"kernel_shape": a["kernel"], "strides": a["strides"], "dilations": a["dilations"]}
    if a["combine"] == "max":
        return w.emit("MaxPool", inputs, node, name, **windows)
    mean = w.emit("AveragePool", inputs, node, **windows)
    size = np.asarray(prod(a["kernel"]), DTYPES[node.type.dtype])
    return w.emit("Mul", [mean, w.array(Array(size), node.type.dtype)], node, name)


def _reshape(w: _Writer, node: Node, inputs: list[str], name: str | None) -> str:
    return w.emit("Reshape", [*inputs, w.constant(node.type.shape)], node, name, allowzero=1)


def _broadcast(w: _Writer, node: Node, inputs: list[str], name: str | None) -> str:
    return w.emit("Expand", [*inputs, w.constant(node.type.shape)], node, name)


def _slice(w: _Writer, node: Node, inputs: list[str], name: str | None) -> str:
    a = node.attributes
    ends = [s + step * n for s, step, n in zip(a["starts"], a["steps"], a["shape"])]
    ends = [end if end >= 0 else np.iinfo(np.int64).min for end in ends]  # before the first element
    parts = [a["starts"], ends, range(len(ends)), a["steps"]]
    return w.emit("Slice", [*inputs, *(w.constant(list(p)) for p in parts)], node, name)


def _pad(w: _Writer, node: Node, inputs: list[str], name: str | None) -> str:
    a = node.attributes
    fill = np.full((), a["value"], DTYPES[node.type.dtype])
    amounts = w.constant([*a["before"], *a["after"]])
    return w.emit("Pad", [*inputs, amounts, w.array(Array(fill), node.type.dtype)], node, name)


def _iota(w: _Writer, node: Node, inputs: list[str], name: str | None) -> str:
    a = node.attributes
    shape = [1] * node.type.rank
    shape[a["axis"]] = -1
    steps = np.arange(node.type.shape[a["axis"]]).reshape(shape)
    value = np.broadcast_to(steps, node.type.shape).astype(DTYPES[node.type.dtype])
    return w.emit("Identity", [w.array(Array(value), node.type.dtype)], node, name)


def _mod(w: _Writer, node: Node, inputs: list[str], name: str | None) -> str | None:
    if node.op == "floormod" and node.type.dtype in _FLOATS:
        return None
    return w.emit("Mod", inputs, node, name, fmod=int(node.op == "fmod"))


def _ne(w: _Writer, node: Node, inputs: list[str], name: str | None) -> str:
    return w.emit("Not", [w.emit("Equal", inputs, node)], node, name)


def _scatter(w: _Writer, node: Node, inputs: list[str], name: str | None) -> str:
    a = node.attributes
    more = {"axis": a["axis"]} if node.op == "scatter_elements" else {}
    op = "ScatterElements" if node.op == "scatter_elements" else "ScatterND"
    return w.emit(op, inputs, node, name, reduction=_SCATTERS[a["combine"]], **more)


def _prefix(w: _Writer, node: Node, inputs: list[str], name: str | None) -> str | None:
    a = node.attributes
    if a["combine"] != "add" or node.type.dtype not in (*_FLOATS, "i32", "i64"):
        return None
    flags = {"exclusive": int(a["exclusive"]), "reverse": int(a["reverse"])}
    return w.emit("CumSum", [*inputs, w.constant(a["axis"])], node, name, **flags)


def _cast(w: _Writer, node: Node, inputs: list[str], name: str | None) -> str | None:
    known = node.args[0].type.dtype in _TYPES and node.type.dtype in _TYPES
    return w.emit("Cast", inputs, node, name, to=_element(node.type.dtype)) if known else None


_WRITERS: dict[str, Writer] = {
    "conv": _conv, "matmul": _matmul, "reduce": _reduce, "pool": _pool, "reshape": _reshape, "broadcast": _broadcast,
    "slice": _slice, "pad": _pad, "iota": _iota, "fmod": _mod, "floormod": _mod, "ne": _ne, "cast": _cast,
    "scatter_elements": _scatter, "scatter_nd": _scatter, "prefix": _prefix,
    "transpose": lambda w, n, i, name: w.emit("Transpose", i, n, name, perm=n.attributes["perm"]),
    "concat": lambda w, n, i, name: w.emit("Concat", i, n, name, axis=n.attributes["axis"]),
    "gather": lambda w, n, i, name: w.emit("Gather", i, n, name, axis=n.attributes["axis"]),
    "gather_elements": lambda w, n, i, name: w.emit("GatherElements", i, n, name, axis=n.attributes["axis"]),
    "gather_nd": lambda w, n, i, name: w.emit("GatherND", i, n, name, batch_dims=n.attributes["batch"]),
}  # fmt: skip
_ONNX = frozenset(
    (*_ELEMENTWISE.values(), *_OF_FLOATS.values(), *_REDUCTIONS.values(), "Conv", "MatMul", "MaxPool", "AveragePool",
     "Reshape", "Expand", "Slice", "Pad", "Identity", "Mod", "ScatterElements", "ScatterND", "CumSum", "Cast",
     "Transpose", "Concat", "Gather", "GatherElements", "GatherND")
)  # fmt: skip


def _is_open(value: Any) -> bool:
    return any(map(_is_open, value)) if isinstance(value, tuple) else isinstance(value, Expr)


def _attribute(value: Any) -> Any:
    """An attribute of ours as ONNX has them; what it has no type for, as text."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, (int, float, str)):
        return value
    if isinstance(value, tuple) and all(isinstance(v, int) for v in value):
        return [int(v) for v in value]
    return str(value)


def _element(dtype: str) -> int:
    """The number that ONNX has for a type; codes of fewer than 8 bits lie one a byte."""
    return int(getattr(TensorProto, _TYPES.get(dtype, "UINT8")))


def _info(name: str, type: Type) -> onnx.ValueInfoProto:
    shape = [n if isinstance(n, int) else str(n) for n in type.shape]
    return helper.make_tensor_value_info(name, _element(type.dtype), shape)


def _tensor(name: str, array: Array, dtype: str, constants: Path | None) -> TensorProto:
    value = plain(array.value)
    tensor = TensorProto(name=name, data_type=_element(dtype), dims=value.shape)
    file = constants / f"{array.digest}.npy" if constants is not None else None
    if file is None or array.value.size <= INLINE_ELEMENTS or not file.is_file():
        tensor.raw_data = np.ascontiguousarray(value).tobytes()
        return tensor
    tensor.data_location = TensorProto.EXTERNAL
    offset = file.stat().st_size - value.nbytes  # behind the head of the .npy
    place = {"location": f"{file.parent.name}/{file.name}", "offset": offset, "length": value.nbytes}
    for key, said in place.items():
        entry = tensor.external_data.add()
        entry.key, entry.value = key, str(said)
    return tensor

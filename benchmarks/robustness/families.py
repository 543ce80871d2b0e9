"""Families of models that grow: each is a function from a size to a model, and says what the size multiplies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

node = helper.make_node
FAMILIES: dict[str, Callable[[int], onnx.ModelProto]] = {}


def family(name: str) -> Callable[[Callable[[int], onnx.ModelProto]], Callable[[int], onnx.ModelProto]]:
    def register(make: Callable[[int], onnx.ModelProto]) -> Callable[[int], onnx.ModelProto]:
        FAMILIES[name] = make
        return make

    return register


def _value(name: str, shape: Sequence[int] | None, dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def _model(
    nodes: Sequence[onnx.NodeProto],
    shape: Sequence[int] = (4,),
    arrays: dict[str, Any] | None = None,
    functions: Sequence[onnx.FunctionProto] = (),
) -> onnx.ModelProto:
    """A model from x of a shape to y."""
    initializers = [numpy_helper.from_array(np.asarray(a), n) for n, a in (arrays or {}).items()]
    graph = helper.make_graph(list(nodes), "growing", [_value("x", shape)], [_value("y", None)], initializers)
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=imports, functions=list(functions), ir_version=9)


@family("chain of layers")
def _chain(n: int) -> onnx.ModelProto:
    operators = ("Relu", "Sigmoid", "Neg")
    names = ["x", *(f"t{k}" for k in range(1, n)), "y"]
    return _model([node(operators[k % 3], [names[k]], [names[k + 1]]) for k in range(n)])


@family("chain of matrices")
def _matrices(n: int) -> onnx.ModelProto:
    arrays = {f"w{k}": np.full((8, 8), 1 / 8, np.float32) + np.eye(8, dtype=np.float32) / (k + 2) for k in range(n)}
    names = ["x", *(f"t{k}" for k in range(1, n)), "y"]
    return _model([node("MatMul", [names[k], f"w{k}"], [names[k + 1]]) for k in range(n)], (8, 8), arrays)


@family("operands of a sum")
def _sum(n: int) -> onnx.ModelProto:
    return _model([node("Sum", ["x"] * n, ["y"])])


@family("parts side by side")
def _parts(n: int) -> onnx.ModelProto:
    branches = [node("MatMul", ["x", f"w{k}"], [f"t{k}"]) for k in range(n)]
    arrays = {f"w{k}": np.full((8, 8), 1 + k, np.float32) for k in range(n)}
    return _model([*branches, node("Concat", [f"t{k}" for k in range(n)], ["y"], axis=0)], (8, 8), arrays)


@family("doubled concatenations")
def _doubled(n: int) -> onnx.ModelProto:
    names = ["t0", *(f"t{k}" for k in range(1, n)), "y"]
    pairs = [node("Concat", [names[k]] * 2, [names[k + 1]], axis=0) for k in range(n)]
    return _model([node("Sigmoid", ["x"], ["t0"]), *pairs])


@family("nested functions")
def _functions(n: int) -> onnx.ModelProto:
    """Each calls the one before it twice."""
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    made = [helper.make_function("own", "f0", ["a"], ["b"], [node("Sigmoid", ["a"], ["b"])], imports)]
    for k in range(1, n + 1):
        calls = [node(f"f{k - 1}", [one], [other], domain="own") for one, other in (("a", "t"), ("t", "b"))]
        made.append(helper.make_function("own", f"f{k}", ["a"], ["b"], calls, imports))
    return _model([node(f"f{n}", ["x"], ["y"], domain="own")], functions=made)


@family("rounds of a scan")
def _scan(n: int) -> onnx.ModelProto:
    body = helper.make_graph(
        [node("Add", ["s", "e"], ["t"]), node("Identity", ["t"], ["r"])],
        "body", [_value("s", [2]), _value("e", [2])], [_value("t", [2]), _value("r", [2])],
    )  # fmt: skip
    scan = node("Scan", ["zero", "x"], ["last", "y"], body=body, num_scan_inputs=1)
    return _model([scan], (n, 2), {"zero": np.zeros(2, np.float32)})


@family("rounds of nested loops")
def _loops(n: int) -> onnx.ModelProto:
    """Two loops of n rounds, one in the other: n * n rounds."""

    def body(inner: onnx.NodeProto, name: str) -> onnx.GraphProto:
        going = _value(f"c{name}", [], TensorProto.BOOL)
        inputs = [_value(f"k{name}", [], TensorProto.INT64), going, _value(f"v{name}", [4])]
        outputs = [_value(f"d{name}", [], TensorProto.BOOL), _value(f"w{name}", [4])]
        return helper.make_graph([node("Identity", [f"c{name}"], [f"d{name}"]), inner], name, inputs, outputs)

    inner = body(node("Sigmoid", ["vi"], ["wi"]), "i")
    outer = body(node("Loop", ["n", "", "vo"], ["wo"], body=inner), "o")
    return _model([node("Loop", ["n", "", "x"], ["y"], body=outer)], arrays={"n": np.int64(n)})


#: What the size of a family multiplies, where it is not the number of nodes: how many nodes a model is after expansion.
EXPANDED: dict[str, Callable[[int], int]] = {
    "nested functions": lambda n: 2**n,
    "rounds of nested loops": lambda n: n * n,
}

"""Recipes for reductions, normalizations, sorts and scans."""

from __future__ import annotations

from math import prod

import numpy as np
from onnx import TensorProto, helper
from onnx_graphs import FLOAT, Maker, recipe
from onnx_reference import Rejected

WIDE = ("float32", "float32", "float32", "float64")


@recipe("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
        "ReduceSum", "ReduceSumSquare", loose=True)  # fmt: skip
def reduce(m: Maker, op: str) -> None:
    x = m.operand(("float32", "float32", "float32", "float64", "int32", "int64"))
    if op == "ReduceLogSumExp" and "int" in x.dtype:
        raise Rejected("onnxruntime rounds to integers on the way")
    if op == "ReduceLogSum" and (x.array <= 0).any():
        raise Rejected("a logarithm of terms that cancel")
    if op == "ReduceMean" and not x.array.size:
        raise Rejected("the standard leaves a mean of nothing undefined")
    # Of nothing, onnxruntime reduces other dimensions than negative axes say.
    axes = [d - x.rank if x.array.size and m.chance(4) else d for d in range(x.rank) if m.chance(2)]
    settings = {} if m.chance(2) else {"keepdims": m.number(0, 1)}
    exact = op in ("ReduceMax", "ReduceMin")
    newest = 13 if op == "ReduceSum" else 18
    if m.since(op) < newest:
        m.node(op, x, keeps=exact, **settings, **({"axes": axes} if axes else {}))
        return
    settings |= {"noop_with_empty_axes": 1} if m.chance(4) else {}
    m.node(op, x, *([m.ints(axes)] if axes or m.chance(2) else []), keeps=exact, **settings)


@recipe("ArgMax", "ArgMin")
def arg(m: Maker, op: str) -> None:
    x = m.operand(("float32", "float32", "float64", "int32"), range(1, 6), least=1)
    last = {"select_last_index": 1} if m.since(op) >= 12 and m.chance(3) else {}
    m.node(op, x, axis=m.axis(x), keepdims=m.number(0, 1), **last)


@recipe("Softmax", "LogSoftmax", "Hardmax", loose=True)
def softmax(m: Maker, op: str) -> None:
    x = m.operand(FLOAT if op != "Hardmax" else WIDE, range(1, 6))
    m.node(op, x, **({} if m.chance(3) else {"axis": m.axis(x)}))


@recipe("CumSum", "CumProd")
def cumulated(m: Maker, op: str) -> None:
    x = m.operand(("float32", "float32", "float64", "int32", "int64"), range(1, 5))
    axis = m.constant(m.axis(x), m.pick(("int64", "int32")))
    m.node(op, x, axis, exclusive=m.number(0, 1), reverse=m.number(0, 1))


@recipe("TopK")
def top(m: Maker, op: str) -> None:
    x = m.operand(("float32", "float32", "float64", "int64"), range(1, 5), least=1)
    axis = m.axis(x)
    count = m.number(1, x.shape[axis])
    settings = {"largest": m.number(0, 1)} if m.opset >= 11 else {}
    if m.opset < 10:
        m.node(op, x, outputs=2, axis=axis, k=count)
    else:
        m.node(op, x, m.ints([count]), outputs=2, axis=axis, keeps=True, **settings)


@recipe("LpNormalization")
def lp_normalization(m: Maker, op: str) -> None:
    x = m.operand(WIDE, range(1, 5), least=1)
    m.node(op, x, axis=m.axis(x), p=m.number(1, 2))


@recipe("MeanVarianceNormalization")
def mean_variance(m: Maker, op: str) -> None:
    x = m.operand(("float32",), (4,), least=1)
    if not all(np.ptp(a, (2, 3)).all() for a in (x.array, *x.shaken)):
        raise Rejected("onnxruntime divides nothing by nothing, without the standard's epsilon")
    m.node(op, x, **({} if m.chance(2) else {"axes": [2, 3]}))


@recipe("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization")
def layer_normalization(m: Maker, op: str) -> None:
    x = m.operand(("float32",), range(1, 5))  # onnxruntime normalizes doubles in single precision
    axis = m.axis(x)
    if op != "RMSNormalization" and prod(x.shape[axis:]) == 1:
        raise Rejected("one element")
    bias = [m.new(x.shape[axis:], x.dtype)] if op[0] == "L" and m.chance(2) else []
    scale = m.new(x.shape[axis:], x.dtype)
    if op == "SimplifiedLayerNormalization":
        m.node(op, x, scale, axis=axis, epsilon=1e-5)
    else:
        m.node(op, x, scale, *bias, axis=axis, epsilon=m.pick((1e-5, 1e-2)))


@recipe("GroupNormalization")
def group_normalization(m: Maker, op: str) -> None:
    groups, each = m.number(1, 3), m.number(1, 3)
    x = m.like((m.number(1, 2), groups * each, *m.shape(m.number(1, 2), 2)))
    count = groups if m.since(op) < 21 else groups * each
    m.node(op, x, m.new((count,)), m.new((count,)), num_groups=groups)


@recipe("InstanceNormalization")
def instance_normalization(m: Maker, op: str) -> None:
    x = m.operand(("float32",), (3, 4, 5), least=2)
    if prod(x.shape[2:]) == 1:
        raise Rejected("one element")
    m.node(op, x, m.new(x.shape[1:2]), m.new(x.shape[1:2]))


@recipe("BatchNormalization")
def batch_normalization(m: Maker, op: str) -> None:
    x = m.operand(WIDE, range(2, 6))
    c = x.shape[1:2]
    operands = m.new(c, x.dtype), m.new(c, x.dtype), m.new(c, x.dtype), m.positive(c, x.dtype)
    m.node(op, x, *operands, epsilon=m.pick((1e-5, 0.1)))


@recipe("LRN")
def lrn(m: Maker, op: str) -> None:
    x = m.operand(("float32",), (4,))
    m.node(op, x, size=m.pick((1, 3, 5)), alpha=m.pick((0.0001, 0.1)), beta=0.75, bias=m.pick((1.0, 2.0)))


@recipe("Einsum")
def einsum(m: Maker, op: str) -> None:
    x = m.operand(WIDE, (2,))
    equation, shape = m.pick((
        ("ij,jk->ik", (x.shape[1], m.number(1, 5))), ("ij,ij->i", x.shape), ("ij,kj->ki", (m.number(1, 5), x.shape[1])),
        ("ij->ji", None), ("ij->j", None), ("ij->", None), ("ij,k->ijk", (m.number(1, 4),)),
        ("...i,i->...", (x.shape[1],)), ("ij,i->j", (x.shape[0],)),
    ))  # fmt: skip
    m.node(op, x, *([] if shape is None else [m.like(shape, x.dtype)]), equation=equation)


@recipe("Det")
def det(m: Maker, op: str) -> None:
    n = m.number(1, 4)
    m.node(op, m.like((*m.shape(m.number(0, 2)), n, n)))


@recipe("DFT")
def dft(m: Maker, op: str) -> None:
    n, length = m.number(1, 3), m.number(2, 12)
    x = m.like((n, length, m.number(1, 2)))
    one = {"onesided": 1} if x.shape[2] == 1 and m.chance(2) else {}
    size = m.constant(m.number(2, 12), "int64") if m.chance(3) else None
    if m.since(op) >= 20:
        m.node(op, x, size, m.constant(1, "int64"), **one)
    else:
        m.node(op, x, size, axis=1, **one)


@recipe("STFT")
def stft(m: Maker, op: str) -> None:
    x = m.like((m.number(1, 2), m.number(8, 30), 1))
    window = m.new((m.number(2, 8),), constant=True)
    m.node(op, x, m.constant(m.number(1, 5), "int64"), window, onesided=m.number(0, 1))


@recipe("MelWeightMatrix")
def mel(m: Maker, op: str) -> None:
    values = ((m.number(1, 6), "int64"), (16, "int64"), (8000, "int64"), (100.0, "float32"), (3000.0, "float32"))
    m.node(op, *(m.constant(v, t) for v, t in values))


@recipe("QuantizeLinear")
def quantize(m: Maker, op: str) -> None:
    x = m.operand(("float32",), range(1, 5))
    axis = m.axis(x) if m.since(op) >= 13 and m.chance(2) else None
    shape = () if axis is None else (x.shape[axis],)
    zero = m.uniform(0, 9, shape, m.pick(("uint8", "int8"))) if m.chance(2) else None
    settings = {} if axis is None else {"axis": axis}
    m.node(op, x, m.leaf((np.abs(m.values(shape)) / 9 + 0.013).astype("float32")), zero, steps=1, **settings)


@recipe("DequantizeLinear")
def dequantize(m: Maker, op: str) -> None:
    x = m.operand(("uint8", "int8", "int32"), range(1, 5))
    axis = m.axis(x) if m.since(op) >= 13 and m.chance(2) else None
    shape = () if axis is None else (x.shape[axis],)
    zero = m.uniform(0, 9, shape, x.dtype) if m.chance(2) and x.dtype != "int32" else None
    m.node(op, x, m.positive(shape), zero, **({} if axis is None else {"axis": axis}))


@recipe("DynamicQuantizeLinear")
def dynamic_quantize(m: Maker, op: str) -> None:
    m.node(op, m.operand(("float32",), least=1), outputs=3, steps=1)


def _condition(m: Maker) -> tuple[str, ...]:
    return tuple(m.pick(("Neg", "Abs", "Relu", "Tanh", "Identity")) for _ in range(2))


@recipe("If")
def if_(m: Maker, op: str) -> None:
    info = helper.make_tensor_value_info
    value = helper.make_tensor("v", TensorProto.FLOAT, [2, 3], m.values((2, 3)).reshape(-1))
    branches = [
        helper.make_graph(
            [helper.make_node("Constant", [], ["v"], value=value), helper.make_node(f, ["v"], ["z"])],
            f"b{k}",
            [],
            [info("z", TensorProto.FLOAT, [2, 3])],
        )
        for k, f in enumerate(_condition(m))
    ]
    m.node(op, m.constant(m.chance(2)), then_branch=branches[0], else_branch=branches[1])


@recipe("Loop")
def loop(m: Maker, op: str) -> None:
    x = m.operand(("float32",))
    info = helper.make_tensor_value_info
    first, second = _condition(m)
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["on"]), helper.make_node(first, ["s"], ["a"]),
            helper.make_node("Cast", ["k"], ["f"], to=TensorProto.FLOAT), helper.make_node("Add", ["a", "f"], ["next"]),
            helper.make_node(second, ["next"], ["kept"]),
        ],
        "body",
        [info("k", TensorProto.INT64, []), info("go", TensorProto.BOOL, []), info("s", TensorProto.FLOAT, None)],
        [info("on", TensorProto.BOOL, []), info("next", TensorProto.FLOAT, None),
         info("kept", TensorProto.FLOAT, None)],
    )  # fmt: skip
    m.node(op, m.constant(m.number(1, 4), "int64"), m.constant(True), x, outputs=2, body=body)


@recipe("Scan")
def scan(m: Maker, op: str) -> None:
    x = m.operand(("float32",), (2, 3), least=1)
    info = helper.make_tensor_value_info
    first, second = _condition(m)
    added, same = ("next", "sum") if m.number(0, 1) else ("sum", "next")  # rounds depend on one another, or do not
    body = helper.make_graph(
        [
            helper.make_node(first, ["e"], ["a"]), helper.make_node("Add", ["s", "a"], [added]),
            helper.make_node("Identity", ["s"], [same]), helper.make_node(second, [added], ["kept"]),
        ],
        "body",
        [info("s", TensorProto.FLOAT, None), info("e", TensorProto.FLOAT, None)],
        [info("next", TensorProto.FLOAT, None), info("kept", TensorProto.FLOAT, None)],
    )  # fmt: skip
    state = m.like(x.shape[1:])
    settings = {"scan_input_directions": [m.number(0, 1)], "scan_output_directions": [m.number(0, 1)]}
    m.node(op, state, x, outputs=2, body=body, num_scan_inputs=1, **settings)

"""Recipes for element-wise operators."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper
from onnx_graphs import ANY, FLOAT, INTEGER, NUMBER, Maker, recipe
from onnx_reference import Tensor

SIGNED = ("float32", "float32", "float64", "float16", "int64", "int32", "int8")
BITS = ("int64", "int32", "uint8", "int8")


@recipe("Ceil", "Floor", "Round", "Sigmoid", "Tanh", "Erf", "Exp", "Sqrt", "Reciprocal", "Log", "Sin", "Cos", "Tan",
        "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh", "Softplus", "Softsign", "Mish", "HardSwish",
        "Selu", "Swish", "Relu", loose=True)  # fmt: skip
def unary(m: Maker, op: str) -> None:
    m.node(op, m.operand(FLOAT), keeps=op in ("Ceil", "Floor", "Round", "Relu"))


@recipe("Abs", "Neg", "Sign", loose=True)
def signed(m: Maker, op: str) -> None:
    m.node(op, m.operand(SIGNED), keeps=True)


@recipe("Elu", "Celu", "LeakyRelu", "ThresholdedRelu", loose=True)
def with_alpha(m: Maker, op: str) -> None:
    m.node(op, m.operand(FLOAT), **({} if m.chance(3) else {"alpha": m.pick((0.1, 0.5, 1.0, 2.0))}))


@recipe("HardSigmoid", loose=True)
def hard_sigmoid(m: Maker, op: str) -> None:
    m.node(op, m.operand(FLOAT), alpha=m.pick((0.2, 0.3)), beta=m.pick((0.5, 0.0)))


@recipe("Shrink", loose=True)
def shrink(m: Maker, op: str) -> None:
    x = m.operand(("float32", "float16"))  # onnxruntime shrinks doubles in single precision
    m.node(op, x, lambd=m.pick((0.5, 1.0)), bias=m.pick((0.0, 0.5)))


@recipe("Gelu", loose=True)
def gelu(m: Maker, op: str) -> None:
    x = m.operand(("float32", "float32", "float16"))  # the standard's own body has constants of single precision
    m.node(op, x, approximate=m.pick(("none", "tanh")))


@recipe("IsNaN", "IsInf", loose=True)
def is_special(m: Maker, op: str) -> None:
    x = m.operand(FLOAT)
    if m.chance(2):
        x = m.node(m.pick(("Log", "Sqrt", "Reciprocal")), x)[0]
    m.node(op, x)


@recipe("Identity", loose=True)
def identity(m: Maker, op: str) -> None:
    m.node(op, m.operand(ANY), keeps=True)


@recipe("BitwiseNot", loose=True)
def bitwise_not(m: Maker, op: str) -> None:
    m.node(op, m.operand(BITS))


@recipe("Not", loose=True)
def not_(m: Maker, op: str) -> None:
    m.node(op, m.operand(("bool",)))


def _pair(m: Maker, dtypes: tuple[str, ...]) -> tuple[Tensor, Tensor]:
    x = m.operand(dtypes)
    y = m.partner(x)
    return (x, y) if m.chance(2) else (y, x)


@recipe("Add", "Sub", "Mul", loose=True)
def arithmetic(m: Maker, op: str) -> None:
    m.node(op, *_pair(m, NUMBER))


@recipe("Div", loose=True)
def divide(m: Maker, op: str) -> None:
    x = m.operand(NUMBER)
    y = m.partner(x)
    if x.dtype not in FLOAT and (not y.array.all() or not y.is_constant):
        y = m.positive(y.shape, x.dtype)
    m.node(op, x, y)


@recipe("Pow")
def power(m: Maker, op: str) -> None:
    x = m.operand(("float32", "float32", "float64", "int32", "int64"))
    exponent = m.pick((2, 3, 0, 1) if x.dtype not in FLOAT else (2, 3, 0.5, -1, 0, 1.5))
    m.node(op, x, m.constant(exponent, x.dtype) if m.chance(2) else m.leaf(np.abs(m.partner(x).array)))


@recipe("Mod")
def modulo(m: Maker, op: str) -> None:
    x = m.operand(("float32", "float64", *INTEGER))
    y = m.positive(m.partner(x).shape, x.dtype)
    m.node(op, x, y, fmod=1 if x.dtype in FLOAT else m.number(0, 1))


@recipe("PRelu")
def prelu(m: Maker, op: str) -> None:
    x = m.operand(("float32", "float32", "float64"))
    m.node(op, x, m.new([1 if m.chance(2) else e for e in x.shape], x.dtype))


@recipe("BitShift")
def shift(m: Maker, op: str) -> None:
    x = m.operand(("uint8",))
    m.node(op, x, m.uniform(0, 7, x.shape, x.dtype), direction=m.pick(("LEFT", "RIGHT")))


@recipe("BitwiseAnd", "BitwiseOr", "BitwiseXor")
def bitwise(m: Maker, op: str) -> None:
    m.node(op, *_pair(m, BITS))


@recipe("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual", loose=True)
def compare(m: Maker, op: str) -> None:
    m.node(op, *_pair(m, NUMBER))


@recipe("And", "Or", "Xor", loose=True)
def logic(m: Maker, op: str) -> None:
    m.node(op, *_pair(m, ("bool",)))


@recipe("Max", "Min", "Sum", "Mean")
def variadic(m: Maker, op: str) -> None:
    x = m.operand(NUMBER if op in ("Max", "Min") else FLOAT)
    m.node(op, x, *(m.partner(x) for _ in range(m.number(0, 3))), keeps=op in ("Max", "Min"))


@recipe("Where")
def where(m: Maker, op: str) -> None:
    condition = m.operand(("bool",))
    x = m.like(condition.shape, m.pick(ANY))
    y = m.partner(x)
    m.node(op, condition, *((x, y) if m.chance(2) else (y, x)), keeps=True)


@recipe("Clip", loose=True)
def clip(m: Maker, op: str) -> None:
    x = m.operand(NUMBER if m.opset >= 12 else FLOAT)
    low, high = m.pick(((-1, 1), (0, 6), (-2, None), (None, 2), (None, None), (1, -1)))
    if m.opset < 11:
        m.node(op, x, keeps=True, **{n: float(v) for n, v in (("min", low), ("max", high)) if v is not None})
    else:
        limits = [None if v is None else m.leaf(np.asarray(v, x.dtype)) for v in (low, high)]
        m.node(op, x, *limits, keeps=True)


def type_of(name: str) -> int:
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(name)))


def _cast_type(m: Maker, x: Tensor) -> str:
    """A type that holds every element: what others become is not defined."""
    low, high = x.array.min(initial=0), x.array.max(initial=0)
    limits = {t: np.iinfo(t) for t in ANY if t.strip("u").startswith("int")}
    fits = [t for t in ANY if t not in limits or (float(low) >= limits[t].min and float(high) <= limits[t].max)]
    return str(m.pick(fits))


@recipe("Cast", loose=True)
def cast(m: Maker, op: str) -> None:
    x = m.operand(ANY)
    m.node(op, x, to=type_of(_cast_type(m, x)))


@recipe("CastLike")
def cast_like(m: Maker, op: str) -> None:
    x = m.operand(ANY)
    m.node(op, x, m.operand((_cast_type(m, x),)))


@recipe("BitCast")
def bit_cast(m: Maker, op: str) -> None:
    x = m.operand(("float32", "int32"))
    m.node(op, x, to=TensorProto.INT32 if x.dtype == "float32" else TensorProto.FLOAT)


@recipe("Dropout", loose=True)
def dropout(m: Maker, op: str) -> None:
    # The mask has a meaning at inference since operator set 12.
    m.node(op, m.operand(FLOAT), outputs=m.number(1, 2 if m.opset >= 12 else 1), keeps=True)

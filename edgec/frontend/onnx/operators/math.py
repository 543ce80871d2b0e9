"""Elementwise arithmetic."""

from __future__ import annotations

from functools import reduce

import numpy as np

from edgec.frontend.onnx.call import Call, Lowering, onnx
from edgec.frontend.onnx.model import element_type
from edgec.frontend.onnx.sequences import Item
from edgec.frontend.values import Value, clip, constant, emit, full, maximum, minimum, select
from edgec.ir.types import DTYPES, MINIFLOATS, STORED, ends


def _same(core: str) -> Lowering:
    """An ONNX operator that is a core operator."""

    def lower(call: Call) -> Value:
        return emit(core, *call.aligned)

    return lower


for _operator, _core in {
    "Abs": "abs", "Acos": "acos", "Acosh": "acosh", "Asin": "asin", "Asinh": "asinh", "Atan": "atan",
    "Atanh": "atanh", "Ceil": "ceil", "Cos": "cos", "Cosh": "cosh", "Erf": "erf", "Exp": "exp",
    "Floor": "floor", "Log": "log", "Neg": "neg", "Round": "round", "Sigmoid": "sigmoid", "Sign": "sign", "Sin": "sin",
    "Sinh": "sinh", "Sqrt": "sqrt", "Tan": "tan", "Tanh": "tanh", "Add": "add", "Sub": "sub", "Mul": "mul",
    "Div": "div", "Where": "select",
}.items():  # fmt: skip
    onnx(_operator)(_same(_core))


@onnx("Reciprocal")
def reciprocal(call: Call) -> Value:
    return 1 / call[0]


@onnx("Pow")
def pow_(call: Call) -> Value:
    """The base decides the type; small whole exponents are multiplications."""
    x, y = call.aligned
    if y.is_const and y.node.type.elements == 1 and x.is_float and y.rank <= x.rank:
        exponent = float(y.node.value.reshape(()))
        if exponent == 0.5:
            return emit("sqrt", x)
        if exponent in (1.0, 2.0, 3.0):
            return reduce(lambda a, b: a * b, [x] * int(exponent))
    if x.is_float:
        return emit("pow", x, y.cast(x.dtype))
    wide = "f64" if y.is_float else x.dtype
    return emit("pow", x.cast(wide), y.cast(wide)).cast(x.dtype)


@onnx("Mod")
def mod(call: Call) -> Value:
    """The sign follows the divisor, or (fmod) the dividend."""
    return emit("fmod" if call.attribute("fmod") else "floormod", call[0], call[1])


@onnx("Max")
def max_(call: Call) -> Value:
    return reduce(maximum, call.operands)


@onnx("Min")
def min_(call: Call) -> Value:
    return reduce(minimum, call.operands)


@onnx("Sum")
def sum_(call: Call) -> Value:
    return reduce(lambda a, b: a + b, call.operands)


@onnx("Mean")
def mean(call: Call) -> Value:
    total = reduce(lambda a, b: a + b, call.operands)
    return total * (1.0 / len(call.operands))


@onnx("Clip")
def clip_(call: Call) -> Value:
    """Bounds are attributes before opset 11 and optional inputs since."""
    low: Value | float | None = call.attribute("min") if call.opset < 11 else call.optional(1)
    high: Value | float | None = call.attribute("max") if call.opset < 11 else call.optional(2)
    x = call[0] if low is None else maximum(call[0], low)
    return x if high is None else minimum(x, high)


@onnx("BitShift")
def bit_shift(call: Call) -> Value:
    """Shifting by the width of the type or more leaves only the sign, where C leaves the result open."""
    x, amount = call[0], call[1]
    bits = DTYPES[x.dtype].itemsize * 8
    if call.required("direction") == "LEFT":
        return select(amount < bits, emit("shl", x, minimum(amount, bits - 1)), 0)
    shifted = emit("shr", x, minimum(amount, bits - 1))
    return shifted if x.dtype.startswith("i") else select(amount < bits, shifted, 0)


for _operator, _core in {
    "BitwiseAnd": "bitand", "BitwiseOr": "bitor", "BitwiseXor": "bitxor", "BitwiseNot": "bitnot",
}.items():  # fmt: skip
    onnx(_operator)(_same(_core))


@onnx("Cast", "CastLike")
def cast(call: Call) -> Value:
    to = call[1].dtype if call.operator == "CastLike" else element_type(call.required("to"))
    if to == "f8e8m0":
        return power_of_two(call, call[0])
    return converted(call[0], to, saturate=bool(call.attribute("saturate", 1)))


def converted(x: Value, to: str, saturate: bool = True) -> Value:
    """ONNX's Cast: truth is being other than 0, fractions are cut, floats of 8 bits have their ends as limits."""
    x = x.cast("f32") if x.dtype in MINIFLOATS else x
    if to == "bool" and x.dtype != "bool":
        return emit("ne", x.cast("i8") if x.dtype in STORED else x, 0)
    if saturate and to in MINIFLOATS and to != "f8e8m0":
        x = x if x.is_float else x.cast("f32")
        x = clip(x, *ends(to))
    return x.cast(to)


def power_of_two(call: Call, x: Value) -> Value:
    """A float as its exponent alone (e8m0): the sign is dropped, a fraction rounds as ``round_mode`` says."""
    mode = call.attribute("round_mode", "up")
    pattern = emit("bitcast", x.cast("f32"), to="u32")
    exponent = emit("bitand", emit("shr", pattern, 23), 0xFF)
    fraction = emit("bitand", pattern, 0x7FFFFF)
    if mode not in ("up", "nearest", "down"):
        raise call.error(f"round_mode '{mode}' is none of up, nearest and down")
    rises = {
        "up": fraction > 0,
        "nearest": (fraction > 0x400000) | ((fraction >= 0x400000) & (exponent > 0)),
        "down": fraction < 0,
    }[mode]
    greatest = 0xFE if call.attribute("saturate", 1) else 0xFF
    rounded = minimum(exponent + rises.cast("u32"), greatest)
    return emit("bitcast", select(exponent.equals(0xFF), 0xFF, rounded).cast("u8"), to="f8e8m0")


@onnx("BitCast")
def bit_cast(call: Call) -> Value:
    return emit("bitcast", call[0], to=element_type(call.required("to")))


@onnx("IsNaN")
def is_nan(call: Call) -> Value:
    """Integers, which some exporters ask too, are none."""
    x = call[0]
    return emit("isnan", x) if x.is_float else full(x.shape, False, "bool")


@onnx("IsInf")
def is_inf(call: Call) -> Value:
    x = call[0]
    if not x.is_float:
        return full(x.shape, False, "bool")
    if call.attribute("detect_positive", 1) and call.attribute("detect_negative", 1):
        return emit("isinf", x)
    if call.attribute("detect_positive", 1):
        return x.equals(float("inf"))
    if call.attribute("detect_negative", 1):
        return x.equals(float("-inf"))
    return constant(np.zeros((), np.bool_)).broadcast(*x.shape)


@onnx("Identity")
def identity(call: Call) -> Item:
    item = call.item(0)
    return call[0] if item is None else item

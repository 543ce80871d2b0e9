"""Quantized numbers: a real number is (integer - zero point) * scale.

Quantized weights stay integers: they are not folded into floats here, so that a later stage can use them.
"""

from __future__ import annotations

from math import prod

from edgec.frontend.onnx.call import Call, onnx
from edgec.frontend.onnx.model import element_type
from edgec.frontend.onnx.operators.conv import convolve, per_channel
from edgec.frontend.onnx.operators.linear import matmul_of
from edgec.frontend.onnx.operators.math import converted
from edgec.frontend.values import Value, build, clip, dequantized, emit, normalize_axis, select
from edgec.ir.types import MINIFLOATS, STORED, ends


def saturated(x: Value, dtype: str) -> Value:
    """Rounded already, clamped into the range of an integer type, and cast to it."""
    low, high = ends(dtype)
    if x.is_float:
        return clip(x, float(low), float(high)).cast(dtype)
    return clip(x, low, high).cast(dtype)


def _spread(call: Call, parameter: Value, x: Value) -> Value:
    """Scale or zero point in a shape that broadcasts against x: one for all, one a slice, or one a block."""
    if prod(parameter.shape) == 1:
        return parameter.reshape()
    axis = call.attribute("axis", 1)
    if x.rank == 1 and parameter.shape == x.shape and not -1 <= axis < 1:
        call.warn(f"axis {axis} is outside a tensor of 1 dimension; its only dimension is taken")
        axis = 0
    axis = normalize_axis(axis, x.rank)
    block = call.attribute("block_size", 0)
    if block:
        shape = [*parameter.shape[: axis + 1], block, *parameter.shape[axis + 1 :]]
        spread = parameter.unsqueeze(axis + 1).broadcast(*shape)
        whole = [*parameter.shape]
        whole[axis] *= block
        return spread.reshape(*whole).part(axis, 0, x.shape[axis])
    if parameter.rank != 1 or parameter.shape[0] != x.shape[axis]:
        raise call.error(f"{list(parameter.shape)} scales for dimension {axis} of shape {list(x.shape)}")
    return parameter.reshape(*(x.shape[d] if d == axis else 1 for d in range(x.rank)))


def _zero_point(call: Call, k: int) -> Value | None:
    """The zero point, or None where it is 0."""
    zero = call.optional(k)
    return None if zero is None or (zero.is_const and not zero.node.value.any()) else zero


@onnx("DequantizeLinear")
def dequantize(call: Call) -> Value:
    x, scale = call[0], call[1]
    code = call.attribute("output_dtype", 0)
    dtype = element_type(code) if code else scale.dtype
    zero = _zero_point(call, 2)
    block = call.attribute("block_size", 0)
    if block and scale.rank == x.rank and not x.is_float:
        axis = normalize_axis(call.attribute("axis", 1), x.rank)
        return dequantized(x, scale, zero, axis, block).cast(dtype)
    y = Value(build("cast", x, to="f32").node)
    if zero is not None:
        y = y - _spread(call, zero, x).cast("f32")
    return (y * _spread(call, scale, x).cast("f32")).cast(dtype)


@onnx("QuantizeLinear")
def quantize(call: Call) -> Value:
    x, scale, zero = call[0], call[1], _zero_point(call, 2)
    code = call.attribute("output_dtype", 0)
    given = call.optional(2)
    dtype = element_type(code) if code else given.dtype if given is not None else "u8"
    if dtype not in {"i8", "u8", "i16", "u16", "i32"} | STORED - {"f8e8m0"}:
        raise call.error(f"quantizing to {dtype} is not supported")
    code = call.attribute("precision", 0)
    precision = element_type(code) if code else "f32"
    y = x.cast(precision) / _spread(call, scale, x).cast(precision)
    if dtype in MINIFLOATS:  # their zero point is 0
        return converted(y, dtype, saturate=bool(call.attribute("saturate", 1)))
    y = emit("round", y).cast("f32")
    if zero is not None:
        y = y + _spread(call, zero, x).cast("f32")
    return saturated(y, dtype)


@onnx("DynamicQuantizeLinear")
def dynamic_quantize(call: Call) -> tuple[Value, Value, Value]:
    return dynamically_quantized(call[0])


def dynamically_quantized(x: Value) -> tuple[Value, Value, Value]:
    """x as u8, with scale and zero point from the extremes of the tensor itself (and 0).

    A tensor of nothing but zeros has the scale 1, as in onnxruntime: the standard divides nothing by nothing there.
    The extremes are those of the numbers, so that a row with NaN leaves the others as they are; onnxruntime's depend on
    where the NaN is.
    """
    numbers = select(emit("isnan", x), 0.0, x)
    low = emit("min", numbers.reduce("min", range(x.rank), keep=False), 0.0)
    high = emit("max", numbers.reduce("max", range(x.rank), keep=False), 0.0)
    span = high - low
    scale = select(emit("lt", 0.0, span), span / 255.0, 1.0)
    zero = emit("round", clip(-low / scale, 0.0, 255.0))
    y = saturated(emit("round", x / scale) + zero, "u8")
    return y, scale, zero.cast("u8")


def offset(call: Call, k: int, zero: int, axis: int | None = None) -> Value:
    """Operand k as i32 minus its zero point (one for all, or one for each place along ``axis``)."""
    x = build("cast", call[k], to="i32")
    z = _zero_point(call, zero)
    if z is None:
        return x
    if prod(z.shape) == 1:
        z = z.reshape()
    elif z.rank == 1 and axis is not None:
        axis = normalize_axis(axis, x.rank)
        z = z.reshape(*(x.shape[d] if d == axis else 1 for d in range(x.rank)))
    return x - z.cast("i32")


@onnx("MatMulInteger")
def matmul_integer(call: Call) -> Value:
    return matmul_of(offset(call, 0, 2, axis=-2), offset(call, 1, 3, axis=-1))


@onnx("ConvInteger")
def conv_integer(call: Call) -> Value:
    """Padding means the zero point: 0 after it is subtracted."""
    return convolve(call, offset(call, 0, 2), offset(call, 1, 3, axis=0))


def requantized(call: Call, total: Value, factor: Value, scale: int, zero: int) -> Value:
    """An i32 sum in units of ``factor`` as the quantized output; like the reference, scaled in f32."""
    y = emit("round", total.cast("f32") * (factor / call[scale].reshape().cast("f32")))
    z = _zero_point(call, zero)
    if z is not None:
        y = y + z.reshape().cast("f32")
    return saturated(y, call[zero].dtype)


@onnx("QLinearConv")
def qlinear_conv(call: Call) -> Value:
    y = convolve(call, offset(call, 0, 2), offset(call, 3, 5, axis=0))
    bias = call.optional(8)
    if bias is not None:
        y = y + per_channel(bias, y.rank)
    weight_scale = call[4]
    weight_scale = per_channel(weight_scale, y.rank) if prod(weight_scale.shape) > 1 else weight_scale.reshape()
    return requantized(call, y, weight_scale * call[1].reshape(), 6, 7)


@onnx("QLinearMatMul")
def qlinear_matmul(call: Call) -> Value:
    """Scales are one for all, or one a row of the left and one a column of the right operand."""
    y = matmul_of(offset(call, 0, 2, axis=-2), offset(call, 3, 5, axis=-1))
    left, right = (call[k].cast("f32") for k in (1, 4))
    left = left.reshape() if prod(left.shape) == 1 else left.unsqueeze(-1) if left.rank == 1 else left
    right = right.reshape() if prod(right.shape) == 1 else right
    return requantized(call, y, left * right, 6, 7)

"""Quantized operators of com.microsoft: widened, computed in f32, quantized again (products stay integers)."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from edgec.frontend.onnx.call import Call
from edgec.frontend.onnx.operators.activation import softmax_of
from edgec.frontend.onnx.operators.linear import matmul_of
from edgec.frontend.onnx.operators.microsoft.attention import self_attention
from edgec.frontend.onnx.operators.microsoft.domain import microsoft
from edgec.frontend.onnx.operators.microsoft.normalization import embed_layer_normalization
from edgec.frontend.onnx.operators.pool import average_pool, max_pool
from edgec.frontend.onnx.operators.quantization import (
    dequantize,
    dynamically_quantized,
    offset,
    qlinear_conv,
    quantize,
    requantized,
    saturated,
)
from edgec.frontend.onnx.sequences import Item
from edgec.frontend.values import Value, build, concat, constant, emit, normalize_axis, select, size

microsoft("QuantizeLinear")(quantize)
microsoft("DequantizeLinear")(dequantize)


def real(call: Call, k: int) -> Value:
    """Operand k as f32, by the scale and the zero point that follow it."""
    x = Value(build("cast", call[k], to="f32").node)
    zero = call.optional(k + 2)
    x = x if zero is None else x - zero.reshape().cast("f32")
    return x * call[k + 1].reshape().cast("f32")


def quantized(call: Call, y: Value, k: int, shifted: bool = False) -> Value:
    """y by the scale that is operand k and the zero point after it, or 0; ``shifted``: rounded with the zero point."""
    return _stored(call, y / call[k].reshape().cast("f32"), k, shifted)


def _stored(call: Call, y: Value, k: int, shifted: bool = False) -> Value:
    """Multiples of the scale, rounded, with the zero point that is operand k + 1."""
    zero = call.optional(k + 1)
    if zero is None:
        return saturated(emit("round", y), call[0].dtype)
    offset = zero.reshape().cast("f32")
    return saturated(emit("round", y + offset) if shifted else emit("round", y) + offset, zero.dtype)


@microsoft("QLinearAdd")
def qlinear_add(call: Call) -> Value:
    """Each operand times its scale over that of the result, and one number; rounded with the zero point."""
    parts, fixed = [], constant(0.0, "f32")
    for k in (0, 3):
        ratio, zero = call[k + 1].reshape().cast("f32") / call[6].reshape().cast("f32"), call.optional(k + 2)
        parts.append(Value(build("cast", call[k], to="f32").node) * ratio)
        fixed = fixed if zero is None else fixed - ratio * zero.reshape().cast("f32")
    zero = call.optional(7)
    fixed = fixed if zero is None else fixed + zero.reshape().cast("f32")
    return saturated(emit("round", parts[0] + parts[1] + fixed), call[0].dtype)


@microsoft("QLinearMul")
def qlinear_mul(call: Call) -> Value:
    """The product of two integers, exactly, times one number; rounded with the zero point."""
    a, b = (offset(call, k, k + 2) for k in (0, 3))
    factor = call[1].reshape() * call[4].reshape() / call[6].reshape()
    y, zero = (a * b).cast("f32") * factor, call.optional(7)
    return saturated(emit("round", y if zero is None else y + zero.reshape().cast("f32")), call[0].dtype)


@microsoft("QLinearWhere")
def qlinear_where(call: Call) -> Value:
    return quantized(call, select(call[0], real(call, 1), real(call, 4)), 7)


@microsoft("QLinearSigmoid")
def qlinear_sigmoid(call: Call) -> Value:
    return quantized(call, emit("sigmoid", real(call, 0)), 3)


@microsoft("QLinearLeakyRelu")
def qlinear_leaky_relu(call: Call) -> Value:
    x = real(call, 0)
    return quantized(call, select(x < 0, x * call.attribute("alpha", 0.01), x), 3)


@microsoft("QLinearSoftmax")
def qlinear_softmax(call: Call) -> Value:
    """``opset`` is that of the Softmax it was: before 13 the dimensions from ``axis`` on are one.

    As in onnxruntime, the reciprocal of the result's scale is cut off to a whole number.
    """
    x = real(call, 0)
    axis = normalize_axis(call.attribute("axis", -1), x.rank)
    if call.required("opset") < 13:
        flat = x.reshape(prod(x.shape[:axis]), prod(x.shape[axis:]))
        y = softmax_of(flat, 1).reshape(*x.shape)
    else:
        y = softmax_of(x, axis)
    return _stored(call, y * emit("floor", 1.0 / call[3].reshape().cast("f32")), 3)


@microsoft("QLinearConcat")
def qlinear_concat(call: Call) -> Value:
    """The scale and zero point of the result come first, then every part with its own."""
    parts = [real(call, k) for k in range(2, len(call.inputs), 3)]
    return quantized(call, concat(parts, normalize_axis(call.required("axis"), parts[0].rank)), 0)


def channels_first(call: Call, x: Value) -> Value:
    """[N, S.., C] as [N, C, S..], where the node says it is so."""
    return x.transpose(0, x.rank - 1, *range(1, x.rank - 1)) if call.attribute("channels_last", 0) else x


def channels_as_given(call: Call, y: Value) -> Value:
    return y.transpose(0, *range(2, y.rank), 1) if call.attribute("channels_last", 0) else y


@microsoft("QLinearAveragePool")
def qlinear_average_pool(call: Call) -> Value:
    y = average_pool(replace(call, inputs=(channels_first(call, real(call, 0)),)))
    return quantized(call, channels_as_given(call, y), 3, shifted=True)


@microsoft("QLinearGlobalAveragePool")
def qlinear_global_average_pool(call: Call) -> Value:
    """The sum of integers, exactly, times one number."""
    x = channels_first(call, offset(call, 0, 2))
    count = size(prod(x.shape[2:])).cast("f32")
    factor = call[1].reshape().cast("f32") / (call[3].reshape().cast("f32") * count)
    return _stored(call, channels_as_given(call, x.sum(range(2, x.rank)).cast("f32") * factor), 3)


@microsoft("QLinearConv")
def qlinear_conv_of_any_layout(call: Call) -> Value:
    """The standard's operator, whose channels may come last."""
    operands = (channels_first(call, call[0]), *call.inputs[1:])
    return channels_as_given(call, qlinear_conv(replace(call, inputs=operands)))


@microsoft("NhwcMaxPool")
def nhwc_max_pool(call: Call) -> Value:
    x = call[0]
    first = x.transpose(0, x.rank - 1, *range(1, x.rank - 1))
    y = max_pool(replace(call, inputs=(first,), outputs=call.outputs[:1]))
    assert isinstance(y, Value)
    return y.transpose(0, *range(2, y.rank), 1)


@microsoft("QGemm")
def qgemm(call: Call) -> Value:
    """i32 products of both operands without their zero points; the bias is in units of both scales."""
    a, b, bias = offset(call, 0, 2), offset(call, 3, 5, axis=0 if call.attribute("transB", 0) else 1), call.optional(6)
    a = a.swap(0, 1) if call.attribute("transA", 0) else a
    y = a @ (b.swap(0, 1) if call.attribute("transB", 0) else b)
    y = y if bias is None else y + bias
    factor = call[1].reshape() * _one_or_row(call[4]) * call.attribute("alpha", 1.0)
    return y.cast("f32") * factor if call.optional(7) is None else requantized(call, y, factor, 7, 8)


def _one_or_row(scale: Value) -> Value:
    return scale.reshape() if prod(scale.shape) == 1 else scale


@microsoft("MatMulIntegerToFloat")
def matmul_integer_to_float(call: Call) -> Value:
    y = matmul_of(offset(call, 0, 4, axis=-1), offset(call, 1, 5, axis=-1)).cast("f32")
    return _with_bias(y * (_one_or_row(call[2]) * _one_or_row(call[3])), call.optional(6))


@microsoft("DynamicQuantizeMatMul")
def dynamic_quantize_matmul(call: Call) -> Value:
    """The left operand is quantized by its own extremes."""
    a, scale, zero = dynamically_quantized(call[0])
    left = a.cast("i32") - zero.cast("i32")
    y = matmul_of(left, offset(call, 1, 3, axis=-1)).cast("f32")
    return _with_bias(y * (scale * _one_or_row(call[2])), call.optional(4))


@microsoft("MatMulInteger16")
def matmul_integer16(call: Call) -> Value:
    return matmul_of(call[0].cast("i32"), call[1].cast("i32"))


def _with_bias(y: Value, bias: Value | None) -> Value:
    return y if bias is None else y + bias


@microsoft("QAttention")
def quantized_attention(call: Call) -> list[Value | None]:
    """Attention whose projection is a product of integers."""
    y = matmul_of(offset(call, 0, 6), offset(call, 1, 7, axis=-1)).cast("f32")
    y = y * (call[3].reshape() * _one_or_row(call[4])) + call[2]
    if call.attribute("do_rotary", 0) or call.attribute("past_present_share_buffer", 0):
        raise call.error("rotary positions and shared buffers are not supported inside it")
    return self_attention(call, y, call.optional(5), call.optional(8), extra=9)


@microsoft("QEmbedLayerNormalization")
def q_embed_layer_normalization(call: Call) -> tuple[Value, Value]:
    """EmbedLayerNormalization of quantized tables: five scales follow its operands, then five zero points."""
    tables: list[Item | None] = []
    for k in range(2, 7):
        x, zero = call.optional(k), call.optional(k + 11)
        if x is not None:
            x = Value(build("cast", x, to="f32").node)
            x = (x if zero is None else x - zero.reshape().cast("f32")) * call[k + 6].reshape().cast("f32")
        tables.append(x)
    y, lengths, _ = embed_layer_normalization(replace(call, inputs=(*call.inputs[:2], *tables, call.item(7))))
    return y, lengths

"""The integer arithmetic of quantized networks, to the bit as TensorFlow Lite's reference kernels do it.

A real factor m is written as q / 2^31 * 2^shift with q of 31 bits. Multiplying by it rounds twice: the product is
halved 31 times rounding half up, then what is left of the shift rounds half away from zero. Newer kernels do it
all at once and round half up.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from edgec.errors import ModelError
from edgec.frontend.onnx.operators.quantization import saturated
from edgec.frontend.tflite.call import TfliteCall
from edgec.frontend.tflite.model import Tensor
from edgec.frontend.values import Value, build, clip, computed, constant, emit, select
from edgec.ir.types import DTYPES

#: Numbers of the fused activations in the format.
NONE, RELU, RELU_N1_TO_1, RELU6, TANH, SIGN_BIT = range(6)
_BOUNDS = {RELU: (0.0, None), RELU_N1_TO_1: (-1.0, 1.0), RELU6: (0.0, 6.0)}
#: Integer types that stand for real numbers where a tensor has a scale.
QUANTIZED = ("i8", "u8", "i16")


def is_quantized(tensor: Tensor) -> bool:
    return tensor.dtype in QUANTIZED and tensor.quantization is not None


def fixed_point(real: float | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mantissas q (31 bits) and shifts of real factors: real = q * 2^(shift - 31)."""
    mantissa, shift = np.frexp(np.asarray(real, np.float64))
    q = np.floor(mantissa * 2.0**31 + 0.5).astype(np.int64)
    carried = q == 2**31
    q, shift = np.where(carried, q // 2, q), shift + carried
    vanishing = shift < -31
    return np.where(vanishing, 0, q), np.where(vanishing, 0, shift)


def scaled(x: Value, real: float | np.ndarray, once: bool = False) -> Value:
    """x * real for integers x and factors that broadcast against them, rounded ``once`` or twice: i32, or i64 where
    a factor of 1 or more (or x) asks for it.
    """
    q, shift = fixed_point(real)
    if shift.max(initial=0) > 29:
        raise ModelError(f"a scale factor of {np.max(real)} is too large")
    if x.dtype == "i64" or shift.max(initial=0) > 0:
        return _scaled_wide(x, q, shift, once)
    x, right = x.cast("i32"), -shift
    exact = _shifted_back(x, int(right.flat[0]) + 1) if (q == 2**30).all() and np.ptp(right) == 0 else None
    if exact is not None:
        return exact
    if once:
        return emit("mulshift", x, constant(q, "i32"), constant(31 - shift, "i32"))
    high = emit("mulshift", x, constant(q, "i32"), constant(31, "i32"))
    if not right.any():
        return high
    # Halves are rounded up, but below 0 of one less, so that they are rounded away from 0; as q has 31 bits, nothing
    # overflows. Where nothing is left of the shift, nothing is rounded.
    below, some = emit("shr", high, constant(31, "i32")), np.ones((), np.int64) if right.all() else (right > 0) * 1
    high = high + (below if right.all() else emit("bitand", below, constant(-some, "i32")))
    up = emit("bitand", emit("shr", high, constant(np.maximum(right - 1, 0), "i32")), constant(some, "i32"))
    return emit("shr", high, constant(right, "i32")) + up


def _shifted_back(x: Value, bits: int) -> Value | None:
    """x / 2^bits where x is a product by a multiple of that, as the larger addend of a sum is; None elsewhere."""
    if x.node.op != "mul" or not x.node.args[1].is_const or x.node.args[1].value.size != 1:
        return None
    factor = int(x.node.args[1].value.item())
    return Value(x.node.args[0]) * (factor >> bits) if factor % (1 << bits) == 0 else None


def _scaled_wide(x: Value, q: np.ndarray, shift: np.ndarray, once: bool) -> Value:
    """The same in i64, where nothing can overflow."""
    wide = x.cast("i64")
    if once:
        total = constant(31 - shift, "i64")
        return emit("shr", wide * constant(q, "i64") + constant(np.int64(1) << (30 - shift), "i64"), total)
    left, right = np.maximum(shift, 0), np.maximum(-shift, 0)
    # The bits that a factor above 1 asks for go into the mantissa: |x| < 2^31 and 31 bits leave no room for more.
    if left.any():
        wide = wide * constant(np.int64(1) << left, "i64")
    high = emit("shr", wide * constant(q, "i64") + 2**30, constant(31, "i64"))
    if not right.any():
        return high
    away = constant(right > 0) & (high < 0)  # a half is rounded away from 0
    half = constant((np.int64(1) << right) >> 1, "i64")
    return emit("shr", high + half - away.cast("i64"), constant(right, "i64"))


def offset(x: Value, zero: int, to: str = "i32") -> Value:
    """x - zero, in a wider type."""
    wide = build("cast", x, to=to)  # not folded: quantized weights stay as small as they are
    return build("sub", wide, zero) if zero else wide


def bounds(call: TfliteCall, result: Tensor) -> tuple[int, int]:
    """The range of a quantized result under its fused activation."""
    limits = np.iinfo(DTYPES[result.dtype])
    low, high = int(limits.min), int(limits.max)
    activation = call.option("fused_activation_function", NONE)
    if activation == NONE:
        return low, high
    if activation not in _BOUNDS:
        raise ModelError(f"fused activation {activation} is not supported with integers")
    least, most = _BOUNDS[activation]
    scale, zero = result.quantized.scale, result.quantized.zero

    def quantized(real: float) -> int:
        return zero + int(round_away(np.float32(real) / scale))

    return max(low, quantized(least)), high if most is None else min(high, quantized(most))


def round_away(x: np.ndarray | np.float32) -> np.ndarray:
    """To the nearest integer, halves away from zero (C's round)."""
    whole = np.trunc(x)
    return np.asarray(whole + np.trunc(2 * (x - whole)))


def rounded_away(x: Value) -> Value:
    """The same for values; every step is exact, so nothing is lost."""
    whole = emit("trunc", x)
    return whole + emit("trunc", (x - whole) * 2.0)


def requantized(call: TfliteCall, x: Value, real: float | np.ndarray, once: bool = False) -> Value:
    """The result of the node from integers in units of ``real`` times the result's scale."""
    result = call.result()
    low, high = bounds(call, result)
    zero = result.quantized.zero  # added last, so that nothing overflows
    return (clip(scaled(x, real, once), low - zero, high - zero) + zero).cast(result.dtype)


def activated(call: TfliteCall, y: Value) -> Value:
    """A float (or plain integer) result under its fused activation."""
    activation = call.option("fused_activation_function", NONE)
    if activation == NONE:
        return y
    if activation == TANH:
        return emit("tanh", y)
    if activation not in _BOUNDS:
        raise ModelError(f"fused activation {activation} is not supported")
    low, high = _BOUNDS[activation]
    if not y.is_float:
        y = emit("max", y, int(low))
        return y if high is None else emit("min", y, int(high))
    y = emit("max", y, low)
    return y if high is None else emit("min", y, high)


# ---- real numbers behind integers


def dequantized(x: Value, tensor: Tensor) -> Value:
    """The real numbers (f32) that a tensor stands for."""
    scales, zeros = tensor.quantized.along(x.shape)
    y = emit("cast", x, to="i32") if zeros.any() else x
    if zeros.any():
        y = y - constant(zeros, "i32")
    return y.cast("f32") * constant(scales, "f32")


def quantized(y: Value, tensor: Tensor) -> Value:
    """Real numbers as the integers of ``tensor``: rounded half away from zero, saturated."""
    q = tensor.quantized
    scales, zeros = q.along(y.shape)
    whole = rounded_away(y / constant(scales, "f32"))
    return saturated(whole + constant(zeros, "f32") if zeros.any() else whole, tensor.dtype)


def through_reals(call: TfliteCall, formula: Callable[..., Value]) -> Value:
    """A result by its formula on real numbers; of one 8-bit operand, that is a table of 256 results."""
    operands = [v for v in call.inputs if v is not None]
    result = call.result()
    if not is_quantized(result):
        return formula(*operands)
    x = operands[0]
    if len(operands) == 1 and x.dtype in ("i8", "u8"):
        limits = np.iinfo(DTYPES[x.dtype])
        every = constant(np.arange(limits.min, limits.max + 1), x.dtype)
        table = computed(quantized(formula(dequantized(every, call.tensor(0))), result))
        assert table is not None  # of constants alone
        return emit("gather", constant(table), offset(x, int(limits.min)), axis=0)
    reals = [dequantized(v, call.tensor(k)) for k, v in enumerate(call.inputs) if v is not None]
    return quantized(formula(*reals), result)


def halved_away(total: Value, count: Value | int) -> Value:
    """total / count for integers, halves away from zero."""
    half = count // 2 if isinstance(count, int) else emit("div", count, 2)
    return emit("div", select(total > 0, total + half, total - half), count)

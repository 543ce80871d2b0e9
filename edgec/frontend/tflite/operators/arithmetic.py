"""Element-wise arithmetic of one and two operands, with broadcasting."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from edgec.errors import ModelError
from edgec.frontend.tflite.call import Lowering, TfliteCall, tflite
from edgec.frontend.tflite.integer import activated, bounds, is_quantized, offset, requantized, scaled, through_reals
from edgec.frontend.values import Value, clip, emit, maximum, minimum


@tflite("ADD", "SUB", elementwise=True)
def add(call: TfliteCall) -> Value:
    """Quantized operands are first brought to a common scale, with 20 bits (15 of 16-bit operands) to spare."""
    x, y = call[0], call[1]
    core = call.name.lower()
    result = call.result()
    if not is_quantized(result):
        return activated(call, emit(core, x, y))
    spare = 20
    if result.dtype == "i16":
        if call.option("pot_scale_int16", True) and _power_of_two(call):
            raise ModelError("16-bit sums with scales that are powers of two are not supported")
        spare = 15
    left, right = call.quantization(0), call.quantization(1)
    common = 2 * max(np.float64(left.scale), np.float64(right.scale))
    a = scaled(offset(x, left.zero) * (1 << spare), np.float64(left.scale) / common)
    b = scaled(offset(y, right.zero) * (1 << spare), np.float64(right.scale) / common)
    return requantized(call, emit(core, a, b), common / ((1 << spare) * np.float64(result.quantized.scale)))


def _power_of_two(call: TfliteCall) -> bool:
    scales = (call.quantization(0).scale, call.quantization(1).scale, call.result().quantized.scale)
    return all(np.frexp(s)[0] == 0.5 for s in scales)


@tflite("MUL", elementwise=True)
def mul(call: TfliteCall) -> Value:
    result = call.result()
    if not is_quantized(result):
        return activated(call, call[0] * call[1])
    left, right = call.quantization(0), call.quantization(1)
    factor = np.float64(left.scale * right.scale / result.quantized.scale)  # the kernels compute it in f32
    return requantized(call, offset(call[0], left.zero) * offset(call[1], right.zero), factor)


@tflite("DIV", elementwise=True)
def div(call: TfliteCall) -> Value:
    result = call.result()
    if not is_quantized(result):
        return activated(call, emit("div", call[0], call[1]))
    low, high = bounds(call, result)
    return clip(through_reals(call, lambda a, b: a / b), low, high)


@tflite("MAXIMUM", elementwise=True)
def maximum_(call: TfliteCall) -> Value:
    return maximum(call[0], call[1])


@tflite("MINIMUM", elementwise=True)
def minimum_(call: TfliteCall) -> Value:
    return minimum(call[0], call[1])


@tflite("ADD_N", elementwise=True)
def add_n(call: TfliteCall) -> Value:
    total = call[0]
    for k in range(1, len(call.inputs)):
        total = total + call[k]
    return total


@tflite("SQUARED_DIFFERENCE", elementwise=True)
def squared_difference(call: TfliteCall) -> Value:
    return through_reals(call, lambda a, b: (a - b) * (a - b))


@tflite("FLOOR_DIV", elementwise=True)
def floor_div(call: TfliteCall) -> Value:
    return emit("floor", call[0] / call[1]) if call[0].is_float else emit("floordiv", call[0], call[1])


@tflite("FLOOR_MOD", elementwise=True)
def floor_mod(call: TfliteCall) -> Value:
    return emit("floormod", call[0], call[1])


@tflite("POW", elementwise=True)
def power(call: TfliteCall) -> Value:
    return emit("pow", call[0], call[1])


@tflite("ABS", "NEG", "SQRT", "EXP", "LOG", "SIN", "COS", "FLOOR", "CEIL", "SIGN", elementwise=True)
def unary(call: TfliteCall) -> Value:
    core = call.name.lower()
    return through_reals(call, lambda x: emit(core, x))


@tflite("ROUND", elementwise=True)
def round_(call: TfliteCall) -> Value:
    """Halves go to the even neighbor."""
    return through_reals(call, lambda x: emit("round", x))


@tflite("RSQRT", elementwise=True)
def rsqrt(call: TfliteCall) -> Value:
    return through_reals(call, lambda x: 1.0 / emit("sqrt", x))


@tflite("SQUARE", elementwise=True)
def square(call: TfliteCall) -> Value:
    return through_reals(call, lambda x: x * x)


def _comparison(core: str) -> Lowering:
    """Integers of equal scale compare as they are; of different scales, by the numbers they stand for."""

    def lowering(call: TfliteCall) -> Value:
        a, b = call[0], call[1]
        if is_quantized(call.tensor(0)):
            left, right = call.quantization(0), call.quantization(1)
            if left.scale != right.scale or left.zero != right.zero:
                # As the kernels do: both with 8 bits to spare, each by its own scale.
                a = scaled(offset(a, left.zero) * 256, np.float64(left.scale))
                b = scaled(offset(b, right.zero) * 256, np.float64(right.scale))
                a, b = (a, b) if a.dtype == b.dtype else (a.cast("i64"), b.cast("i64"))
        return emit(core, a, b)

    return lowering


_COMPARISONS: dict[str, str] = {
    "EQUAL": "eq", "NOT_EQUAL": "ne", "LESS": "lt", "LESS_EQUAL": "le", "GREATER": "gt", "GREATER_EQUAL": "ge",
}  # fmt: skip
for _operator, _core in _COMPARISONS.items():
    tflite(_operator, elementwise=True)(_comparison(_core))


def _direct(core: str) -> Callable[[TfliteCall], Value]:
    return lambda call: emit(core, *(v for v in call.inputs if v is not None))


for _operator, _core in {
    "LOGICAL_AND": "and", "LOGICAL_OR": "or", "LOGICAL_NOT": "not", "BITWISE_XOR": "bitxor", "RIGHT_SHIFT": "shr",
}.items():  # fmt: skip
    tflite(_operator, elementwise=True)(_direct(_core))

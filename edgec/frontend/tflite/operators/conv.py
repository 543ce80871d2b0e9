"""Convolutions and products. The format keeps channels last; core operators are written with them first.

The transposes in between are only indices: the planner lays buffers out so that nothing moves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from edgec.errors import ModelError
from edgec.frontend.onnx.operators.conv import per_channel, transposed_conv
from edgec.frontend.tflite.call import TfliteCall, tflite
from edgec.frontend.tflite.integer import activated, is_quantized, offset, requantized, rounded_away
from edgec.frontend.tflite.layout import channels_first, channels_last
from edgec.frontend.values import Value, build, clip, computed, constant, emit, select

SAME = 0
#: Sums of products of x and w; what lies around x has the value of the third argument.
Contract = Callable[[Value, Value, int], Value]


def same_padding(n: int, span: int, stride: int) -> tuple[int, int]:
    """SAME padding before and after a dimension of ``n``: the odd element after."""
    total = max((-(-n // stride) - 1) * stride + span - n, 0)
    return total // 2, total - total // 2


def window_padding(call: TfliteCall, space: Sequence[int], kernel: Sequence[int]) -> tuple[list[int], list[int]]:
    """Padding before and after the spatial dimensions of a window."""
    if call.option("padding", SAME) != SAME:
        return [0] * len(space), [0] * len(space)
    strides, dilations = strides_of(call), dilations_of(call)
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations)]
    both = [same_padding(*sizes) for sizes in zip(space, spans, strides)]
    return [b for b, _ in both], [a for _, a in both]


def strides_of(call: TfliteCall) -> tuple[int, int]:
    return _positive(call, "stride_h"), _positive(call, "stride_w")


def dilations_of(call: TfliteCall) -> tuple[int, int]:
    return _positive(call, "dilation_h_factor", 1), _positive(call, "dilation_w_factor", 1)


def _positive(call: TfliteCall, name: str, default: int | None = None) -> int:
    value = int(call.option(name, default))
    if value < 1:
        raise ModelError(f"'{name}' is {value}")
    return value


@tflite("CONV_2D")
def conv(call: TfliteCall) -> Value:
    """x [N, H, W, C] by weights [O, H, W, C / groups]."""
    x, w = channels_first(_image(call)), channels_first(call[1])
    if not w.shape[1] or x.shape[1] % w.shape[1]:
        raise ModelError(f"convolution of {x.shape[1]} channels by weights {list(call[1].shape)}")
    return _convolved(call, x, w, x.shape[1] // w.shape[1])


@tflite("DEPTHWISE_CONV_2D")
def depthwise_conv(call: TfliteCall) -> Value:
    """x [N, H, W, C] by weights [1, H, W, C * multiplier]."""
    x = channels_first(_image(call))
    return _convolved(call, x, call[1].transpose(3, 0, 1, 2), x.shape[1])


def _image(call: TfliteCall) -> Value:
    if call[0].rank != 4 or call[1].rank != 4:
        raise ModelError(f"convolution of shape {list(call[0].shape)} by weights {list(call[1].shape)}")
    return call[0]


def _convolved(call: TfliteCall, x: Value, w: Value, groups: int) -> Value:
    """Channels first in, channels last out; all that follows the sums is done in between."""
    before, after = window_padding(call, x.shape[2:], w.shape[2:])
    strides, dilations = strides_of(call), dilations_of(call)

    def contract(x: Value, w: Value, border: int) -> Value:
        padded = x.pad((0, 0, *before), (0, 0, *after), border)
        if padded.dtype != "f32":
            padded = build("cast", padded, to="i32")
        return emit("conv", padded, w, strides=strides, dilations=dilations, groups=groups)

    return channels_last(_finished(call, x, w, contract, axis=1))


def _finished(call: TfliteCall, x: Value, w: Value, contract: Contract, axis: int) -> Value:
    """A contraction of floats, of integers, or of floats by integer weights, with bias and activation."""
    bias = call.optional(2)
    if x.is_float and w.is_float:
        y = contract(x, w, 0)
        return activated(call, y if bias is None else y + _along(bias, y.rank, axis))
    if x.is_float:
        return activated(call, _hybrid(call, x, w, contract, axis))
    if not is_quantized(call.result()):
        raise ModelError(f"{x.dtype} by {w.dtype} to {call.result().dtype} is not supported")
    inputs, weights = call.quantization(0), call.quantization(1)
    if x.dtype == "i16":
        raise ModelError("activations of 16 bits are not supported", hint="quantize to 8 bits")
    wide = _weights(w, weights.zeros)
    # sum (x - zx) w = sum x w - zx sum w: what the zero point adds is one number a channel, part of the bias.
    total = contract(x, wide, inputs.zero)
    extra = None if bias is None else bias.cast("i32")
    if inputs.zero:
        rest = wide.sum(range(1, wide.rank), keep=False) if axis == 1 else wide.sum([0], keep=False)
        known = computed(rest)
        rest = (rest if known is None else constant(known)) * -inputs.zero
        extra = rest if extra is None else extra + rest
    if extra is not None:
        total = total + _along(extra, total.rank, axis)
    # The kernels of products round the result once, those of convolutions twice.
    return requantized(call, total, _factors(call, total.rank, axis), once=call.name == "FULLY_CONNECTED")


def _weights(w: Value, zeros: np.ndarray) -> Value:
    """Weights as i32 without their zero point; nothing is folded, so they stay as narrow in memory as they are."""
    zero = int(zeros[0])
    if (zeros != zero).any():
        raise ModelError("weights with a zero point a channel are not supported")
    return offset(w, zero)


def _along(values: Value, rank: int, axis: int) -> Value:
    return per_channel(values, rank) if axis == 1 else values.reshape(values.node.type.elements)


def _factors(call: TfliteCall, rank: int, axis: int) -> np.ndarray:
    """Scale of the accumulator in units of the result, one a channel; in the precision of the reference kernels."""
    inputs, weights, result = call.quantization(0), call.quantization(1), call.result().quantized
    if call.tensor(0).dtype == "u8":
        product = np.asarray(inputs.scale * weights.scales, np.float32).astype(np.float64)
    else:
        product = np.float64(inputs.scale) * weights.scales.astype(np.float64)
    factors = product / np.float64(result.scale)
    if factors.size == 1:
        return np.asarray(factors.reshape(()))
    return factors.reshape(1, -1, *[1] * (rank - 2)) if axis == 1 else factors


def _hybrid(call: TfliteCall, x: Value, w: Value, contract: Contract, axis: int) -> Value:
    """Float activations by 8-bit weights: the kernels quantize every batch element on the fly.

    Convolutions by weights with a scale a channel do so with a zero point, products where the file asks for it.
    """
    weights, bias = call.quantization(1), call.optional(2)
    if call.name == "FULLY_CONNECTED":
        asymmetric = bool(call.option("asymmetric_quantize_inputs", False))
    else:
        asymmetric = call.name == "DEPTHWISE_CONV_2D" or weights.scales.size > 1
    q, step = (_asymmetric if asymmetric else _symmetric)(x)
    total = contract(q, build("cast", w, to="f32"), 0)
    y = total * _along(constant(weights.scales, "f32"), total.rank, axis) * step
    return y if bias is None else y + _along(bias, y.rank, axis)


def _symmetric(x: Value) -> tuple[Value, Value]:
    """Whole numbers of -127 .. 127 and their unit, one for each batch element."""
    most = emit("abs", x).reduce("max", range(1, x.rank))
    most = select(most.equals(0.0), 127.0, most)
    return clip(rounded_away(x * (127.0 / most)), -127.0, 127.0), most * (1 / 127)


def _asymmetric(x: Value) -> tuple[Value, Value]:
    """Whole numbers of -128 .. 127 less their zero point, and their unit, one for each batch element."""
    axes = range(1, x.rank)
    low = emit("min", x.reduce("min", axes), 0.0).cast("f64")
    high = emit("max", x.reduce("max", axes), 0.0).cast("f64")
    step = (high - low) / 255.0
    step = select(step.equals(0.0), 1.0, step)
    nearer = (emit("abs", low / step) + 128.0) < (emit("abs", high / step) + 127.0)
    zero = rounded_away(clip(select(nearer, -128.0 - low / step, 127.0 - high / step), -128.0, 127.0)).cast("f32")
    unit = step.cast("f32")
    return clip(rounded_away(x * (1.0 / unit) + zero), -128.0, 127.0) - zero, unit


@tflite("FULLY_CONNECTED")
def fully_connected(call: TfliteCall) -> Value:
    """x [.., I] by weights [O, I]."""
    x, w = call[0], call[1]
    if call.option("weights_format", 0):
        raise ModelError("shuffled weights are not supported", hint="convert the model again")
    if w.rank != 2 or not w.shape[1] or x.node.type.elements % w.shape[1]:
        raise ModelError(f"product of shape {list(x.shape)} by weights {list(w.shape)}")
    rows = x.reshape(x.node.type.elements // w.shape[1], w.shape[1])

    def contract(x: Value, w: Value, border: int) -> Value:
        return (x if x.is_float else build("cast", x, to="i32")) @ w

    y = _finished(call, rows, w.swap(0, 1), contract, axis=-1)
    return y.reshape(*x.shape[:-1], w.shape[0]) if call.option("keep_num_dims", False) else y


@tflite("BATCH_MATMUL")
def batch_matmul(call: TfliteCall) -> Value:
    a, b = call[0], call[1]
    a = a.swap(-1, -2) if call.option("adj_x", False) else a
    b = b.swap(-1, -2) if call.option("adj_y", False) else b
    if a.is_float and b.is_float:
        return a @ b
    if a.is_float or b.is_float:
        raise ModelError("a product of floats by integers is not supported")
    left, right, result = call.quantization(0), call.quantization(1), call.result().quantized
    factor = np.float64(np.float32(left.scale * right.scale)) / np.float64(result.scale)
    return requantized(call, offset(a, left.zero) @ offset(b, right.zero), factor)


@tflite("TRANSPOSE_CONV")
def transpose_conv(call: TfliteCall) -> Value:
    """Operands: the shape of the result, weights [O, H, W, C], x, and a bias."""
    _, *sizes, _ = call.ints(0)
    return _transposed(
        call, call[2], call[1], sizes, call.optional(3), (2, 1), strides_of(call), call.option("padding")
    )


@tflite("Convolution2DTransposeBias")
def transpose_conv_bias(call: TfliteCall) -> Value:
    """MediaPipe's operator: x, weights, bias; its options are padding (1: SAME, 2: VALID) and strides, width first."""
    options = np.frombuffer(call.operator.custom_options[:12], "<i4")
    if len(options) != 3 or options[0] not in (1, 2) or (options[1:] < 1).any() or (options[1:] > 64).any():
        raise ModelError(f"options {call.operator.custom_options[:12]!r} are not understood")
    padding, *strides = int(options[0]) - 1, int(options[2]), int(options[1])
    x, w = call[0], call[1]
    sizes = [n * s + (max(k - s, 0) if padding else 0) for n, s, k in zip(x.shape[1:3], strides, w.shape[1:3])]
    return _transposed(call, x, w, sizes, call.optional(2), (0, 1), strides, padding)


def _transposed(
    call: TfliteCall, x: Value, w: Value, sizes: Sequence[int], bias: Value | None, places: tuple[int, int],
    strides: Sequence[int], padding: int,
) -> Value:  # fmt: skip
    """``places`` are the operands x and w: their scales are asked for."""
    before = [same_padding(n, k, s)[0] if padding == SAME else 0 for n, k, s in zip(sizes, w.shape[1:3], strides)]
    ends = [b + n for b, n in zip(before, sizes)]
    x, kernel = channels_first(x), w.transpose(3, 0, 1, 2)
    quantized = not x.is_float
    if quantized:
        inputs, weights = call.quantization(places[0]), call.quantization(places[1])
        x, kernel = offset(x, inputs.zero), _weights(kernel, weights.zeros)
    y = transposed_conv(x, kernel, strides, (1, 1), 1, ends)
    y = y.slice((0, 0, *before), (1,) * 4, (*y.shape[:2], *sizes))
    if bias is not None:
        y = y + per_channel(bias, 4)
    if not quantized:
        return channels_last(activated(call, y))
    factors = np.float64(inputs.scale) * weights.scales.astype(np.float64) / np.float64(call.result().quantized.scale)
    spread = factors.reshape(1, -1, 1, 1) if factors.size > 1 else factors.reshape(())
    return channels_last(requantized(call, y, spread))

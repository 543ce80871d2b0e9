"""The LSTM of integers: 8-bit operands, gates and cell in 16 bits.

Sums of a gate are scaled to units of 2^-12 and saturated to 16 bits, the gates are in units of 2^-15, the cell in a
power of two of its own. The logistic function and tanh are tables of all 65536 results, since the kernels approximate
them in fixed point in a way of their own; all layers of a network share them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgec.errors import ModelError
from edgec.frontend.tflite.call import TfliteCall
from edgec.frontend.tflite.fixed_point import logistic_table, tanh_table
from edgec.frontend.tflite.integer import offset, scaled
from edgec.frontend.tflite.model import Quantization
from edgec.frontend.values import Value, clip, computed, constant, emit

#: Units of what enters a gate, and of what leaves it.
_ENTER, _LEAVE = 2.0**-12, 2.0**-15
_LEAST, _MOST = -(2**15), 2**15 - 1


def step(call: TfliteCall, fed: dict[int, Value], recurrent: Sequence[int], h: Value, c: Value) -> tuple[Value, Value]:
    """The next output and cell; ``fed`` is what the input adds to every gate, ``recurrent`` the operands of weights."""
    state, cell = call.quantization(recurrent[-2]), call.quantization(recurrent[-1])
    exponent = int(np.round(np.log2(cell.scale)))
    if np.float32(2.0**exponent) != cell.scale or cell.zero:
        raise ModelError(f"the scale {cell.scale} of the cell is no power of two")
    entered = {g: _saturated(fed[g] + _product(call, h, state, recurrent[g], None)) for g in fed}
    forget = _gate(entered[1])
    i = _gate(entered[0]) if 0 in fed else _MOST - forget
    new = _halved(forget * c.cast("i32"), 15) + _halved(i * _tanh(entered[2], -12), 30 + exponent)
    new = _saturated(new)
    bound = int(np.clip(float(call.option("cell_clip", 0.0)) / float(cell.scale), 0, _MOST))
    new = clip(new, -bound, bound) if bound else new
    hidden = call.graph.tensors[call.operator.intermediates[4]].quantized if call.operator.intermediates[4:] else state
    value = _gate(entered[3]) * _tanh(new, exponent)
    out = clip(scaled(value, _LEAVE * _LEAVE / float(hidden.scale)) + hidden.zero, -128, 127)
    return out.cast("i8"), new.cast("i16")


def enter(call: TfliteCall, x: Value, weights: int, bias: int) -> Value:
    """Contribution of an operand [B, I] to a gate, bias included, in units of 2^-12."""
    return _saturated(_product(call, x, call.quantization(0), weights, call.optional(bias)))


def _product(call: TfliteCall, x: Value, units: Quantization, weights: int, bias: Value | None) -> Value:
    w = call[weights].swap(0, 1)
    total = offset(x, 0) @ offset(w, 0)
    rest = computed(offset(w, 0).sum([0], keep=False) * -units.zero)
    if rest is None:
        raise ModelError("weights of an LSTM must be known at build time")
    extra = constant(rest) if bias is None else bias + constant(rest)
    factor = np.float32(call.quantization(weights).scale * units.scale) / np.float32(_ENTER)
    return scaled(total + extra, float(factor)).cast("i32")


def _saturated(x: Value) -> Value:
    return clip(x, _LEAST, _MOST)


def _gate(x: Value) -> Value:
    return _looked_up(logistic_table(), x)


def _tanh(x: Value, exponent: int) -> Value:
    if not 0 <= 15 + exponent <= 6:
        raise ModelError(f"a cell in units of 2^{exponent} is not supported")
    return _looked_up(tanh_table(15 + exponent), x)


def _looked_up(table: np.ndarray, x: Value) -> Value:
    return emit("gather", constant(table), x.cast("i32") - _LEAST, axis=0).cast("i32")


def _halved(x: Value, times: int) -> Value:
    """x / 2^times, halves away from zero."""
    if not 0 < times < 31:
        raise ModelError(f"a cell in units that need {times} halvings is not supported")
    half = 1 << (times - 1)
    return emit("shr", x + half - (x < 0).cast("i32"), constant(times, "i32"))

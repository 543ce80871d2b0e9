"""Recurrent networks whose weights are quantized."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from edgec.frontend.onnx.call import Call
from edgec.frontend.onnx.operators.microsoft.domain import microsoft
from edgec.frontend.onnx.operators.quantization import dynamically_quantized
from edgec.frontend.onnx.operators.recurrent import Product, lstm_of
from edgec.frontend.values import Value, build, concat


@microsoft("DynamicQuantizeLSTM")
def dynamic_quantize_lstm(call: Call) -> list[Value]:
    """An LSTM with integer weights [D, k, 4 H]; the sequence, and the state of every step, is quantized as a tensor.

    In sequences so long that they are a loop, states stay floats, which is finer than onnxruntime.
    """
    directions = call[1].shape[0]
    weights = [[_Quantized.of(call, k, scale, d) for d in range(directions)] for k, scale in ((1, 8), (2, 10))]
    real = [concat([w.real().swap(0, 1).unsqueeze(0) for w in side], 0) for side in weights]
    given = [call.optional(k) for k in range(8)]
    products: list[tuple[Product, Product]] = [(w.times, r.times) for w, r in zip(*weights)]
    attributes = {"direction": "forward", **call.attributes}
    return lstm_of(replace(call, inputs=(given[0], *real, *given[3:]), attributes=attributes), products)


class _Quantized:
    """Weights [k, columns] of one direction, with one scale and zero point, or one a column."""

    def __init__(self, codes: Value, scale: Value, zero: Value) -> None:
        self.codes, self.scale, self.zero = codes, scale, zero

    @classmethod
    def of(cls, call: Call, k: int, scale: int, direction: int) -> _Quantized:
        def part(v: Value) -> Value:
            return v.part(0, direction, direction + 1).squeeze(0)

        found = (part(call[scale]), part(call[scale + 1]))
        one, zero = (v.reshape() if prod(v.shape) == 1 else v for v in found)
        return cls(part(call[k]), one, zero)

    def real(self) -> Value:
        return (self.codes.cast("f32") - self.zero.cast("f32")) * self.scale

    def times(self, x: Value) -> Value:
        """The product of ``x`` [rows, k], quantized by its own extremes."""
        a, scale, zero = dynamically_quantized(x)
        w = Value(build("cast", self.codes, to="i32").node) - self.zero.cast("i32")
        return ((a.cast("i32") - zero.cast("i32")) @ w).cast("f32") * (scale * self.scale)

"""Recurrent layers, unrolled over their sequence; their state lives from run to run."""

from __future__ import annotations

import numpy as np

from edgec.errors import ModelError
from edgec.frontend.tflite.call import TfliteCall, tflite
from edgec.frontend.tflite.integer import activated, offset, scaled
from edgec.frontend.tflite.operators import integer_lstm
from edgec.frontend.tflite.operators.variables import remembered
from edgec.frontend.values import Value, clip, concat, emit

#: A longer sequence would make a program nobody wants to compile.
_MAX_STEPS = 4096
#: Operands of UNIDIRECTIONAL_SEQUENCE_LSTM; those of four gates stand in the order input, forget, cell, output.
_INPUT, _RECURRENT, _PEEPHOLE, _BIAS, _PROJECTION, _OUTPUT_STATE, _CELL_STATE, _NORM = 1, 5, 9, 12, 16, 18, 19, 20


@tflite("UNIDIRECTIONAL_SEQUENCE_LSTM")
def lstm(call: TfliteCall) -> Value:
    """x [T, B, I] (or [B, T, I]) to [T, B, H]: y = o * act(c), c = f * c + i * act(g), gates by the logistic function.

    Without weights of the input gate, i = 1 - f. Layer normalization is not supported; of integers, neither are
    peepholes and projections.
    """
    x = call[0]
    integers = not x.is_float
    if integers != (not call[2].is_float):
        raise ModelError("an LSTM of floats by integer weights is not supported")
    if integers and any(call.optional(k) is not None for k in (*range(_PEEPHOLE, _BIAS), _PROJECTION)):
        raise ModelError("peepholes and projections of an LSTM of integers are not supported")
    if any(call.optional(_NORM + k) is not None for k in range(4)):
        raise ModelError("layer normalization inside an LSTM is not supported")
    major = bool(call.option("time_major", False))
    x = x if major else x.swap(0, 1)
    steps = x.shape[0]
    if steps > _MAX_STEPS:
        raise ModelError(f"a sequence of {steps} steps is not unrolled", hint="feed it in pieces: the state lives on")
    output_state, cell_state = remembered(call, _OUTPUT_STATE), remembered(call, _CELL_STATE)
    h, c = output_state.read(call.make_state), cell_state.read(call.make_state)
    fed = {g: _fed(call, x, g) for g in range(4) if call.optional(_INPUT + g) is not None}
    operands = [*range(_RECURRENT, _RECURRENT + 4), _OUTPUT_STATE, _CELL_STATE]
    series = []
    for t in range(steps):
        now = {g: v.part(0, t, t + 1).squeeze(0) for g, v in fed.items()}
        h, c = integer_lstm.step(call, now, operands, h, c) if integers else _step(call, now, h, c)
        series.append(h.unsqueeze(0))
    output_state.value, cell_state.value = h, c
    y = concat(series, 0)
    return y if major else y.swap(0, 1)


def _fed(call: TfliteCall, x: Value, gate: int) -> Value:
    """Contribution of the whole sequence to a gate: one matmul, since the state does not enter."""
    steps, batch, size = x.shape
    rows = x.reshape(steps * batch, size)
    if not x.is_float:
        y = integer_lstm.enter(call, rows, _INPUT + gate, _BIAS + gate)
        return y.reshape(steps, batch, y.shape[1])
    y = rows @ call[_INPUT + gate].swap(0, 1)
    bias = call.optional(_BIAS + gate)
    y = y if bias is None else y + bias
    return y.reshape(steps, batch, y.shape[1])


def _step(call: TfliteCall, fed: dict[int, Value], h: Value, c: Value) -> tuple[Value, Value]:
    def gate(g: int, cell: Value) -> Value:
        y = fed[g] + h @ call[_RECURRENT + g].swap(0, 1)
        weights = call.optional(_PEEPHOLE + (g if g < 2 else 2)) if g != 2 else None
        return y if weights is None else y + weights * cell

    forget = emit("sigmoid", gate(1, c))
    i = emit("sigmoid", gate(0, c)) if 0 in fed else 1.0 - forget
    new = forget * c + i * activated(call, gate(2, c))
    new = _clipped(new, float(call.option("cell_clip", 0.0)))
    out = emit("sigmoid", gate(3, new)) * activated(call, new)
    projection = call.optional(_PROJECTION)
    if projection is not None:
        out = out @ projection.swap(0, 1)
        bias = call.optional(_PROJECTION + 1)
        out = _clipped(out if bias is None else out + bias, float(call.option("proj_clip", 0.0)))
    return out, new


def _clipped(x: Value, bound: float) -> Value:
    return clip(x, -bound, bound) if bound > 0 else x


@tflite("SVDF")
def svdf(call: TfliteCall) -> Value:
    """A filter over features, then over time, of rank R: x [B, I], features [N, I], time [N, M], state [B, N * M].

    The state holds the last M features of every filter; N = units * R.
    """
    x, features, time = call[0], call[1], call[2]
    if x.is_float and not features.is_float:
        raise ModelError("SVDF of floats by integer weights is not supported")
    filters, memory = time.shape
    rank = int(call.option("rank"))
    if rank < 1 or filters % rank:
        raise ModelError(f"rank {rank} of {filters} filters")
    state = remembered(call, 4)
    before = state.read(call.make_state).reshape(x.shape[0], filters, memory)
    now = _features(call).unsqueeze(-1)
    after = concat([before.part(2, 1, memory), now], 2)
    state.value = after.reshape(x.shape[0], filters * memory)
    if not x.is_float:
        after, time = offset(after, 0), offset(time, 0)
    y = (after * time).sum([-1], keep=False).reshape(x.shape[0], filters // rank, rank).sum([-1], keep=False)
    bias = call.optional(3)
    y = y if bias is None else y + bias
    if x.is_float:
        return activated(call, y)
    result = call.result().quantized  # its zero point is where the fused activation cuts; the kernels do no more
    factor = np.float64(call.quantization(4).scale * call.quantization(2).scale / result.scale)
    return clip(scaled(y, factor) + result.zero, -128, 127).cast("i8")


def _features(call: TfliteCall) -> Value:
    """Feature of the input for every filter; of integers, in 16 bits and the units of the state."""
    x, features = call[0], call[1]
    if x.is_float:
        return x @ features.swap(0, 1)
    if call.result().dtype != "i8" or call.tensor(4).dtype != "i16":
        raise ModelError("SVDF of integers is supported in 8 bits, with a state of 16")
    inputs = call.quantization(0)
    factor = np.float64(inputs.scale * call.quantization(1).scale / call.quantization(4).scale)
    total = scaled(offset(x, inputs.zero) @ offset(features.swap(0, 1), 0), factor)
    return clip(total, -(2**15), 2**15 - 1).cast("i16")

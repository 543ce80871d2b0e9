"""Reductions over whole dimensions, and the places of extremes."""

from __future__ import annotations

from math import prod

import numpy as np

from edgec.frontend.onnx.operators.reduction import arg_extreme
from edgec.frontend.tflite.call import TfliteCall, tflite
from edgec.frontend.tflite.integer import dequantized, is_quantized, offset, quantized, requantized
from edgec.frontend.tflite.layout import axis_first, channels_first, channels_last, is_turned
from edgec.frontend.values import Value, emit, normalize_axis


def _axes(call: TfliteCall) -> tuple[int, ...]:
    return tuple(sorted({normalize_axis(a, call[0].rank) for a in call.ints(1)}))


def _keep(call: TfliteCall) -> bool:
    return bool(call.option("keep_dims", False))


@tflite("MEAN", "SUM")
def mean(call: TfliteCall) -> Value:
    """Of integers, the sum of what is above the zero point, times the factor between the scales (over the count)."""
    x, axes, keep = call[0], _axes(call), _keep(call)
    if is_turned(x) and (keep or axes == tuple(range(1, x.rank - 1))):
        inner = channels_first(x)
        y = _mean(call, inner, tuple(axis_first(a, x.rank) for a in axes), keep)
        return channels_last(y) if keep else y
    return _mean(call, x, axes, keep)


def _mean(call: TfliteCall, x: Value, axes: tuple[int, ...], keep: bool) -> Value:
    result = call.result()
    count = prod(x.shape[a] for a in axes) if call.name == "MEAN" else 1
    if not is_quantized(result):
        if call.name == "SUM":
            return x.sum(axes, keep)
        return x.mean(axes, keep)
    source = call.quantization(0)
    total = offset(x, source.zero).sum(axes, keep)
    factor = np.float64(source.scale) / np.float64(result.quantized.scale) / max(count, 1)
    return requantized(call, total, factor)


@tflite("REDUCE_MAX")
def reduce_max(call: TfliteCall) -> Value:
    return call[0].reduce("max", _axes(call), _keep(call))


@tflite("REDUCE_MIN")
def reduce_min(call: TfliteCall) -> Value:
    return call[0].reduce("min", _axes(call), _keep(call))


@tflite("REDUCE_PROD")
def reduce_prod(call: TfliteCall) -> Value:
    x, result = call[0], call.result()
    if is_quantized(result):
        return quantized(dequantized(x, call.tensor(0)).reduce("mul", _axes(call), _keep(call)), result)
    return x.reduce("mul", _axes(call), _keep(call))


@tflite("REDUCE_ANY")
def reduce_any(call: TfliteCall) -> Value:
    return call[0].reduce("or", _axes(call), _keep(call))


@tflite("REDUCE_ALL")
def reduce_all(call: TfliteCall) -> Value:
    return call[0].reduce("and", _axes(call), _keep(call))


@tflite("ARG_MAX", "ARG_MIN")
def arg_max(call: TfliteCall) -> Value:
    """The first of equal ones."""
    x, (axis,) = call[0], call.ints(1)
    combine = "max" if call.name == "ARG_MAX" else "min"
    axis = normalize_axis(axis, x.rank)
    return arg_extreme(x, axis, combine).squeeze(axis).cast(call.result().dtype)


@tflite("CUMSUM")
def cumsum(call: TfliteCall) -> Value:
    (axis,) = call.ints(1)
    return emit(
        "prefix", call[0], combine="add", axis=normalize_axis(axis, call[0].rank),
        exclusive=bool(call.option("exclusive", False)), reverse=bool(call.option("reverse", False)),
    )  # fmt: skip

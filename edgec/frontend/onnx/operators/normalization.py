"""Normalizations: written out, so that their parts can be folded and fused."""

from __future__ import annotations

from math import isnan, prod

import numpy as np

from edgec.frontend.onnx.call import Call, onnx
from edgec.frontend.onnx.operators.conv import per_channel
from edgec.frontend.values import Value, constant, emit, normalize_axis, select


@onnx("BatchNormalization")
def batch_normalization(call: Call) -> Value | tuple[Value, ...]:
    """x * s + b: with constant statistics, s and b are constants. Before opset 14, more outputs mean training."""
    x, scale, bias, mean, variance = (call[k] for k in range(5))
    if call.attribute("training_mode") if call.opset >= 14 else any(call.wants(k) for k in range(1, 5)):
        return _in_training(call, x, scale, bias, mean, variance)
    if call.opset < 7 and not call.attribute("is_test"):
        raise call.error("batch normalization that learns is not supported", "export the model for inference")
    wide = "f64" if x.dtype == "f64" else "f32"
    s = scale.cast(wide) / emit("sqrt", variance.cast(wide) + call.attribute("epsilon"))
    b = bias.cast(wide) - mean.cast(wide) * s
    return x * per_channel(s, x.rank).cast(x.dtype) + per_channel(b, x.rank).cast(x.dtype)


def _in_training(call: Call, x: Value, scale: Value, bias: Value, mean: Value, variance: Value) -> tuple[Value, ...]:
    """By the statistics of the batch itself, which move the running ones; before opset 14, both are returned."""
    axes = [d for d in range(x.rank) if d != 1]
    wide = x.cast("f64" if x.dtype == "f64" else "f32")
    own = wide.mean(axes)
    centered = wide - own
    spread = (centered * centered).mean(axes)
    deviation = emit("sqrt", spread + call.attribute("epsilon"))
    y = (centered / deviation).cast(x.dtype)
    kept = call.attribute("momentum")
    running = (
        old * kept + new.reshape(*old.shape).cast(old.dtype) * (1 - kept)
        for old, new in ((mean, own), (variance, spread))
    )
    saved = () if call.opset >= 14 else (own.reshape(*mean.shape), (1 / deviation).reshape(*variance.shape))
    return y * per_channel(scale, x.rank) + per_channel(bias, x.rank), *running, *saved


def standardized(x: Value, axes: range, epsilon: float) -> tuple[Value, Value, Value]:
    """(x - mean) / sqrt(variance + epsilon), the mean, and the inverse deviation."""
    mean = x.mean(axes)
    centered = x - mean
    inverse = 1 / emit("sqrt", (centered * centered).mean(axes) + epsilon)
    return centered * inverse, mean, inverse


@onnx("LayerNormalization")
def layer_normalization(call: Call) -> tuple[Value, Value, Value]:
    x, scale, bias = call[0], call[1], call.optional(2)
    axis = normalize_axis(call.attribute("axis", -1), x.rank)
    work = x.cast("f32") if x.dtype in ("f16", "bf16") else x
    y, mean, inverse = standardized(work, range(axis, x.rank), call.attribute("epsilon"))
    y = y.cast(x.dtype) * scale
    return (y if bias is None else y + bias), mean, inverse


@onnx("InstanceNormalization")
def instance_normalization(call: Call) -> Value:
    x = call[0]
    y, _, _ = standardized(x, range(2, x.rank), call.attribute("epsilon"))
    return y * per_channel(call[1], x.rank) + per_channel(call[2], x.rank)


@onnx("RMSNormalization")
def rms_normalization(call: Call) -> Value:
    x, scale = call[0], call[1]
    axis = normalize_axis(call.attribute("axis", -1), x.rank)
    work = x.cast("f32") if x.dtype in ("f16", "bf16") else x
    inverse = 1 / emit("sqrt", (work * work).mean(range(axis, x.rank)) + call.attribute("epsilon"))
    return (work * inverse).cast(scale.dtype) * scale


@onnx("GroupNormalization")
def group_normalization(call: Call) -> Value:
    """Channels fall into groups that are standardized together; scale is per group before opset 21."""
    x, scale, bias = call[0], call[1], call[2]
    groups = call.required("num_groups")
    n, channels, *space = x.shape
    if groups < 1 or channels % groups:
        raise call.error(f"{channels} channels do not fall into {groups} groups")
    grouped = x.reshape(n, groups, channels // groups * prod(space))
    work = grouped.cast("f32") if x.dtype in ("f16", "bf16") else grouped
    y, _, _ = standardized(work, range(2, 3), call.attribute("epsilon"))
    y = y.cast(x.dtype)
    if call.opset < 21:
        return (y * scale.reshape(1, groups, 1) + bias.reshape(1, groups, 1)).reshape(*x.shape)
    return y.reshape(*x.shape) * per_channel(scale, x.rank) + per_channel(bias, x.rank)


@onnx("MeanVarianceNormalization")
def mean_variance_normalization(call: Call) -> Value:
    """Standardized over ``axes``; the standard's epsilon is added to the deviation."""
    x = call[0]
    axes = [normalize_axis(a, x.rank) for a in call.attribute("axes")]
    centered = x - x.mean(axes)
    return centered / (emit("sqrt", (centered * centered).mean(axes)) + 1e-9)


@onnx("LpNormalization")
def lp_normalization(call: Call) -> Value:
    x, axis = call[0], normalize_axis(call.attribute("axis"), call[0].rank)
    if call.attribute("p") not in (1, 2):
        raise call.error(f"there is no norm of p = {call.attribute('p')}", "p is 1 or 2")
    norm = emit("abs", x).sum([axis]) if call.attribute("p") == 1 else emit("sqrt", (x * x).sum([axis]))
    return select(norm.equals(0), 0.0, x / norm)


@onnx("LRN")
def local_response_normalization(call: Call) -> Value:
    """Each element over a power of the squares of its neighbors among the channels."""
    x, size = call[0], call.required("size")
    if size < 1:
        raise call.error(f"a sum over {size} channels", "size is 1 or more")
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
    lead, rest = (0,), (0,) * (x.rank - 2)
    squares = (x * x).pad((*lead, before, *rest), (*lead, after, *rest))
    ones = (1,) * (x.rank - 2)
    total = emit("pool", squares, combine="add", kernel=(size, *ones), strides=(1, *ones), dilations=(1, *ones))
    alpha, beta, bias = (call.attribute(name) for name in ("alpha", "beta", "bias"))
    if isnan(alpha + beta + bias):
        raise call.error(f"alpha {alpha}, beta {beta} and bias {bias}", "they are numbers")
    return x / emit("pow", total * (alpha / size) + bias, constant(np.asarray(beta), x.dtype))

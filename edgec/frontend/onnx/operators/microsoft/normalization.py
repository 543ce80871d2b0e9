"""Normalizations with the sum before them."""

from __future__ import annotations

import numpy as np

from edgec.frontend.onnx.call import Call, onnx
from edgec.frontend.onnx.indices import require_inside
from edgec.frontend.onnx.operators.microsoft.domain import microsoft
from edgec.frontend.onnx.operators.normalization import standardized
from edgec.frontend.values import Value, constant, emit, iota, normalize_axis


def scaled_to_unit(x: Value, axes: range, epsilon: float) -> tuple[Value, Value]:
    """x over the root of its mean square, and one over that root."""
    inverse = 1 / emit("sqrt", (x * x).mean(axes) + epsilon)
    return x * inverse, inverse


@onnx("SimplifiedLayerNormalization")
def simplified_layer_normalization(call: Call) -> tuple[Value, Value]:
    """onnxruntime's RMSNormalization, which it keeps in the default domain."""
    x, scale = call[0], call[1]
    axis = normalize_axis(call.attribute("axis", -1), x.rank)
    y, inverse = scaled_to_unit(x.cast("f32"), range(axis, x.rank), call.attribute("epsilon", 1e-5))
    return y.cast(scale.dtype) * scale, inverse


@microsoft("SkipLayerNormalization")
def skip_layer_normalization(call: Call) -> tuple[Value, Value, Value, Value]:
    x, gamma, beta = _sum(call, 4), call[2], call.optional(3)
    work = x.cast("f32")
    y, mean, inverse = standardized(work, range(x.rank - 1, x.rank), call.attribute("epsilon", 1e-12))
    y = y.cast(x.dtype) * gamma
    return (y if beta is None else y + beta), mean, inverse, x


@microsoft("SkipSimplifiedLayerNormalization")
def skip_simplified_layer_normalization(call: Call) -> tuple[Value, None, Value, Value]:
    x = _sum(call, 3)
    y, inverse = scaled_to_unit(x.cast("f32"), range(x.rank - 1, x.rank), call.attribute("epsilon", 1e-12))
    return y.cast(x.dtype) * call[2], None, inverse, x


def _sum(call: Call, bias: int) -> Value:
    """Operand and skip connection, whose leading dimension may be left out, and a bias."""
    total, extra = call[0] + call[1], call.optional(bias)
    return total if extra is None else total + extra


@microsoft("EmbedLayerNormalization")
def embed_layer_normalization(call: Call) -> tuple[Value, Value, Value]:
    """Embeddings of words, positions and segments, added and normalized; and how long each sequence is."""
    words, segments, mask, positions = call[0], call.optional(1), call.optional(7), call.optional(8)
    batch, length = words.shape
    total = call[2].gather(words, 0)
    total = total + call[3].gather(iota(length, 1, 2) if positions is None else positions, 0)
    if segments is not None:
        total = total + call[4].gather(segments, 0)
    for k, indices in ((2, words), (3, positions), (4, segments)):
        if indices is not None:
            require_inside(call, indices, call[k].shape[0], 0)
    y, _, _ = standardized(total.cast("f32"), range(2, 3), call.attribute("epsilon", 1e-12))
    lengths = constant(np.zeros(batch, np.int32)) if mask is None else mask.cast("i32").sum([1], keep=False)
    return y.cast(total.dtype) * call[5] + call[6], lengths, total

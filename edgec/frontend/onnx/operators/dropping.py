"""Dropout: nothing at inference; in a training step, elements that a counter chooses."""

from __future__ import annotations

import numpy as np

from edgec.frontend.onnx.call import Call, onnx
from edgec.frontend.values import Value, constant, emit, select
from edgec.ir.types import DTYPES

#: The operator of a random choice, (x, number of the step) with ratio, stream and seed; and its domain.
COUNTED, DOMAIN = "CountedDropout", "edgec"


@onnx("Dropout")
def dropout(call: Call) -> tuple[Value, Value]:
    """At inference nothing is dropped; in training mode other elements in every run."""
    is_training = call.opset < 7 and not call.attribute("is_test")
    if call.optional(2) is not None:
        is_training = bool(call.constant(2).reshape(-1)[0])
    ratio = float(call.constant(1).reshape(-1)[0]) if call.optional(1) else float(call.attribute("ratio", 0.5))
    if is_training and not 0 <= ratio < 1:
        raise call.error(f"a dropout of {ratio:g} of the elements", "a ratio is from 0 to below 1")
    if is_training and ratio:
        y, kept = _dropped(call[0], call.drawn(call[0].shape), ratio)
        return y, kept if call.opset >= 10 else kept.cast(call[0].dtype)
    mask = constant(np.ones((), np.bool_) if call.opset >= 10 else np.ones((), DTYPES[call[0].dtype]))
    return call[0], mask.broadcast(*call[0].shape)


@onnx(COUNTED, domain=DOMAIN)
def counted_dropout(call: Call) -> tuple[Value, Value]:
    """Zero where a random number is less than ``ratio``; what is kept grows, so that the mean stays."""
    x, ratio = call[0], call.required("ratio")
    drawn = emit("random", call[1], shape=x.shape, stream=call.required("stream"), seed=call.required("seed"))
    return _dropped(x, drawn, ratio)


def _dropped(x: Value, drawn: Value, ratio: float) -> tuple[Value, Value]:
    kept = drawn >= float(np.float32(ratio))
    return select(kept, x * (1.0 / (1.0 - ratio)), 0.0), kept

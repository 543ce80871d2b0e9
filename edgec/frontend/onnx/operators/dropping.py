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
    """At inference nothing is dropped."""
    if call.opset < 7 and not call.attribute("is_test"):
        raise call.error("dropout in training mode is not supported", "export the model for inference")
    training = call.optional(2)
    if training is not None and bool(call.constant(2).reshape(-1)[0]):
        ratio = float(call.constant(1).reshape(-1)[0]) if call.optional(1) else 0.5
        if ratio:
            raise call.error("dropout in training mode is not supported", "export the model for inference")
    mask = constant(np.ones((), np.bool_) if call.opset >= 10 else np.ones((), DTYPES[call[0].dtype]))
    return call[0], mask.broadcast(*call[0].shape)


@onnx(COUNTED, domain=DOMAIN)
def counted_dropout(call: Call) -> tuple[Value, Value]:
    """Zero where a random number is less than ``ratio``; what is kept grows, so that the mean stays."""
    x, ratio = call[0], call.required("ratio")
    drawn = emit("random", call[1], shape=x.shape, stream=call.required("stream"), seed=call.required("seed"))
    kept = drawn >= float(np.float32(ratio))
    return select(kept, x * (1.0 / (1.0 - ratio)), 0.0), kept

"""Operators of onnxruntime's own domain, com.microsoft, that exporters, optimizers and quantizers write."""

from edgec.frontend.onnx.operators.microsoft import (  # noqa: F401  (they register)
    activation,
    attention,
    grouped_attention,
    linear,
    normalization,
    older,
    quantized,
    recurrent,
    text,
    weights,
)

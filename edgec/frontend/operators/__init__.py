"""What every ONNX operator means in core operators: one short function each, a file a subject."""

from edgec.frontend.operators import (  # noqa: F401  (they register)
    activation,
    control,
    conv,
    einsum,
    linear,
    logic,
    math,
    microsoft,
    movement,
    normalization,
    pool,
    quantization,
    recurrent,
    reduction,
    refused,
    resize,
    sampling,
    selection,
    shape,
    signal,
)

"""The TensorFlow Lite operators in terms of core operators: one short function each, a file a subject."""

from edgec.frontend.tflite.operators import (  # noqa: F401  (they register)
    activation,
    arithmetic,
    control,
    conv,
    detection,
    mediapipe,
    movement,
    pool,
    quantization,
    recurrent,
    reduction,
    refused,
    resize,
    selection,
    spectrum,
    variables,
)

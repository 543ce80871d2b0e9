"""Operators that are known and not supported, and what to do instead."""

from __future__ import annotations

from edgec.frontend.tflite.call import refuse

refuse(
    "the size of its result depends on the data; do this step in your own code",
    "WHERE", "UNIQUE", "NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5",
)  # fmt: skip
refuse("strings and tables are not supported", "HASHTABLE", "HASHTABLE_FIND", "HASHTABLE_IMPORT", "HASHTABLE_LOOKUP")
refuse(
    "its result is random; feed random numbers as an input", "RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL", "MULTINOMIAL"
)
refuse(
    "MediaPipe's own operator; lower it yourself: @tflite in a Python file, its folder by --ops",
    "Landmarks2TransformMatrix", "TransformLandmarks", "TransformTensor", "TransformTensorBilinear",
)  # fmt: skip
refuse("convert the model again: newer converters write UNIDIRECTIONAL_SEQUENCE_LSTM", "LSTM", "RNN")

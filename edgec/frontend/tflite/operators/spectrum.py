"""Fourier transforms, and the parts of their complex results."""

from __future__ import annotations

from edgec.errors import ModelError
from edgec.frontend.onnx.operators.signal import transform
from edgec.frontend.tflite.call import TfliteCall, tflite
from edgec.frontend.tflite.operators.quantization import part_of
from edgec.frontend.values import Value, emit


@tflite("RFFT2D")
def rfft2d(call: TfliteCall) -> Value:
    """[..., height, width] -> [..., h, w // 2 + 1, 2]: both dimensions cut off or padded to [h, w], and transformed."""
    x, lengths = call[0], call.ints(1)
    if x.dtype != "f32" or len(lengths) != 2 or min(lengths) < 1:
        raise ModelError(f"a transform of {x.type} to lengths {list(lengths)}")
    height, width = lengths
    y = transform(x.unsqueeze(-1), width, True, False)
    rows, columns = y.rank - 3, y.rank - 2
    if height == 1:
        return y.part(rows, 0, 1)
    return transform(y.swap(rows, columns), height, False, False).swap(rows, columns)


@tflite("REAL")
def real(call: TfliteCall) -> Value:
    return part_of(call[0], 0)


@tflite("IMAG")
def imaginary(call: TfliteCall) -> Value:
    return part_of(call[0], 1)


@tflite("COMPLEX_ABS")
def absolute(call: TfliteCall) -> Value:
    x = call[0]
    return emit("sqrt", (x * x).sum([x.rank - 1], keep=False))

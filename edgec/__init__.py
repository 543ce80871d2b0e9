"""edgec: ONNX models into readable, fast C."""

__version__ = "0.1.0"

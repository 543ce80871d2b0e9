"""Models in: from an untrusted ONNX or TensorFlow Lite file to a graph of core operators."""

from edgec.frontend.values import Value, build, clip, concat, constant, emit, iota, maximum, minimum, select

__all__ = ["Value", "build", "clip", "concat", "constant", "emit", "iota", "maximum", "minimum", "select"]

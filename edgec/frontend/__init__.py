"""Models in: from an untrusted ONNX file to a graph of core operators."""

from edgec.frontend.call import Call, ModelWarning, UnknownValue, load_operators, onnx, supported
from edgec.frontend.importer import import_model
from edgec.frontend.support import unsupported
from edgec.frontend.values import Value, build, clip, concat, constant, emit, iota, maximum, minimum, select

__all__ = [
    "Call", "ModelWarning", "UnknownValue", "Value", "build", "clip", "concat", "constant", "emit",
    "import_model", "iota", "load_operators", "maximum", "minimum", "onnx", "select", "supported", "unsupported",
]  # fmt: skip

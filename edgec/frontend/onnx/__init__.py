"""The ONNX front end: from an untrusted ONNX model to a graph of core operators."""

from edgec.frontend.onnx.call import Call, ModelWarning, UnknownValue, load_operators, onnx, supported
from edgec.frontend.onnx.importer import import_model
from edgec.frontend.onnx.support import unsupported

__all__ = [
    "Call", "ModelWarning", "UnknownValue", "import_model", "load_operators", "onnx", "supported", "unsupported",
]  # fmt: skip

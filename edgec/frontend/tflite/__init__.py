"""TensorFlow Lite models in: from an untrusted file to a graph of core operators."""

from edgec.frontend.tflite.call import TfliteCall, supported, tflite
from edgec.frontend.tflite.importer import import_tflite
from edgec.frontend.tflite.model import TfliteModel
from edgec.frontend.tflite.reader import is_tflite, parse
from edgec.frontend.tflite.support import unsupported

__all__ = ["TfliteCall", "TfliteModel", "import_tflite", "is_tflite", "parse", "supported", "tflite", "unsupported"]

"""edgec: ONNX and TensorFlow Lite models into readable, fast C."""

__version__ = "0.1.0"

from edgec.api import Built, Model, bench, build, check, load, masks, score, tune
from edgec.artefact import Network

__all__ = ["Built", "Model", "Network", "__version__", "bench", "build", "check", "load", "masks", "score", "tune"]

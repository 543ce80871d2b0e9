"""edgec: ONNX and TensorFlow Lite models into readable, fast C."""

from edgec.api import bench, build, check, load, masks, score, tune
from edgec.artifact.network import Network
from edgec.artifact.session import Session
from edgec.artifact.tokenizer import Tokenizer
from edgec.build import Built, Model
from edgec.version import __version__

__all__ = [
    "Built", "Model", "Network", "Session", "Tokenizer", "__version__", "bench", "build", "check", "load", "masks",
    "score", "tune",
]  # fmt: skip

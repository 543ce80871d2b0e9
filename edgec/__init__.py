"""edgec: ONNX and TensorFlow Lite models into readable, fast C."""

from edgec.api import bench, build, check, load, masks, reopen, score, tune
from edgec.artifact.language_model import LanguageModel
from edgec.artifact.network import Network
from edgec.artifact.sampler import Sampling
from edgec.artifact.session import Session
from edgec.artifact.tokenizer import Tokenizer
from edgec.artifact.trainer import Trainer
from edgec.build import Built, Model
from edgec.version import __version__

__all__ = [
    "Built", "LanguageModel", "Model", "Network", "Sampling", "Session", "Tokenizer", "Trainer", "__version__", "bench",
    "build", "check", "load", "masks", "reopen", "score", "tune",
]  # fmt: skip

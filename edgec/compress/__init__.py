"""Compression: fewer bits where that is asked for. Without that every network passes as it is."""

from edgec.compress.calibrate import RANDOM
from edgec.compress.compress import CORRECTIONS, MAX_LOSS, OBSERVERS, PRECISIONS, Compressed, Request, compress
from edgec.compress.max_loss import FIGURES

__all__ = [
    "CORRECTIONS",
    "FIGURES",
    "MAX_LOSS",
    "OBSERVERS",
    "PRECISIONS",
    "RANDOM",
    "Compressed",
    "Request",
    "compress",
]  # fmt: skip

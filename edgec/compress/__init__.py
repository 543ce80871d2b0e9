"""Compression: fewer bits where that is asked for. Without that every network passes as it is."""

from edgec.compress.budget import FIGURES
from edgec.compress.calibrate import RANDOM
from edgec.compress.compress import BUDGET, CORRECTIONS, OBSERVERS, PRECISIONS, Compressed, Request, compress

__all__ = [
    "BUDGET", "CORRECTIONS", "FIGURES", "OBSERVERS", "PRECISIONS", "RANDOM", "Compressed", "Request", "compress",
]  # fmt: skip

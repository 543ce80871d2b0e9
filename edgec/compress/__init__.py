"""Compression: fewer bits where that is asked for. Without that every network passes as it is."""

from __future__ import annotations

from pathlib import Path

from edgec.compress.calibrate import RANDOM, samples
from edgec.compress.observe import OBSERVERS
from edgec.compress.quantize import quantized
from edgec.ir.graph import Graph

#: What weights and what they are multiplied by can be stored as.
PRECISIONS = ("float", "int8")

__all__ = ["OBSERVERS", "PRECISIONS", "RANDOM", "compress"]


def compress(
    graph: Graph, precision: str = "float", calibration: str | Path = RANDOM, observer: str = "minmax"
) -> Graph:
    """The network in ``precision``, with the ranges that ``observer`` finds in the calibration data."""
    return graph if precision == "float" else quantized(graph, samples(calibration, graph), observer)

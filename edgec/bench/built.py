"""Latency of a network as it was built, without its model: on random inputs of its ports' types."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from edgec.artifact.network import Network, Port
from edgec.bench.latency import pinned, take_turns
from edgec.bench.timing import Benched, Timing
from edgec.errors import UsageError
from edgec.ir.types import DTYPES, is_float
from edgec.progress import Progress


def bench_built(
    folder: Path, *, threads: int, seconds: float, rounds: int, progress: Progress, seed: int = 0
) -> Benched:
    """Time the network in ``folder`` on ``threads`` threads, on inputs drawn from ``seed``.

    Raises UsageError for a network with open dimensions, whose sizes only its model's inputs can say.
    """
    if rounds < 1 or not seconds > 0:
        raise UsageError("nothing to time", hint="give 1 round or more, and some seconds")
    random = np.random.default_rng(seed)
    with pinned(threads) as is_pinned, Network(folder, threads) as network:
        arrays = {port.onnx_name: _drawn(port, random, folder) for port in network.inputs}
        call, _ = network.bind(arrays)
        times = take_turns([call], seconds, rounds, progress)
    return Benched(Timing.of(times[0]), threads, is_pinned, rounds)


def _drawn(port: Port, random: np.random.Generator, folder: Path) -> np.ndarray:
    """Floats from a normal distribution; zeros for integers, which may be positions in a table."""
    if any(isinstance(extent, str) for extent in port.shape):
        hint = "give the model's file, with --shape or --dim"
        raise UsageError(f"input '{port.onnx_name}' is {port}, of no fixed size", hint=hint, where=str(folder))
    shape = tuple(int(extent) for extent in port.shape)
    if is_float(port.dtype):
        return np.asarray(random.standard_normal(shape), np.float32).astype(DTYPES[port.dtype])
    return np.zeros(shape, DTYPES[port.dtype])

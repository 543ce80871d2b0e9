"""Measurement of a divided network: latency, frames a second, bytes that cross and memory, beside the prediction."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from edgec.bench.timing import Timing
from edgec.distribute.coordinator import Several
from edgec.errors import UsageError
from edgec.ir.dtypes import DTYPES, is_float
from edgec.progress import Progress, silent

#: Calls before anything is timed, frames before a stream is, and the fewest and most that are.
WARM_UP, WARM_UP_STREAM, LEAST, MOST = 3, 16, 5, 10_000


@dataclass(frozen=True)
class Measured:
    """Times of single frames, frames a second in a stream, and bytes.

    ``bytes_a_frame`` cross in both directions; ``memory`` holds the greatest resident bytes of every worker.
    """

    timing: Timing
    frames_per_second: float
    frames: int
    bytes_a_frame: int
    memory: tuple[int, ...]


def drawn_inputs(network: Several, seed: int = 0) -> dict[str, np.ndarray]:
    """Floats from a normal distribution; zeros for integers, which may be positions in a table."""
    random = np.random.default_rng(seed)
    found = {}
    for port in network.inputs:
        shape = tuple(int(n) for n in port.shape)
        values = random.standard_normal(shape) if is_float(port.dtype) else np.zeros(shape)
        found[port.onnx_name] = values.astype(np.float32).astype(DTYPES[port.dtype])
    return found


def measure(
    network: Several, seconds: float, inputs: Mapping[str, np.ndarray] | None = None, progress: Progress = silent
) -> Measured:
    """Time a network that is at work: half of ``seconds`` frame by frame, half in a stream.

    Raises UsageError where there is no time, LinkError where a worker is lost.
    """
    if not seconds > 0:
        raise UsageError("nothing to time", hint="give some seconds", where="--seconds")
    given = dict(inputs) if inputs is not None else drawn_inputs(network)
    for _ in range(WARM_UP):
        network.run(given)
    progress("bench", "single frames", 0.0)
    before = network.moved
    times: list[float] = []
    end = time.perf_counter() + seconds / 2
    while len(times) < LEAST or (time.perf_counter() < end and len(times) < MOST):
        begun = time.perf_counter()
        network.run(given)
        times.append(time.perf_counter() - begun)
    moved = sum(map(sum, network.moved)) - sum(map(sum, before))
    progress("bench", "a stream", 0.5)
    frames, spent = _streamed(network, given, seconds / 2)
    return Measured(Timing.of(times), frames / spent, frames, moved // len(times), tuple(network.memory()))


def _streamed(network: Several, given: Mapping[str, np.ndarray], seconds: float) -> tuple[int, float]:
    """Frames that came out of a stream while it was full, and the seconds in which they did.

    Those before it was full, and before windows of links had grown, do not count, nor those that are left at the end.
    """
    first = max(2 * network.manifest.in_flight, WARM_UP_STREAM)
    came: list[float] = []
    last = 0

    def supply() -> Iterator[Mapping[str, np.ndarray]]:
        nonlocal last
        while len(came) <= first + 2 * LEAST or (came[-1] < came[first] + seconds and len(came) <= first + MOST):
            yield given
        last = len(came) - 1

    for _ in network.stream(supply()):
        came.append(time.perf_counter())
    return last - first, came[last] - came[first]

"""Latency of a network as it was built, without its model: on random inputs of its ports' types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from edgec.artifact.affinity import kept_cores
from edgec.artifact.folder import read_lock
from edgec.artifact.network import Network, Port, ran
from edgec.bench.timing import Benched, Timing, wall_seconds
from edgec.bench.turns import pinned, refuse_none, take_turns
from edgec.errors import UsageError
from edgec.ir.dtypes import DTYPES, is_float
from edgec.progress import Progress
from edgec.untrusted import read_arrays


def bench_built(
    folder: Path,
    *,
    threads: int,
    seconds: float,
    rounds: int,
    progress: Progress,
    inputs: str | Path | None = None,
    ready: Mapping[str, np.ndarray] | None = None,
    seed: int = 0,
    clock: Callable[[Callable[[], object]], float] = wall_seconds,
) -> Benched:
    """Time the network in ``folder`` on ``threads`` threads: on the first sample of ``inputs``, or on a random one.

    Arrays that are ``ready`` are taken as they are.

    Random inputs have the greatest sizes. Raises UsageError where inputs are missing or do not fit.
    """
    refuse_none(seconds, rounds)
    random = np.random.default_rng(seed)
    with pinned(threads, kept_cores(read_lock(folder))) as is_pinned, Network(folder, threads) as network:
        known = read_arrays(inputs, narrow=True) if inputs is not None else None
        arrays = ready or {
            port.onnx_name: drawn(port, random, network) if known is None else _given(port, known, str(inputs), network)
            for port in network.inputs
        }
        call, _ = network.bind(arrays)
        ran(call)
        times = take_turns([call], seconds, rounds, progress, clock)
    return Benched(Timing.of(times[0]), threads, is_pinned, rounds)


def _given(port: Port, known: Mapping[str, np.ndarray], where: str, network: Network) -> np.ndarray:
    """The array of a port, of its type: the first one where there is a dimension of samples before its own."""
    only = "" if "" in known and len(network.inputs) == 1 else port.onnx_name
    if only not in known:
        held = ", ".join(map(repr, known)) or "nothing"
        raise UsageError(f"there is no array for input '{port.onnx_name}'", hint=f"it holds {held}", where=where)
    array = known[only]
    if array.ndim == len(port.shape) + 1 and len(array):
        array = array[0]
    elif port.shape and port.shape[0] == 1 and array.shape[1:] == tuple(port.shape[1:]):
        array = array[:1]  # a batch, for a network that takes one at a time
    if array.ndim != len(port.shape) or not np.can_cast(array.dtype, DTYPES[port.dtype], "same_kind"):
        found = f"{array.dtype} {list(array.shape)}"
        raise UsageError(f"input '{port.onnx_name}' is {port}, and the array {found}", where=where)
    return np.ascontiguousarray(array, DTYPES[port.dtype])


def drawn(port: Port, random: np.random.Generator, network: Network) -> np.ndarray:
    """Floats from a normal distribution, of the greatest sizes; zeros for integers, which may be positions in a table.

    Raises UsageError for an extent that is no size by itself.
    """
    sizes = [network.greatest.get(e) if isinstance(e, str) else e for e in port.shape]
    shape = tuple(n for n in sizes if n is not None)
    if len(shape) < len(sizes):
        hint = "give samples with --inputs, or bench DIR --vs onnxruntime, which reads the model"
        raise UsageError(f"input '{port.onnx_name}' is {port}, of no fixed size", hint=hint, where=str(network.folder))
    if is_float(port.dtype):
        return np.asarray(random.standard_normal(shape), np.float32).astype(DTYPES[port.dtype])
    return np.zeros(shape, DTYPES[port.dtype])

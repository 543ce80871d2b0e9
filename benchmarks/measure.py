"""One network built, checked and timed beside onnxruntime; meant to run in a process of its own."""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

import edgec
from benchmarks.engines.peer import Arrays, Peer
from benchmarks.networks.catalog import Network, models_folder
from benchmarks.networks.real_inputs import real_input
from benchmarks.spoiled import Times, reasons
from edgec.artifact.folder import read_lock
from edgec.bench.timing import Timing, wall_seconds
from edgec.check.compare import TOLERANCE, compare_all, worst
from edgec.execute.samples import random_inputs
from edgec.report.facts import macs

#: Random inputs every network is checked on.
SAMPLES = 3
#: Seconds before a block: the threads of the other one stop spinning.
PAUSE = 0.03
#: Seconds of a block at least, calls that count in it at least and at most, and calls before those.
BLOCK, LEAST, MOST, UNCOUNTED = 0.05, 3, 2000, 2
#: Turns each one gets at least, and where the time for that is limited.
ROUNDS, FEWEST = 6, 2

#: What tells the seconds of a call.
Clock = Callable[[Callable[[], object]], float]


@dataclass(frozen=True)
class Settings:
    """Settings of the command line for every measurement."""

    threads: tuple[int, ...] = (1, 2)
    seconds: float = 3.0
    device: str = "host"
    compiler: str | None = None


@dataclass(frozen=True)
class Timed:
    """Latency on so many threads: ours, onnxruntime's, and ours over theirs."""

    threads: int
    ours: Timing
    theirs: Timing

    @property
    def ratio(self) -> float:
        return self.ours.median_ms / self.theirs.median_ms


@dataclass(frozen=True)
class Measured:
    """All that is known of one network. Errors are the largest difference over the largest value of an output.

    ``own_disagreement`` is how far onnxruntime's results with and without its optimizations are apart, where ours are
    farther from it than the bound.
    """

    name: str
    source: str
    macs: int
    operators: int
    kernels: int
    timed: tuple[Timed, ...]
    checks: int
    error_on_random: float
    error_on_given: float | None
    own_disagreement: float | None
    arena_bytes: int
    arena_lower_bound_bytes: int
    weights_bytes: int
    edgec_seconds: float
    compile_seconds: float

    def spoiled(self) -> list[str]:
        """Reasons why the measurement is spoiled, in words."""

        def of(t: Timing) -> Times:
            return Times(t.median_ms, t.p10_ms, t.p90_ms)

        by_threads = {t.threads: {"edgec": of(t.ours), "onnxruntime": of(t.theirs)} for t in self.timed}
        return reasons(by_threads, {"onnxruntime"})

    @property
    def ok(self) -> bool:
        """Within the bound, or as near as onnxruntime is to itself: then there is nothing to hold it against."""
        return max(self.error_on_random, self.error_on_given or 0) <= max(TOLERANCE, self.own_disagreement or 0)


def measure(network: Network, settings: Settings) -> Measured:
    """Raises edgec's errors, and onnxruntime's own, for a network that either cannot run."""
    given = _given(network)
    shapes = {**network.shapes, **{name: array.shape for name, array in given.items()}}
    built = edgec.build(
        network.path, shapes=shapes, threads=max(settings.threads), device=settings.device, compiler=settings.compiler
    )
    graph = built.stages.graph
    sets = [random_inputs(graph, seed) for seed in range(SAMPLES)] + ([given] if given else [])
    timed, errors = [], [0.0] * len(sets)
    for threads in settings.threads:
        with on_cores(threads):
            net, peer = Ours(built.folder, threads), Peer(network.path, shapes, threads)
            for k, arrays in enumerate(sets):
                errors[k] = max(errors[k], worst(compare_all(net.run(arrays), peer.run(arrays))).max_rel)
            if settings.seconds > 0:
                arrays, results = sets[-1], net.results()
                ours, theirs = take_turns((net.bind(arrays, results), peer.bind(arrays, results)), settings.seconds)
                timed.append(Timed(threads, Timing.of(ours), Timing.of(theirs)))
            net.close()
    doubtful = [arrays for arrays, error in zip(sets, errors) if not error <= TOLERANCE]
    disagreement = own_disagreement(network.path, shapes, doubtful) if doubtful else None
    compiling = built.seconds["compile"]
    return Measured(
        name=network.name,
        source=network.source,
        macs=macs(graph),
        operators=built.operators,
        kernels=built.kernels,
        timed=tuple(timed),
        checks=len(sets) * len(settings.threads),
        error_on_random=max(errors[:SAMPLES]),
        error_on_given=errors[SAMPLES] if given else None,
        own_disagreement=disagreement,
        arena_bytes=built.arena_bytes,
        arena_lower_bound_bytes=built.arena_lower_bound_bytes,
        weights_bytes=built.weights_bytes,
        edgec_seconds=sum(built.seconds.values()) - compiling,
        compile_seconds=compiling,
    )


def _given(network: Network) -> dict[str, np.ndarray]:
    """The input that comes with a network: from the file beside it, or a real one from the trained models' data."""
    if network.inputs is None:
        return real_input(network.name, models_folder())
    with np.load(network.inputs, allow_pickle=False) as data:
        return dict(data)


class Ours:
    """The generated Python module: the network with its arena and its threads."""

    def __init__(self, folder: Path, threads: int) -> None:
        lock = read_lock(folder)
        self.inputs = [port["onnx_name"] for port in lock["inputs"]]
        self.outputs = [port["onnx_name"] for port in lock["outputs"]]
        spec = importlib.util.spec_from_file_location("measured", folder / f"{lock['name']}.py")
        assert spec is not None and spec.loader is not None
        self.module: Any = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.module)
        self.net = self.module.Net(threads=threads)

    def results(self) -> dict[str, np.ndarray]:
        return {n: np.zeros(shape, dtype) for n, (_, dtype, shape) in zip(self.outputs, self.module.OUTPUTS)}

    def bind(self, inputs: Arrays, results: Arrays) -> Callable[[], None]:
        call: Callable[[], None] = self.net.bind(
            [np.ascontiguousarray(inputs[n]) for n in self.inputs], [results[n] for n in self.outputs]
        )
        return call

    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        results = self.results()
        self.bind(inputs, results)()
        return results

    def close(self) -> None:
        self.net.close()


def take_turns(
    calls: tuple[Callable[[], None], ...], seconds: float, clock: Clock = wall_seconds, limit: float = inf
) -> list[list[float]]:
    """Seconds of every call that counts, in blocks by turns (A B, B A, A B, ...) until the time is up.

    Every call gets ROUNDS turns, however long they take, or FEWEST of them where that takes more than ``limit``.
    """
    times: list[list[float]] = [[] for _ in calls]
    for call in calls:
        for _ in range(LEAST):
            call()
    begun = time.perf_counter()
    rounds = 0
    while (so_far := time.perf_counter() - begun) < seconds or rounds < (ROUNDS if so_far < limit else FEWEST):
        turns = list(zip(calls, times))
        for call, taken in turns if rounds % 2 == 0 else reversed(turns):
            time.sleep(PAUSE)
            taken += block(call, clock)
        rounds += 1
    return times


def block(call: Callable[[], None], clock: Clock = wall_seconds) -> list[float]:
    """The seconds of calls one after another; the first ones, which fetch caches and wake threads, do not count."""
    for _ in range(UNCOUNTED):
        call()
    taken: list[float] = []
    end = time.perf_counter() + BLOCK
    while len(taken) < LEAST or (len(taken) < MOST and time.perf_counter() < end):
        taken.append(clock(call))
    return taken


@contextmanager
def on_cores(threads: int) -> Iterator[None]:
    """Keep this process on as many cores as there are threads: the last ones, since the first serve interrupts."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, set(sorted(before)[-threads:]))
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def own_disagreement(path: Path, shapes: Mapping[str, tuple[int, ...]], sets: list[dict[str, np.ndarray]]) -> float:
    """Difference of onnxruntime with its optimizations from itself without them, on the same inputs."""
    with_all, without = Peer(path, shapes, 1), Peer(path, shapes, 1, optimize=False)
    return max(worst(compare_all(with_all.run(a), without.run(a))).max_rel for a in sets)

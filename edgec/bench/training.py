"""Times and memory of a training step, alone or in turns with PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from edgec.artifact.folder import read_lock
from edgec.artifact.trainer import Trainer
from edgec.bench.timing import Timing
from edgec.bench.turns import pinned, refuse_none, take_turns
from edgec.check.training import batch_of
from edgec.errors import ToolchainError, UsageError
from edgec.progress import Progress


@dataclass(frozen=True)
class StepTimes:
    """Milliseconds of a step, and the memory that it takes beside frozen weights.

    For edgec it is the state and the arena; for PyTorch, weights, moments, and what its allocator held at most during
    a step.
    """

    name: str
    batch: int
    threads: int
    median_ms: float
    p10_ms: float
    memory_bytes: int


def bench_training(
    trainer: Trainer, *, vs: str | None, threads: int, seconds: float, rounds: int, seed: int, progress: Progress
) -> list[StepTimes]:
    """Time steps on random data: edgec's, then with ``vs`` "torch" PyTorch's. Raises UsageError for another peer."""
    if vs not in (None, "torch"):
        raise UsageError(f"'{vs}' is no peer of a training", hint="it is torch, or leave out --vs", where="--vs")
    refuse_none(seconds, rounds)
    batch = batch_of(trainer, seed)
    facts = read_lock(trainer.network.folder)["training"]
    rate = 0.0  # the weights stay, whatever the data are

    def ours() -> None:
        trainer.step(*batch, learning_rate=rate)

    calls: list[Callable[[], Any]] = [ours]
    names, memory = ["edgec"], [int(facts["state_bytes"]) + int(facts["arena_bytes"])]
    if vs is not None:
        try:
            from edgec.check.torch_training import TorchTraining  # where it is asked for alone: it takes seconds
        except ImportError:
            hint = "pip install 'edgec[torch]', or leave out --vs"
            raise ToolchainError("PyTorch is not installed", hint=hint) from None
        theirs = TorchTraining(trainer, is_double=False, threads=threads, rate=rate)
        given = theirs.tensors(*batch)
        calls.append(lambda: theirs.advance(given))
        names.append(theirs.version)
        memory.append(theirs.peak_bytes(given))
    with pinned(threads):
        times = [Timing.of(t) for t in take_turns(calls, seconds, rounds, progress)]
    return [
        StepTimes(name, trainer.batch, threads, t.median_ms, t.p10_ms, held)
        for name, t, held in zip(names, times, memory)
    ]

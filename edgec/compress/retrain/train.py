"""The steps of a retraining, one after the other, with a file to go on from."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from math import cos, pi
from pathlib import Path

import numpy as np

from edgec import files
from edgec.compress.retrain.lesson import RATE, Lesson
from edgec.compress.retrain.samples import Samples
from edgec.differentiate.optimizers import Optimizer
from edgec.errors import UsageError
from edgec.progress import Progress
from edgec.untrusted import read_arrays, regular

Array = np.ndarray
#: From inputs and arrays for outputs to a function that computes a step, and one that gives its outputs.
Bind = Callable[[Mapping[str, Array], Mapping[str, Array]], "tuple[Callable[[], None], Callable[[], dict[str, Array]]]"]
#: Steps over which the learning rate rises, and seconds between two states that are saved.
WARMUP, SECONDS = 20, 30.0
#: The share of steps whose losses are told as those of the beginning and of the end.
TOLD = 0.05
#: Entries of a saved state beside the arrays: what it belongs to, and the losses of the steps that were made.
_KEY, _LOSSES = "retraining", "losses"


@dataclass(frozen=True)
class Retraining:
    """The request: an .npz file of samples, steps of ``batch`` samples, and where a state is saved to go on from."""

    data: Path
    steps: int
    optimizer: Optimizer
    batch: int | None = None
    augments: tuple[str, ...] = ()
    state: Path | None = None
    seed: int = 0


@dataclass(frozen=True)
class Retrained:
    """New values of parameters by name, the mean losses of the first and the last steps, steps and samples a step."""

    values: Mapping[str, Array]
    first: float
    last: float
    steps: int
    batch: int
    samples: int


def taught(own: Lesson, samples: Samples, asked: Retraining, bind: Bind, progress: Progress) -> Retrained:
    """Make the steps; the learning rate rises over ``WARMUP`` steps, and falls along a cosine to 0.

    Raises UsageError where a saved state is that of another retraining, or a step has no finite loss.
    """
    state = {name: np.array(own.initial[name], np.float32) for name in own.states}
    key = _key(own, asked)
    losses = _restored(asked.state, key, state) if asked.state is not None and asked.state.is_file() else []
    rate = np.zeros((), np.float32)
    given = {**own.initial, **state, **samples.step(0, asked.seed), RATE: rate}
    call, outputs = bind(given, {new: state[name] for name, new in own.states.items()})
    begun = saved = time.monotonic()
    first = len(losses)
    for k in range(first, asked.steps):
        for name, array in samples.step(k, asked.seed).items():
            given[name][...] = array
        rate[...] = asked.optimizer.lr * min(1.0, (k + 1) / WARMUP) * 0.5 * (1 + cos(pi * k / asked.steps))
        call()
        found = outputs()
        losses.append(float(found[own.graph.outputs[0][0]]))
        if not np.isfinite(losses[-1]) or found[own.graph.outputs[1][0]] != 0:
            hint = "give a lower rate: --optimizer adam:lr=0.001"
            raise UsageError(f"step {k + 1} of the retraining has no finite loss or gradient", hint=hint)
        now = time.monotonic()
        left = (now - begun) / (k + 1 - first) * (asked.steps - k - 1)
        told = f"step {k + 1} of {asked.steps}, loss {np.mean(losses[-20:]):.4f}, {left:.0f} s left"
        progress("compress", told, (k + 1) / asked.steps)
        if asked.state is not None and (now - saved > SECONDS or k + 1 == asked.steps):
            _save(asked.state, key, state, losses)
            saved = now
    few = max(1, round(asked.steps * TOLD))
    values = {name: state[holder] for name, holder in own.learned.items()}
    first_loss, last_loss = float(np.mean(losses[:few])), float(np.mean(losses[-few:]))
    return Retrained(values, first_loss, last_loss, asked.steps, samples.batch, samples.count)


def _key(own: Lesson, asked: Retraining) -> Array:
    """Digest of everything that decides what a retraining comes to."""
    found = sha256(repr((asked.steps, str(asked.optimizer), asked.augments, asked.seed)).encode())
    found.update(repr([(str(n.attributes["name"]), str(n.type)) for n in own.graph.inputs]).encode())
    found.update(regular(asked.data).read_bytes())
    for name in sorted(own.initial):
        found.update(np.ascontiguousarray(own.initial[name]).tobytes())
    return np.frombuffer(found.digest(), np.uint8)


def _save(path: Path, key: Array, state: Mapping[str, Array], losses: list[float]) -> None:
    files.replace(path, files.npz({_KEY: key, _LOSSES: np.array(losses), **state}))


def _restored(path: Path, key: Array, state: Mapping[str, Array]) -> list[float]:
    """The losses so far; fills ``state``."""
    found = read_arrays(path)
    if not np.array_equal(found.get(_KEY, key[:0]), key) or set(found) != {_KEY, _LOSSES, *state}:
        hint = "remove the file, or name another one with --retrain-state"
        raise UsageError("is the state of another retraining", hint=hint, where=str(path))
    for name, array in state.items():
        array[...] = found[name]
    return [float(x) for x in found[_LOSSES]]

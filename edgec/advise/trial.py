"""One set of options, tried on a model: what it costs in time, bytes and accuracy, predicted or measured."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edgec import api, pipeline
from edgec.advise.price import predicted_ms
from edgec.advise.switches import Switch
from edgec.build import Buildable, read
from edgec.errors import EdgecError
from edgec.options import Settings, resolve
from edgec.pipeline.context import Context
from edgec.progress import Progress
from edgec.schedule.program import Program

#: Seconds that a network is timed for; a smaller difference of times than this share is none.
TIMED, NOISE = 0.4, 0.03
#: Errors below this are those of fp32 sums in another order.
ROUNDING = 1e-5


@dataclass(frozen=True)
class Trial:
    """The outcome of a switch. Milliseconds are of one run; None where nobody knows.

    ``error`` is the largest difference of an output from the reference, over the largest value of that output;
    ``weights_bytes`` are of flash or file, ``arena_bytes`` of memory for values. ``refused`` says why it cannot be had.
    """

    switch: Switch
    predicted_ms: float | None = None
    measured_ms: float | None = None
    error: float | None = None
    weights_bytes: int = 0
    arena_bytes: int = 0
    kernels: int = 0
    refused: str = ""

    @property
    def ms(self) -> float | None:
        return self.measured_ms if self.measured_ms is not None else self.predicted_ms

    @property
    def bytes(self) -> int:
        return self.weights_bytes + self.arena_bytes

    def is_better(self, other: Trial) -> bool:
        """At least as good in time, error and bytes, and clearly better in one of them."""
        mine, its = self._figures(), other._figures()
        no_worse = all(m <= i * (1 + NOISE) for m, i in zip(mine, its))
        return no_worse and any(m < i * (1 - NOISE) for m, i in zip(mine, its))

    def _figures(self) -> tuple[float, float, float]:
        unknown = float("inf")
        error = unknown if self.error is None else max(self.error, ROUNDING)
        return (unknown if self.ms is None else self.ms, error, float(self.bytes))


def planned(model: Buildable, given: Mapping[str, Any], switch: Switch, progress: Progress) -> Trial:
    """A switch as far as its program: nothing is compiled or run. What is refused says why."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            options = resolve({**given, **switch.settings})  # type: ignore[typeddict-item]
            program: Program = pipeline.run(read(model), Context(options, progress), until="schedule")["schedule"]
    except EdgecError as error:
        return Trial(switch, refused=_first(error))
    ms = predicted_ms(program, options.device, options.threads)
    return Trial(switch, ms, None, None, program.weights_bytes, program.arena_bytes, len(program.kernels))


def checked(
    model: Buildable, given: Mapping[str, Any], trial: Trial, inputs: str | Path | None, link: str | None,
    progress: Progress,
) -> Trial:  # fmt: skip
    """The same with its error: on the device behind ``link``, or here, in numpy where its code cannot run."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            settings: Settings = {**given, **trial.switch.settings}  # type: ignore[typeddict-item]
            found = api.check(model, inputs=inputs, samples=2, link=link, progress=progress, **settings)
    except EdgecError as error:
        return replace(trial, refused=_first(error))
    if not found.threads and resolve(settings).device.precision != "fp32":
        return trial  # in numpy, what a device of 16 bits rounds is not rounded
    worst = [d.max_rel for d in (*found.outputs, *found.compression)]
    return replace(trial, error=max(worst, default=None))


def timed(model: Buildable, given: Mapping[str, Any], trial: Trial, link: str | None, progress: Progress) -> Trial:
    """The same with its time, on the device behind ``link`` or on this machine."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            settings: Settings = {**given, **trial.switch.settings}  # type: ignore[typeddict-item]
            found = api.bench(model, seconds=TIMED, rounds=3, link=link, progress=progress, **settings)
    except EdgecError as error:
        return replace(trial, refused=_first(error))
    return replace(trial, measured_ms=found.timing.p10_ms)


def _first(error: EdgecError) -> str:
    """The first line of an error: tables stay short."""
    return error.message.splitlines()[0]

"""`edgec.advise`: every option that applies to a model on a device, tried, and the best of them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgec import pipeline
from edgec.advise import changes, costly, trial
from edgec.advise.switches import NUMBERS, RULES, THREADS, ZEROS, Switch, less_memory, single
from edgec.advise.trial import Trial
from edgec.api import interface
from edgec.build import Buildable, read
from edgec.compress.calibrate import RANDOM
from edgec.device.compilers import runs_here
from edgec.errors import UsageError
from edgec.frontend.onnx.model import Model as OnnxModel
from edgec.link.choose import open_link
from edgec.options import Settings, resolve
from edgec.pipeline.context import Context
from edgec.progress import Progress, silent
from edgec.schedule.program import Program

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True)
class Advice:
    """The result of `advise`: every trial, the first of which is the build without further options.

    ``best`` are the trials that no other one beats in time, error and bytes together. ``skipped`` counts the switches
    for which no time was left. ``costliest``, ``uneven`` and ``changes`` are about the model itself.
    """

    device: str
    link: str | None
    trials: tuple[Trial, ...]
    best: tuple[Trial, ...]
    skipped: int
    costliest: tuple[costly.Costly, ...]
    uneven: tuple[costly.Uneven, ...]
    changes: tuple[changes.Change, ...]
    seconds: float
    is_measured: bool


@interface
def advise(
    model: Buildable,
    *,
    link: str | None = None,
    seconds: float = 300.0,
    progress: Progress = silent,
    **settings: Unpack[Settings],
) -> Advice:
    """Try the options that apply to a model on its device, and say which are worth it.

    Each is planned, compared with the reference on two samples (the first of ``calibrate``, or drawn ones), and timed:
    on this machine where its code runs here, over ``link`` ("device" for the one of the device's file) where that is
    given. ``seconds`` are for all of it; what is begun then is finished.
    Raises UsageError where the model cannot be built with the options that are given.
    """
    begun = time.monotonic()
    given: dict[str, Any] = {k: v for k, v in settings.items() if v is not None}
    calibrate = given.get("calibrate")
    has_data = calibrate not in (None, RANDOM)
    options = resolve(given)  # type: ignore[arg-type]
    if options.training is not None:
        raise UsageError("advice is on networks that run, not on steps that train", hint="leave out --loss")
    if not seconds >= 0:
        raise UsageError(f"{seconds} is no time", hint="give seconds", where="--seconds")
    if link is not None:  # one that leads nowhere is told before anything is tried
        open_link(options.device, None if link == "device" else link).close()
    is_measured = link is not None or runs_here(options.device, options.compiler)
    parsed = read(model)
    program: Program = pipeline.run(parsed, Context(options, progress), until="schedule")["schedule"]
    session = _Session(parsed, given, calibrate if has_data else None, link, is_measured, begun + seconds, progress)
    first = session.run([Switch()])
    needed = program.arena_bytes + sum(
        n.type.bytes for n in (*program.graph.inputs, *dict(program.graph.outputs).values())
    )
    session.run([*single(options, given, has_data), *less_memory(Switch(), options, needed)])
    session.run(_pairs(session.best()))
    base = first[0].predicted_ms
    worth = changes.changes(parsed, given, base, progress) if isinstance(parsed, OnnxModel) and base else []
    device, threads = options.device, options.threads
    has_prices = not program.parts
    return Advice(
        device.name,
        link,
        tuple(session.done),
        tuple(session.best()),
        session.skipped,
        tuple(costly.costliest(program, device, threads)) if has_prices else (),
        tuple(costly.uneven(program, device, threads)) if has_prices else (),
        tuple(worth),
        time.monotonic() - begun,
        is_measured,
    )


def _pairs(best: Iterable[Trial]) -> list[Switch]:
    """Switches that were worth it, two by two where they decide different things."""
    singles = [t.switch for t in best if len(t.switch.axes) == 1 and t.switch.axes & {NUMBERS, ZEROS, RULES, THREADS}]
    return [a & b for k, a in enumerate(singles) for b in singles[k + 1 :] if not a.axes & b.axes]


class _Session:
    """Trials one after another, until the time is over."""

    def __init__(
        self, model: Buildable, given: Mapping[str, Any], inputs: str | Path | None, link: str | None,
        is_measured: bool, end: float, progress: Progress,
    ) -> None:  # fmt: skip
        self._model, self._given, self._inputs, self._link = model, given, inputs, link
        self._is_measured, self._end, self._progress = is_measured, end, progress
        self._errors: dict[tuple[tuple[str, str], ...], float] = {}  # by what changes values
        self.done: list[Trial] = []
        self.skipped = 0

    def run(self, switches: Iterable[Switch]) -> list[Trial]:
        """Plan all of them, then compare and time them one by one."""
        planned = []
        for switch in switches:
            if self.done and time.monotonic() > self._end:
                self.skipped += 1
                continue
            self._progress("plan", switch.name)
            planned.append(trial.planned(self._model, self._given, switch, self._progress))
        found = [self._tried(t) for t in planned]
        self.done += found
        return found

    def best(self) -> list[Trial]:
        """Trials that no other one beats, the fastest first."""
        able = [t for t in self.done if not t.refused and t.ms is not None and t.error is not None]
        kept = [t for t in able if not any(o.is_better(t) for o in able)]
        return sorted(kept, key=lambda t: t.ms or 0.0)

    def _tried(self, planned: Trial) -> Trial:
        settings = planned.switch.settings
        key = tuple(sorted((k, str(v)) for k, v in settings.items() if k not in ("threads", "ram")))
        found = replace(planned, error=self._errors.get(key))
        if planned.refused or (found.error is not None and not self._is_measured):
            return found
        if self.done and time.monotonic() > self._end:
            self.skipped += 1
            return found
        if found.error is None:
            self._progress("check", planned.switch.name)
            found = trial.checked(self._model, self._given, planned, self._inputs, self._link, self._progress)
            if found.error is not None:
                self._errors[key] = found.error
        if found.refused or not self._is_measured:
            return found
        self._progress("bench", planned.switch.name)
        return trial.timed(self._model, self._given, found, self._link, self._progress)

"""A network at work for minutes: its latency minute by minute, with what sensors tell meanwhile.

The runner of the device works without a pause, in portions of a few seconds between which sensors are read. So a
processor that becomes hot and slow is seen, which a benchmark of two seconds cannot see.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from edgec.bench.remote import Arrays, Remote, connect
from edgec.bench.sensors import Reading, clusters, hidden, joules_between, read
from edgec.build import Built, build
from edgec.errors import CheckError, LinkError, UsageError
from edgec.execute.samples import random_inputs
from edgec.options import Settings, resolve
from edgec.options.cores import ANY
from edgec.progress import Progress, silent
from edgec.tune.affinity import Placement, keep_sweep

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: Seconds of a portion of work, between two looks at the sensors; and the shortest minute, where little time is asked.
PORTION, SHORTEST = 5.0, 0.02
#: The most runs of one portion, and seconds that a placement is timed for in a sweep.
MOST_RUNS, TRIAL = 50_000, 1.0


@dataclass(frozen=True)
class Minute:
    """One minute: single runs in milliseconds, and what the sensors told, None where nothing."""

    runs: int
    median_ms: float
    p99_ms: float
    mhz: float | None
    celsius: float | None
    watts: float | None
    joules: float | None
    """Joules of one inference, with all that the device does meanwhile."""


@dataclass(frozen=True)
class Sustained:
    """A network at work: its minutes, placements that were tried before, and what the system does not tell.

    ``slowdown`` is the median of the last minute over that of the first; ``kept`` tells whether the next build for the
    device takes the quickest placement.
    """

    link: str
    threads: int
    cores: tuple[int, ...]
    minutes: Sequence[Minute]
    placements: Sequence[Placement] = ()
    hidden: Sequence[str] = ()
    power_source: str = ""
    slowdown: float = field(default=1.0)
    kept: bool = False


def sustained(
    on: Remote, arrays: Arrays, minutes: float, progress: Progress, sweep: bool = False, minute_s: float = 60.0
) -> Sustained:
    """Let a network work for so many minutes on its device; with ``sweep`` where threads on cores are the quickest.

    Raises UsageError for no time, LinkError for a device that goes away or tells impossible times.
    """
    refuse_minutes(minutes)
    placements = swept(on, arrays, progress) if sweep else []
    best = min(placements, default=Placement(0.0, on.threads, on.cores))
    if sweep:
        place(on, best)
    first = float(np.median(on.run([arrays], 3)[0].nanoseconds))
    found: list[Minute] = []
    readings = [read(on.link)]
    whole = max(1, round(minutes))
    length = max(minutes * 60.0 / whole, SHORTEST) if minutes < 1 else minute_s
    for k in range(whole):
        progress("bench", f"minute {k + 1} of {whole}", k / whole)
        taken: list[float] = []
        of_minute = [readings[-1]]
        joules, counted = 0.0, 0
        begun = time.monotonic()
        while not taken or time.monotonic() - begun < length:
            left = min(PORTION, max(length - (time.monotonic() - begun), SHORTEST))
            runs = int(np.clip(left * 1e9 / max(first, 1.0), 1, MOST_RUNS))
            worked = time.monotonic()
            times = on.run([arrays], runs)[0].nanoseconds
            readings.append(read(on.link))
            spent = joules_between(of_minute[-1], readings[-1], time.monotonic() - worked)
            if spent is not None:
                joules, counted = joules + spent, counted + len(times)
            of_minute.append(readings[-1])
            taken += [float(n) / 1e6 for n in times]
        if not max(taken) > 0:
            raise LinkError("the device tells of runs that take no time", where=on.link.name)
        first = float(np.median(taken)) * 1e6
        found.append(_minute(taken, of_minute, joules / counted if counted else None))
    source = next((r.source for r in readings if r.source), "")
    slowdown = found[-1].median_ms / found[0].median_ms if found[0].median_ms else 1.0
    return Sustained(
        on.link.name, best.threads, best.cores, found, placements, hidden(readings), source, slowdown
    )  # fmt: skip


def _minute(taken: Sequence[float], readings: Sequence[Reading], joules: float | None) -> Minute:
    def of(key: str) -> float | None:
        values = [v for r in readings if (v := getattr(r, key)) is not None]
        return float(np.mean(values)) if values else None

    watts = of("watts")
    median, p99 = np.percentile(taken, [50, 99])
    if joules is not None and watts is None:  # from a counter of energy: the runs alone, not the pauses
        watts = joules * len(taken) / (sum(taken) / 1e3)
    return Minute(len(taken), float(median), float(p99), of("mhz"), of("celsius"), watts, joules)


def swept(on: Remote, arrays: Arrays, progress: Progress) -> list[Placement]:
    """Every number of threads that the network has, on all cores and on each group of equal ones that has so many."""
    groups = clusters(on.link)
    usual = [(t, ()) for t in range(1, on.threads + 1)]
    masks = [(t, cores[:t]) for cores in groups for t in range(1, min(on.threads, len(cores)) + 1)]
    found = []
    before = on.threads, on.runner
    tried: list[tuple[int, tuple[int, ...]]] = [*usual, *masks]
    for k, (threads, cores) in enumerate(tried):
        progress("bench", f"{threads} threads on {_cores(cores)}", k / len(tried))
        on.threads, on.runner = before
        try:
            place(on, Placement(0.0, threads, cores))
            found.append(Placement(on.time(arrays, TRIAL).median_ms, threads, cores))
        except (CheckError, LinkError):  # a system without taskset, or cores that are not ours
            if not cores:
                raise
        finally:
            on.threads, on.runner = before
    return found


def place(on: Remote, where: Placement) -> None:
    """Have the runner started with so many threads, and on these cores alone, by taskset."""
    on.threads = where.threads
    if not where.cores:
        return
    mask = sum(1 << core for core in where.cores)
    script = f'#!/bin/sh\ncd "$(dirname "$0")" && exec taskset {mask:x} ./{on.runner} "$@"\n'
    name = f"on_{mask:x}.sh"
    with TemporaryDirectory(prefix="edgec-") as folder:
        path = Path(folder, name)
        path.write_text(script, encoding="utf-8")
        on.link.send(path, name)
    on.runner = name


def _cores(cores: Sequence[int]) -> str:
    return f"cores {', '.join(map(str, cores))}" if cores else "any cores"


def bench_for_minutes(
    model: Any,
    minutes: float,
    *,
    sweep: bool = False,
    seed: int = 0,
    link: str = "device",
    timeout: float = 600.0,
    progress: Progress = silent,
    **settings: Unpack[Settings],
) -> Sustained:
    """Let a network work on its device, on random inputs of the greatest sizes; see `sustained`.

    Raises UsageError before anything is built where ``minutes`` are none.
    """
    refuse_minutes(minutes)
    if sweep and not isinstance(model, Built):
        if settings.get("cores") is not None:
            raise UsageError("--sweep tries cores itself", hint="leave out --cores, or --sweep", where="--cores")
        if settings.get("threads") is None:
            settings["threads"] = resolve(settings).device.cores
        settings["cores"] = ANY
    built = model if isinstance(model, Built) else build(model, compile=False, progress=progress, **settings)
    arrays = random_inputs(built.stages.graph, seed, greatest=True)
    with connect(built, link, None, timeout, progress) as on:
        found = sustained(on, arrays, minutes, progress, sweep)
    is_kept = bool(found.placements) and keep_sweep(built.options, built.parsed, built.program, found.placements)
    return replace(found, kept=is_kept)


def refuse_minutes(minutes: float) -> None:
    if not 0 < minutes <= 24 * 60:
        raise UsageError("a network works for more than 0 minutes and at most a day", hint="--minutes 30")

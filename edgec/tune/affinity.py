"""Affinity: the threads and cores of a build, as a sweep on the device found them.

A sweep (`edgec device bench --sweep`) leaves all its times in the profile database, under the model and the target. A
build takes the quickest of those that fit what was asked for, and notes it in its lock.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from edgec.errors import ToolchainError, UsageError
from edgec.frontend.language.facts import facts_of
from edgec.frontend.source import Parsed, digest
from edgec.options import Options
from edgec.options.cores import cores_of, cores_text, takes_cores
from edgec.schedule.program import Program
from edgec.text import counted
from edgec.tune.database import Measured, Profiles
from edgec.tune.known import target


@dataclass(frozen=True, order=True)
class Placement:
    """Threads on some cores of a device, and how long a run takes there; ``cores`` empty: wherever the system likes."""

    median_ms: float
    threads: int
    cores: tuple[int, ...]


def keep_sweep(options: Options, model: Parsed | None, program: Program, placements: Sequence[Placement]) -> bool:
    """Keep what a sweep found for the next build, in place of an earlier one on the same target.

    Tells whether it was: builds on a GPU, and sessions of language models, stay where the system puts them.
    """
    if model is None or not takes_cores(options.device, options.gpu) or facts_of(program.graph) is not None:
        return False
    database, on = Profiles(), target(options)
    database.forget([name for name in database.known(on) if name.startswith(_prefix(model))], on)
    database.put(
        Measured(
            f"{_prefix(model)}{p.threads}@{cores_text(p.cores)}", on, p.median_ms / 1e3,
            f"{counted(p.threads, 'thread')} on cores {cores_text(p.cores)}: {model.name}",
        )
        for p in placements
    )  # fmt: skip
    return True


def with_sweep(options: Options, settings: Mapping[str, Any], model: Parsed | None) -> Options:
    """Options with the quickest threads and cores that a sweep of the model found, as far as none are asked for."""
    if model is None or not options.profiles or options.training is not None or not Profiles().path.is_file():
        return options
    with suppress(ToolchainError):  # without its compiler nothing was timed for this target
        return _placed(options, settings, _known(options, model), "sweep")
    return options


def with_lock(options: Options, settings: Mapping[str, Any], lock: Mapping[str, Any]) -> Options:
    """Options with the threads and cores of a lock, as far as none are asked for."""
    affinity = lock.get("affinity")
    if not affinity:
        return options
    there = Placement(0.0, affinity["threads"], tuple(affinity["cores"]))
    return _placed(options, settings, [there], affinity["by"])


def _placed(options: Options, settings: Mapping[str, Any], found: Sequence[Placement], by: str) -> Options:
    threads, cores = settings.get("threads"), settings.get("cores")
    if options.training is not None or not takes_cores(options.device, options.gpu):
        return options
    if threads is not None and cores is not None:
        return options
    fitting = [
        p for p in found
        if (threads is None or p.threads == options.threads) and (cores is None or p.cores == options.cores)
    ]  # fmt: skip
    best = min(fitting, default=None)
    return options if best is None else replace(options, threads=best.threads, cores=best.cores, placed_by=by)


def _prefix(model: Parsed) -> str:
    return f"placement {digest(model)}/"


def _known(options: Options, model: Parsed) -> list[Placement]:
    """The findings of sweeps; a database of somebody else's may hold anything."""
    found = []
    for name, seconds in Profiles().known(target(options)).items():
        read = re.fullmatch(re.escape(_prefix(model)) + r"([1-9][0-9]{0,2})@([0-9,-]+|any)", name)
        if read is not None:
            with suppress(UsageError):
                found.append(Placement(seconds * 1e3, int(read[1]), cores_of(read[2])))
    return found

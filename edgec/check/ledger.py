"""The error ledger: how far the result of every stage is from the reference, and how much of that it added."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from edgec.check.compare import compare_all, worst
from edgec.compress import Compressed
from edgec.execute.executor import Executor
from edgec.pipeline.run import Run, Step
from edgec.pipeline.stages import Simplified


@dataclass(frozen=True)
class Entry:
    """One stage: its worst output beside the reference, and beside what the stage before it computed.

    ``mismatches`` counts the integers and truth values of all outputs that are not the reference's.
    """

    stage: str
    max_abs: float
    max_rel: float
    added_rel: float
    output: str
    seconds: float
    mismatches: int = 0


def _same(value: object) -> object:
    """The object by which a stage that changed nothing is recognized: its graph, where it left one."""
    return value.graph if isinstance(value, (Simplified, Compressed)) else value


def ledger(
    run: Run,
    inputs: Mapping[str, np.ndarray],
    want: Mapping[str, np.ndarray],
    executors: Mapping[str, Executor] | None = None,
    watch: Callable[[Step], None] = lambda step: None,
) -> tuple[Entry, ...]:
    """Execute what every stage left on the same inputs. ``executors`` replaces those of some stages."""
    entries: list[Entry] = []
    before: dict[str, np.ndarray] | None = None
    value: object = None
    for step in run.steps:
        watch(step)
        begun = time.perf_counter()
        if before is None or _same(step.value) is not value:  # a stage that changes nothing computes the same
            execute = (executors or {}).get(step.stage.name) or step.stage.executor(step.value, run.context)
            got = execute(inputs)
        differences = compare_all(got, want)
        difference, mismatches = worst(differences), sum(d.mismatches or 0 for d in differences)
        added = worst(compare_all(got, before)).max_rel if before is not None else difference.max_rel
        seconds = time.perf_counter() - begun
        name = step.stage.name
        entries.append(Entry(name, difference.max_abs, difference.max_rel, added, difference.name, seconds, mismatches))
        before, value = got, _same(step.value)
    return tuple(entries)

"""Budgets of a build: bounds that are given by name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from edgec.errors import UsageError
from edgec.text import one_of, printable

#: Every budget, and the figure that it bounds.
BUDGETS = {
    "latency_ms": "median milliseconds of one run on this machine",
    "ram_kb": "KiB of the arena, inputs and outputs",
    "flash_kb": "KiB of weights; code comes on top",
    "traffic_kb": "KiB that a run reads and writes, each element once a kernel",
    "max_error": "largest difference from the reference, of the largest value",
    "certified_error": "largest difference from the model that is proved for all inputs of --box",
}


@dataclass(frozen=True)
class Budget:
    """A bound by its name."""

    name: str
    limit: float


def read_budgets(texts: Iterable[str]) -> tuple[Budget, ...]:
    """Budgets as the command line has them, NAME=NUMBER; raises UsageError for a name or a number that is none."""
    found = []
    for text in texts:
        name, equals, rest = text.partition("=")
        if name not in BUDGETS:
            from edgec.compress.max_loss import FIGURES

            hint = one_of(name, BUDGETS) if name not in FIGURES else f"what compression may lose is --max-loss {text}"
            raise UsageError(f"there is no budget '{printable(name)}'", hint=printable(hint, 200))
        try:
            limit = float(rest) if equals else -1.0
        except ValueError:
            limit = -1.0
        if not 0 <= limit < float("inf"):
            raise UsageError(f"'{printable(text)}' is no budget", hint=f"write {name}=NUMBER")
        found.append(Budget(name, limit))
    return tuple(found)

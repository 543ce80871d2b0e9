"""Limits of a build, so that no model keeps edgec busy without end: nodes, kernels, code, constants and seconds.

`stage` begins the count of a stage, and places where the work grows with the model report to it: `node` for every node
that the import makes, `computed` for constants that it computes, `step` for every unit of work of other stages. Outside
of a stage nothing is counted.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field

from edgec.errors import LimitError

#: Elements of constants that were needed for a while, each of which counts as one that stays.
PASSING = 16
#: Steps between two looks at the clock.
_STRIDE = 64


@dataclass(frozen=True)
class Limits:
    """The most that a build may take: core operators, kernels, bytes of generated code, elements of constants that the
    import computes beyond those that the model stores, CPU seconds of a stage."""

    nodes: int = 250_000
    kernels: int = 50_000
    c_bytes: int = 1 << 28
    computed: int = 1 << 27
    seconds: float = 3600.0

    @staticmethod
    def of(given: Mapping[str, float]) -> Limits:
        """The usual limits with those that are given in their place."""
        return Limits(**{**asdict(Limits()), **given})


@dataclass
class _Stage:
    name: str
    limits: Limits
    begun: float
    nodes: int = 0
    computed: int = 0
    steps: int = 0
    where: list[str] = field(default_factory=list)


_CURRENT: ContextVar[_Stage | None] = ContextVar("stage", default=None)


@contextmanager
def stage(name: str, limits: Limits | None = None) -> Iterator[None]:
    """Count what is done inside as that of a stage; inside of the same one, or without limits, as what is around it."""
    current = _CURRENT.get()
    if current is not None and (limits is None or current.name == name):
        yield
        return
    token = _CURRENT.set(_Stage(name, limits or Limits(), time.process_time()))
    try:
        yield
    finally:
        _CURRENT.reset(token)


@contextmanager
def at(where: str) -> Iterator[None]:
    """The place of the model that is being worked on, for the error."""
    current = _CURRENT.get()
    if current is None:
        yield
        return
    current.where.append(where)
    try:
        yield
    finally:
        current.where.pop()


def node() -> None:
    """Count a node that is made. Raises LimitError for one too many, or after too long a time."""
    current = _CURRENT.get()
    if current is not None:
        current.nodes += 1
        if current.nodes > current.limits.nodes:
            raise _exceeded(current, "nodes", current.limits.nodes, f"{current.limits.nodes:,} core operators", None)
        step()


def forgotten(node: object | None, elements: int) -> None:
    """Count a computed constant of so many elements less, once its node is gone (None: at once), all but its work."""
    current = _CURRENT.get()
    if current is None:
        return
    if node is None:
        _less(current, elements - elements // PASSING)
    else:
        weakref.finalize(node, _less, current, elements - elements // PASSING).atexit = False


def _less(stage: _Stage, elements: int) -> None:
    stage.computed -= elements


def computed(elements: int) -> None:
    """Count elements of a constant that is computed. Raises LimitError before there are too many."""
    current = _CURRENT.get()
    if current is not None:
        current.computed += elements
        most = current.limits.computed
        if current.computed > most:
            raise _exceeded(current, "computed", most, f"{most:,} elements of computed constants", None)


def step(where: Callable[[], str] | None = None) -> None:
    """Count a unit of work, at the place that ``where`` tells. Raises LimitError after too long a time."""
    current = _CURRENT.get()
    if current is None:
        return
    current.steps += 1
    seconds = current.limits.seconds
    if current.steps % _STRIDE == 0 and time.process_time() - current.begun > seconds:
        raise _exceeded(current, "seconds", seconds, f"{seconds:g} s of the processor's time", where)


def hold(name: str, found: int, where: Callable[[], str] | None = None) -> None:
    """Raises LimitError where what was found is above the limit of a name."""
    current = _CURRENT.get()
    if current is not None and found > (most := getattr(current.limits, name)):
        words = {"kernels": "kernels", "c_bytes": "bytes of generated code"}[name]
        raise _exceeded(current, name, most, f"{most:,} {words}", where)


def _exceeded(current: _Stage, name: str, most: float, words: str, where: Callable[[], str] | None) -> LimitError:
    place = where() if where is not None else "; in ".join(current.where[-2:][::-1])
    hint = f"if the model is meant to be so large: --limits {name}={4 * most:.0f}"
    return LimitError(f"the stage '{current.name}' takes more than {words}", hint=hint, where=place or None)

"""Forms of examples: what a generator of examples draws when extents stay open and constants have no values.

A generator that draws from a ``Form`` in place of a random generator yields graphs of run-time sizes. Every other
choice that it makes (a permutation, a function, a rank) is one of finitely many; ``trails`` goes through them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableSequence, Sequence
from random import Random
from typing import Any, TypeVar

import numpy as np

from edgec.errors import Undecided
from edgec.ir import expr as X
from edgec.ir.expr import Extent
from edgec.ir.graph import Node, intern
from edgec.ir.types import Type

#: The most elements that an open dimension has.
MOST = 2**15
#: The most choices of one course.
CHOICES = 400
T = TypeVar("T")


class Unknown:
    """The values of a constant that may be anything."""

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def value(self) -> np.ndarray:
        raise Undecided(f"the values of the constant {self.name} are open")

    def __repr__(self) -> str:
        return f"any {self.name}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unknown) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)


class Form(Random):
    """One course of choices: ``trail`` has those made so far, extents are sizes or what ``region`` has for them."""

    def __init__(self, trail: Sequence[int] = (), region: Mapping[int, Extent] = {}) -> None:
        super().__init__(0)
        self.trail, self.region = list(trail), region
        self.counts: list[int] = []  # the number of alternatives of every choice
        self.sizes: list[Extent] = []
        self.constants = 0

    def extent(self, low: int = 1) -> Extent:
        """A dimension of ``low`` elements or more."""
        k = len(self.sizes)
        self.sizes.append(self.region[k] if k in self.region else X.size(f"n{k}", low, MOST))
        return self.sizes[-1]

    def unknown(self, type: Type) -> Node:
        """A constant of any values."""
        self.constants += 1
        return intern("const", (), {"value": Unknown(f"c{self.constants}")}, type)

    def pick(self, count: int) -> int:
        at = len(self.counts)
        if at == CHOICES:  # a generator that draws until something fits
            raise Undecided(f"the examples make more than {CHOICES} choices")
        self.counts.append(count)
        if at == len(self.trail):
            self.trail.append(0)
        return self.trail[at]

    # what generators of examples call

    def randint(self, a: int, b: int) -> int:
        return a + self.pick(b - a + 1)

    def choice(self, seq: Any) -> Any:
        return seq[self.pick(len(seq))]

    def sample(self, population: Sequence[T], k: int, *, counts: Any = None) -> list[T]:
        rest = list(population)
        return [rest.pop(self.pick(len(rest))) for _ in range(k)]

    def shuffle(self, x: MutableSequence[Any]) -> None:
        x[:] = self.sample(x, len(x))

    def random(self) -> float:
        return (0.0, 0.999)[self.pick(2)]

    def uniform(self, a: float, b: float) -> float:
        return a + (b - a) * 0.375


def trails(run: Callable[[Form], object], most: int) -> Iterator[tuple[list[int], bool]]:
    """Every course of choices of ``run``, and whether it is the last; no more than ``most``."""
    trail: list[int] = []
    for _ in range(most):
        form = Form(trail)
        run(form)
        trail = form.trail[: len(form.counts)]
        following = _next(trail, form.counts)
        yield trail, following is None
        if following is None:
            return
        trail = following


def _next(trail: Sequence[int], counts: Sequence[int]) -> list[int] | None:
    for at in reversed(range(len(counts))):
        if trail[at] + 1 < counts[at]:
            return [*trail[:at], trail[at] + 1]
    return None

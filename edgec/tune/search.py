"""The order of trials: which variants of which products are measured next, by a ranking that is fitted as they come.

Products take turns, those with the most arithmetic first. The first trial of a product is its usual variant, as others
count by how much quicker they are. The others are those that rank best, and a share of random ones, from which the
ranking learns what it would not look at. The same seed and the same times give the same trials.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

import numpy as np

from edgec.tune.features import Features
from edgec.tune.ranking import Ranking, Sample, fitted

#: Trials of a product in a turn.
TURN = 4
#: Share of random trials.
RANDOM = 0.2
#: Most trials of a product.
TRIALS = 64


@dataclass(frozen=True)
class Trial:
    """A variant to be measured: the name of its entry in the database, and its features if it has a record."""

    name: str
    features: Features | None


@dataclass
class Contest:
    """The variants of one product: those that wait (the usual one first, then by the formulas), times of the others."""

    product: str
    waiting: dict[str, Trial]
    times: dict[str, tuple[Trial, float]] = field(default_factory=dict)
    ranked: list[str] | None = None  # names of what waits, the best first; None before the ranking is asked


class Search:
    """Trials of several products, the most important first.

    ``known`` are seconds by the names of trials, ``history`` are times of other products on the same target.
    """

    def __init__(
        self,
        products: Mapping[str, Sequence[Trial]],
        known: Mapping[str, float],
        history: Sequence[Sample] = (),
        seed: int = 0,
        trials: int = TRIALS,
        trees: bool = True,
    ) -> None:
        self.seed, self.trials, self.trees = seed, trials, trees
        self.history = [s for s in history if s.product not in products]
        self.contests = [Contest(p, {t.name: t for t in found}) for p, found in products.items()]
        self._chance = {c.product: np.random.default_rng(_seed(seed, c.product)) for c in self.contests}
        self._turn: list[tuple[Contest, int]] = []
        for c in self.contests:
            for name in [n for n in c.waiting if n in known]:
                c.times[name] = (c.waiting.pop(name), known[name])
        self.ranking = Ranking("formula")
        self._fit()

    @property
    def left(self) -> int:
        """Trials that are still to be made."""
        return sum(self._room(c) for c in self.contests)

    def next(self, count: int) -> list[Trial]:
        """At most ``count`` trials; none where all are done. Each has to be told of before the next ones are asked."""
        found: list[Trial] = []
        planned: dict[str, int] = {}
        while len(found) < count and self.left > sum(planned.values()):
            if not self._turn:
                self._turn = [(c, TURN) for c in self.contests if self._room(c) > planned.get(c.product, 0)]
            contest, turns = self._turn.pop(0)
            if self._room(contest) <= planned.get(contest.product, 0):
                continue
            found.append(self._pick(contest, {t.name for t in found}))
            planned[contest.product] = planned.get(contest.product, 0) + 1
            if turns > 1:
                self._turn.insert(0, (contest, turns - 1))
        return found

    def tell(self, times: Mapping[str, float | None]) -> None:
        """Seconds of trials, by their names; None for what cannot be had. The ranking is fitted again."""
        for c in self.contests:
            for name in [n for n in c.waiting if n in times]:
                trial, seconds = c.waiting.pop(name), times[name]
                if seconds is not None:
                    c.times[name] = (trial, seconds)
        self._fit()

    def samples(self) -> list[Sample]:
        """The times of this search."""
        return [
            Sample(c.product, trial.features, seconds)
            for c in self.contests
            for trial, seconds in c.times.values()
            if trial.features is not None
        ]

    def _room(self, c: Contest) -> int:
        return max(0, min(len(c.waiting), self.trials - len(c.times)))

    def _pick(self, c: Contest, taken: set[str]) -> Trial:
        waiting = [t for t in c.waiting.values() if t.name not in taken]
        if not c.times and len(waiting) == len(c.waiting):
            return waiting[0]
        chance = self._chance[c.product]
        if chance.random() < RANDOM:
            return waiting[int(chance.integers(len(waiting)))]
        if c.ranked is None:
            of = [(t.name, t.features) for t in c.waiting.values() if t.features is not None]
            scores = self.ranking.scores([f for _, f in of])
            c.ranked = [of[int(k)][0] for k in np.argsort(scores, kind="stable")]
        return next((c.waiting[name] for name in c.ranked if name not in taken), waiting[0])

    def _fit(self) -> None:
        self.ranking = fitted([*self.history, *self.samples()], self.trees, self.seed)
        for c in self.contests:
            c.ranked = None


def _seed(seed: int, product: str) -> int:
    return int.from_bytes(sha256(f"{seed} {product}".encode()).digest()[:8], "big")

"""Verdicts: whether a network has a property, by bounds, attacks, and cuts of the box of inputs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from math import prod
from typing import Literal

import numpy as np

from edgec.certify.attack import STARTS, Run, attack, met_by
from edgec.certify.bounds import Bounds
from edgec.certify.choices import Choices, sites_of
from edgec.certify.domain import Domain
from edgec.certify.network import Network
from edgec.certify.properties import Case
from edgec.certify.ranges import Array
from edgec.certify.spec import Spec
from edgec.ir.graph import Node
from edgec.progress import Progress

Status = Literal["holds", "violated", "unknown"]
#: The part of the time in which open parts are attacked again.
ATTACKS = 0.1
#: The least slope of an input beside the greatest one, both times the whole box, where the one that is cut is chosen.
FLAT = 0.03
#: Boxes that are bounded together.
BATCH = 512
#: Inputs with any width up to which their box is cut; networks of more inputs are cut at their choices.
CUT_INPUTS = 24


@dataclass(frozen=True)
class Verdict:
    """The answer for one case.

    ``margin`` is by how much the clause that came nearest is missed at least, ``inputs`` those at which the code meets
    one. ``parts`` is the number of boxes, or of combinations of choices, that were bounded.
    """

    status: Status
    margin: float
    seconds: float
    parts: int
    inputs: dict[str, Array] | None = None
    reason: str = ""


def decide(
    network: Network,
    case: Case,
    run: Run,
    seconds: float,
    progress: Progress,
    seed: int = 0,
    bounds: Bounds | None = None,
) -> Verdict:
    """A verdict in about ``seconds``; unknown where they do not suffice. ``bounds`` are those of the whole case."""
    begun, random = time.perf_counter(), np.random.default_rng(seed)
    spec, ending = Spec.of(case.goals or case.clauses), _Ending(begun, begun + seconds, progress)

    box = case.domain(network.inputs)
    bounds = bounds or network.bounds(box)
    least, _ = spec.least(network, bounds)
    margin = float(spec.margins(least).min())
    if margin > 0:
        return ending.answer("holds", margin, 1)
    found = attack(network, case, spec, run, random)
    if found is not None:
        return ending.answer("violated", margin, 1, inputs=found)
    wide = sum(int((box.high[n] > box.low[n]).sum()) for n in box.low)
    if wide > CUT_INPUTS or case.radius is not None:
        return _split(network, case, spec, ending, bounds, margin)
    return _cut(network, case, spec, run, ending, margin, random)


@dataclass(frozen=True)
class _Ending:
    """The time that a search began, its end, and who is told of it."""

    begun: float
    end: float
    progress: Progress

    @property
    def is_over(self) -> bool:
        return time.perf_counter() > self.end

    def answer(
        self, status: Status, margin: float, parts: int, inputs: dict[str, Array] | None = None, reason: str = ""
    ) -> Verdict:
        return Verdict(status, margin, time.perf_counter() - self.begun, parts, inputs, reason)


def _split(network: Network, case: Case, spec: Spec, ending: _Ending, bounds: Bounds, margin: float) -> Verdict:
    """The verdict by combinations of choices, one clause after the other."""
    open = ~spec.refuted(spec.least(network, bounds)[0])[0]
    parts = 1
    for k in np.flatnonzero(open):
        clause = (case.goals or case.clauses)[k]
        tree = Choices(network, Spec.of([clause]), bounds)
        holds = tree.refute(ending.end, lambda text: ending.progress("certify", text))
        parts += tree.parts
        if not holds:
            return ending.answer("unknown", margin, parts, reason=tree.reason)
    return ending.answer("holds", tree.nearest if open.any() else margin, parts)


def _cut(
    network: Network,
    case: Case,
    spec: Spec,
    run: Run,
    ending: _Ending,
    margin: float,
    random: np.random.Generator,
) -> Verdict:
    """The box of the inputs cut into halves until bounds decide every part.

    A part is cut along the input whose width moves the bound of its best condition most. The bends that a bound loses
    by do not show in its slope, so that of no input counts for less than a part of the greatest.
    """
    flat, sides = _Flat(network), _Sides(network)
    lows, highs = flat.joined(case.domain(network.inputs))
    taken, begun, attacked = sides.none(), time.perf_counter(), 0.0
    whole = np.where(highs > lows, highs - lows, 1.0)
    weights, parts, done, nearest = np.ones(1), 0, 0.0, np.inf
    while len(lows):
        if ending.is_over:
            return ending.answer("unknown", margin, parts, reason=f"time is up with {done:.1%} of the box decided")
        low, high, weight = lows[-BATCH:], highs[-BATCH:], weights[-BATCH:]
        lows, highs, weights = lows[:-BATCH], highs[:-BATCH], weights[:-BATCH]
        known, taken = taken[-BATCH:], taken[:-BATCH]
        bounds = network.bounds(flat.domain(low, high), sides.known(known))
        least, rows = spec.least(network, bounds)
        margins = spec.margins(least)
        open = ~(margins > 0).all(axis=1)
        parts, done = parts + len(low), done + float(weight[~open].sum())
        nearest = min(nearest, float(margins[~open].min(initial=np.inf)))
        ending.progress("certify", f"{parts:,} parts, {done:.2%} of the box decided", min(done, 1.0))
        if not open.any():
            continue
        low, high, weight, least, margins = low[open], high[open], weight[open], least[open], margins[open]
        slopes = flat.rows({n: r[open] for n, r in rows.items()}, least.shape)
        best = _best_condition(spec, least, margins)
        slope = slopes[np.arange(len(low)), best]
        found = _violated(case, run, flat, low, high, slope, margins)
        now = time.perf_counter()
        if found is None and attacked < ATTACKS * (now - begun):
            starts = flat.points((low + high)[np.argsort(margins.min(axis=1))[:STARTS]] / 2)
            found = attack(network, case, spec, run, random, starts, float(random.choice([0.02, 0.1, 0.3])))
            attacked += time.perf_counter() - now
        if found is not None:
            return ending.answer("violated", margin, parts, inputs=found)
        width = high - low
        steepness = np.abs(np.nan_to_num(slope)) * whole
        least_of_all = FLAT * steepness.max(axis=1, keepdims=True) + 1e-300
        element = np.argmax(np.maximum(steepness, least_of_all) * (width / whole), axis=1)
        at = np.arange(len(low))
        middle = (low[at, element] + high[at, element]) / 2
        if np.any((middle <= low[at, element]) | (middle >= high[at, element])):
            return ending.answer("unknown", margin, parts, reason="a part of one input is not decided")
        first, second = high.copy(), low.copy()
        first[at, element], second[at, element] = middle, middle
        lows, highs = np.concatenate([lows, low, second]), np.concatenate([highs, first, high])
        weights = np.concatenate([weights, weight / 2, weight / 2])
        own = sides.found(bounds)[open]
        taken = np.concatenate([taken, own, own])
    return ending.answer("holds", max(nearest, 0.0) if np.isfinite(nearest) else margin, parts)


def _best_condition(spec: Spec, least: Array, margins: Array) -> Array:
    """For every box the condition of its nearest clause that is nearest to being missed."""
    clause = margins.argmin(axis=1)
    return spec.worst_row(least - spec.limits, clause)


def _violated(
    case: Case, run: Run, flat: _Flat, low: Array, high: Array, slope: Array, margins: Array
) -> dict[str, Array] | None:
    """Inputs of the worst few of these boxes that the code violates the case at: their middles, and the corners that
    their bounds point at."""
    order = [int(k) for k in np.argsort(margins.min(axis=1))[:4]]
    middle, corner = (low + high) / 2, np.where(slope > 0, low, high)
    for points in (middle, corner):
        found = met_by(case, run, flat.points(points), order)
        if found is not None:
            return found
    return None


class _Sides:
    """The sides of choices that bounds of a box decide, also for its parts: 1 above the limit, -1 below."""

    def __init__(self, network: Network) -> None:
        self.sites = sites_of(network)
        self.ends = np.cumsum([prod(s.operand.type.shape) for s in self.sites])

    def none(self) -> Array:
        """No side of one box, [1, elements of all choices]."""
        return np.zeros((1, int(self.ends[-1]) if self.sites else 0), np.int8)

    def found(self, bounds: Bounds) -> Array:
        """Those that bounds decide, [boxes, elements of all choices]."""
        made = [np.zeros((bounds.domain.boxes, 0), np.int8)]
        for s in self.sites:
            seen = bounds.seen[s.operand]
            side = (seen.low >= s.limit).astype(np.int8) - (seen.high <= s.limit)
            made.append(side.reshape(len(side), -1).astype(np.int8))
        return np.concatenate(made, axis=1)

    def known(self, taken: Array) -> dict[Node, tuple[Array, Array]]:
        """The ranges of operands by sides."""
        known = {}
        for s, side in zip(self.sites, np.split(taken, self.ends[:-1], axis=1) if self.sites else ()):
            side = side.reshape(-1, *s.operand.type.shape)
            known[s.operand] = np.where(side > 0, s.limit, -np.inf), np.where(side < 0, s.limit, np.inf)
        return known


class _Flat:
    """The inputs of a network as one row of numbers."""

    def __init__(self, network: Network) -> None:
        self.inputs = list(network.inputs.values())
        counts = [prod(n.type.shape) for n in self.inputs]
        self.ends = np.cumsum(counts)[:-1]

    def joined(self, domain: Domain) -> tuple[Array, Array]:
        """The corners of boxes, [boxes, elements]."""
        sides = (domain.low, domain.high)
        low, high = (np.concatenate([x[n].reshape(domain.boxes, -1) for n in self.inputs], 1) for x in sides)
        return low, high

    def points(self, flat: Array) -> dict[Node, Array]:
        """Rows of numbers as inputs."""
        apart = np.split(flat, self.ends, axis=1)
        return {n: x.reshape(len(flat), *n.type.shape) for n, x in zip(self.inputs, apart)}

    def domain(self, low: Array, high: Array) -> Domain:
        """Boxes between rows of numbers."""
        return Domain(self.points(low), self.points(high))

    def rows(self, rows: dict[Node, Array], shape: tuple[int, ...]) -> Array:
        """Rows of the inputs, [boxes, rows, elements]."""
        blank = (
            np.zeros((*shape, prod(n.type.shape))) if n not in rows else rows[n].reshape(*shape, -1)
            for n in self.inputs
        )
        return np.concatenate(list(blank), axis=2)

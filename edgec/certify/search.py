"""Verdicts: whether a network has a property, by bounds, attacks, and cuts of the box of inputs."""

from __future__ import annotations

import time

import numpy as np

from edgec.certify.attack import Run, attack
from edgec.certify.bounds import Bounds
from edgec.certify.choices import Choices, sites_of
from edgec.certify.cut import Cut
from edgec.certify.momentum import Momentum
from edgec.certify.network import Network
from edgec.certify.properties import Case
from edgec.certify.single import Single
from edgec.certify.spec import Spec
from edgec.certify.verdict import Ending, Verdict
from edgec.progress import Progress

#: Inputs with any width up to which their box is cut; networks of more inputs are cut at their choices.
CUT_INPUTS = 24


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
    spec, ending = Spec.of(case.goals or case.clauses), Ending(begun, begun + seconds, progress)

    box = case.domain(network.inputs)
    bounds = bounds or network.bounds(box)
    least, _ = spec.least(network, bounds)
    margin = float(spec.margins(least).min())
    if margin > 0:
        return ending.answer("holds", margin, 1)
    found = attack(network, case, spec, run, random, end=ending.end)
    if found is not None:
        return ending.answer("violated", margin, 1, inputs=found)
    wide = sum(int((box.high[n] > box.low[n]).sum()) for n in box.low)
    if wide > CUT_INPUTS or case.radius is not None:
        return _split(network, case, spec, run, random, ending, bounds, margin)
    return Cut(network, case, spec, run, random).verdict(ending, margin)


def _split(
    network: Network, case: Case, spec: Spec, run: Run, random: np.random.Generator, ending: Ending, bounds: Bounds,
    margin: float,
) -> Verdict:  # fmt: skip
    """The verdict by combinations of choices, one clause after the other."""
    least = spec.least(network, bounds)[0]
    open = np.flatnonzero(~spec.refuted(least)[0])
    clauses = case.goals or case.clauses
    single, parts, nearest = Single(network, sites_of(network), bounds), 1, np.inf
    trees = [Choices(single, Spec.of([clauses[k]]), bounds) for k in open]
    search = Momentum.of(single, case, spec, run, bounds.domain)
    found = search.draw(random, ending.end) if search is not None else None
    if found is not None:
        return ending.answer("violated", margin, parts, inputs=found)
    for tree in trees:
        holds = tree.refute(ending, search)
        parts += tree.parts
        if tree.inputs is not None:
            return ending.answer("violated", margin, parts, inputs=tree.inputs)
        if not holds:
            return ending.answer("unknown", margin, parts, reason=tree.reason)
        nearest = min(nearest, tree.nearest)
    return ending.answer("holds", nearest if trees else margin, parts)

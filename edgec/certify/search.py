"""Verdicts: whether a network has a property, by bounds, attacks, and cuts of the box of inputs."""

from __future__ import annotations

import time

import numpy as np

from edgec.certify.attack import Run, attack
from edgec.certify.bounds import Bounds
from edgec.certify.choices import Choices
from edgec.certify.cut import Cut
from edgec.certify.network import Network
from edgec.certify.properties import Case
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
        return _split(network, case, spec, ending, bounds, margin)
    return Cut(network, case, spec, run, random).verdict(ending, margin)


def _split(network: Network, case: Case, spec: Spec, ending: Ending, bounds: Bounds, margin: float) -> Verdict:
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

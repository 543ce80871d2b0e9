"""As much as a bound allows: a share of zeros for every layer, the most time for the least error.

Every layer is pruned by itself at a few levels, and the network is run with each of them alone: the error that arrives
at the outputs is what a level costs, the cycles that the scheduler saves are what it gains. Steps from level to level
are ordered by the one over the other, as for bits (`compress/search.py`), and taken while the bound is kept on samples
that were held back: a group of steps at a time, smaller ones where a group breaks it, and a layer whose next step alone
breaks it gets no further. So one layer that does more harm than its error says stands in nobody else's way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.compress.calibration import noise
from edgec.compress.layers import Arrays, Layer, Walk
from edgec.compress.max_loss import MaxLoss
from edgec.compress.prune.advice import advice
from edgec.compress.prune.choose import Chosen, Statistics, chosen
from edgec.compress.prune.layerwise import Plan, by_magnitude, replaced
from edgec.compress.prune.offer import Offered
from edgec.compress.prune.operands import matrix, rows, taps
from edgec.compress.prune.outcome import outcome
from edgec.compress.prune.scheme import Scheme
from edgec.errors import CheckError, UsageError
from edgec.ir.graph import Graph

Array = np.ndarray
#: Shares of zeros that are tried; with fewer than the first next to no kernel gains.
LEVELS = (0.3, 0.45, 0.6, 0.75, 0.9)
#: Samples that errors at the outputs are measured on.
SAMPLES = 16
#: Networks that are run to see which steps keep the bound, and steps that are tried together at first.
TRIALS, TOGETHER = 48, 4


@dataclass(frozen=True)
class Found:
    """Steps that kept the bound together, the cheapest first: each prunes one layer as much as is said."""

    steps: tuple[tuple[Layer, float], ...]
    scheme: Scheme
    offers: Mapping[float, Mapping[str, Any]]

    def plans(self, count: int) -> tuple[dict[Layer, Plan], dict[str, Offered]]:
        """Plans of the first so many steps, and what the scheduler offers for them."""
        levels = dict(self.steps[:count])
        told = {layer.name: self.offers[level][layer.name] for layer, level in levels.items()}
        plans = {layer: Plan(self.scheme, level) for layer, level in levels.items()}
        return plans, {**self.offers[LEVELS[-1]], **told}


def within(
    graph: Graph,
    layers: Sequence[Layer],
    scheme: Scheme,
    method: str,
    data: Sequence[Arrays],
    labels: Sequence[Array],
    max_loss: MaxLoss | None,
    worth: Callable[[Graph], Mapping[str, Any]],
    vector: Scheme,
) -> Found:
    """Sparsity levels within the bound, every layer pruned by itself. ``labels``: one for each of ``data``, or none.
    ``vector`` is what `--prune vector` is on the device.

    Raises UsageError without data or a bound, or where nothing gains at any level, CheckError where not even the
    layer that costs least keeps the bound.
    """
    if max_loss is None or len(data) < 2:
        hint = "give --calibrate DATA (two samples at least) and --max-loss top1_drop=2, or a --sparsity"
        raise UsageError("how much is to be pruned cannot be found out", hint=hint)
    offers = {level: worth(_at(graph, layers, scheme, level)) for level in LEVELS}
    gains = {
        (layer, level): offer.dense_cycles - offer.sparse_cycles
        for level in LEVELS
        for layer in layers
        if (offer := offers[level].get(layer.name)) is not None and offer.taken
    }
    if not gains:
        hint = advice(graph, layers, scheme, LEVELS[-1], vector, worth)
        raise UsageError(f"'{scheme}' gains nothing on this device in any of {len(layers)} layers", hint=hint)
    seen, held = list(data[::2]), list(data[1::2])
    made = _made(graph, gains, scheme, method, seen)
    run = outcome(graph)
    wanted = run(graph, held)

    def differ(changes: Mapping[Layer, float], data: Sequence[Arrays]) -> list[dict[str, Array]]:
        return run(replaced(graph, {layer: made[layer, level] for layer, level in changes.items()}), data)

    few = held[:SAMPLES]
    errors = {(layer, level): _noise(wanted[: len(few)], differ({layer: level}, few)) for layer, level in gains}
    steps = ordered(gains, errors)
    taken, alone = _taken(steps, lambda changes: max_loss.likely(wanted, differ(changes, held), labels[1::2]), max_loss)
    if not taken:
        layer, level = steps[0]
        raise CheckError(
            f"nothing within {max_loss} is faster than the dense network: the layer that costs least for its gain, "
            f"'{layer.name}' with {level:.0%} zeros, alone gives {alone:.4g}",
            hint="allow more, give more data, or train on: --write-masks with a --sparsity says what is to stay",
        )
    return Found(tuple(taken), scheme, offers)


def _at(graph: Graph, layers: Sequence[Layer], scheme: Scheme, level: float) -> Graph:
    return replaced(graph, {layer: by_magnitude(layer, Plan(scheme, level)) for layer in layers})


def _made(
    graph: Graph, gains: Mapping[tuple[Layer, float], float], scheme: Scheme, method: str, data: Sequence[Arrays]
) -> dict[tuple[Layer, float], Chosen]:
    """Every layer at every level that gains, by itself."""
    walk = Walk(graph, data)
    nodes = {layer.node: layer for layer, _ in gains}
    found = {}
    for n in walk:
        if n not in nodes:
            continue
        layer = nodes[n]
        w = matrix(layer)
        fitted = Statistics.of(*rows(layer, walk[layer.operand], walk[n]), w)
        for level in LEVELS:
            if (layer, level) in gains:
                found[layer, level] = chosen(w, taps(layer), scheme, level, method, fitted)
    return found


def _noise(wanted: Sequence[Mapping[str, Array]], got: Sequence[Mapping[str, Array]]) -> float:
    """The error over the signal, of all outputs of floats together."""
    names = [name for name, value in wanted[0].items() if value.dtype.kind == "f"]
    return noise([w[name] for w in wanted for name in names], [g[name] for g in got for name in names])


def ordered(
    gains: Mapping[tuple[Layer, float], float], errors: Mapping[tuple[Layer, float], float]
) -> list[tuple[Layer, float]]:
    """Steps from level to level, those that cost the least error for a cycle first.

    Of the levels of a layer only those are steps that no mixture of two others beats (the convex hull), so that a
    layer's own steps come in order.
    """
    priced: list[tuple[float, int, Layer, float]] = []
    numbers: dict[Layer, int] = {}
    for layer, _ in gains:
        numbers.setdefault(layer, len(numbers))
    for layer, number in numbers.items():
        points = [(gains[x, level], errors[x, level], level) for x, level in gains if x is layer]
        saved, error = 0.0, 0.0
        while further := [p for p in points if p[0] > saved]:
            slope, _, level, saved, error = min(((e - error) / (s - saved), -s, at, s, e) for s, e, at in further)
            priced.append((slope, number, layer, level))
    return [(layer, level) for _, _, layer, level in sorted(priced, key=lambda p: (*p[:2], p[3]))]


def _taken(
    steps: Sequence[tuple[Layer, float]], figure: Callable[[Mapping[Layer, float]], float], max_loss: MaxLoss
) -> tuple[list[tuple[Layer, float]], float]:
    """The steps that keep the bound together, and the figure of the first step alone."""
    taken: list[tuple[Layer, float]] = []
    left, together = list(steps), TOGETHER
    first = figure(dict(steps[:1]))
    for _ in range(TRIALS):
        if not left:
            break
        group = left[:together]
        if max_loss.allows(figure(dict([*taken, *group]))):
            taken += group
            left, together = left[len(group) :], 2 * together
        elif len(group) > 1:
            together = len(group) // 2
        else:
            left = [step for step in left if step[0] is not group[0][0]]
    return taken, first


def furthest(count: int, holds: Callable[[int], bool], trials: int) -> int:
    """The most of 1..count that were seen to hold, all of them tried first; 0 for none within so many trials."""
    low, high, at = 0, count + 1, count
    while trials and high - low > 1:
        trials -= 1
        low, high = (at, high) if holds(at) else (low, at)
        at = (low + high) // 2
    return low

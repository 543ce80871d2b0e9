"""As much as a budget allows: a share of zeros for every layer, the most time for the least error.

Every layer is pruned by itself at a few levels, on the dense network's operands; its error is measured on rows that
its repair has not seen. A price of error, lambda, then gives each layer the level with the least of cycles + lambda *
error: one number orders all networks from dense to as sparse as can be. The greatest that keeps the budget is found by
halving, on samples that were held back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from edgec.compress.budget import Budget
from edgec.compress.layers import Arrays, Layer, Walk, results
from edgec.compress.prune.choose import Chosen, Statistics, chosen
from edgec.compress.prune.layerwise import Plan, by_magnitude, replaced
from edgec.compress.prune.operands import matrix, rows, taps
from edgec.compress.prune.scheme import Scheme
from edgec.errors import CheckError, UsageError
from edgec.ir.graph import Graph

if TYPE_CHECKING:
    from edgec.compress.prune import Offered

LEVELS = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
#: Networks that are run to find the one that keeps the budget.
TRIALS = 7


def within(
    graph: Graph,
    layers: Sequence[Layer],
    scheme: Scheme,
    method: str,
    data: Sequence[Arrays],
    budget: Budget | None,
    worth: Callable[[Graph], Mapping[str, Any]],
) -> list[tuple[dict[Layer, Plan], dict[str, Offered]]]:
    """(plans, the offers for them) of all networks that were found to keep the budget, the sparsest first.

    Raises UsageError without data or a budget, CheckError where not even the layer that costs least keeps it.
    """
    if budget is None or len(data) < 2:
        hint = "give --calibrate DATA (two samples at least) and --budget top1_drop=2, or a --sparsity"
        raise UsageError("how much is to be pruned cannot be found out", hint=hint)
    offers = {level: worth(_at(graph, layers, scheme, level)) for level in LEVELS}
    seen, held = list(data[::2]), list(data[1::2])
    tried = _tried(graph, layers, scheme, method, seen)
    wanted = results(graph, held)
    known: dict[tuple[float, ...], float] = {}

    def picked(price: float) -> dict[Layer, float]:
        found = {}
        for layer in layers:
            best, level = 0.0, None
            for at in LEVELS:
                offer = offers[at].get(layer.name)
                if offer is None or not offer.taken:
                    continue
                gained = offer.dense_cycles - offer.sparse_cycles - price * tried[layer, at][1]
                if gained > best:
                    best, level = gained, at
            if level is not None:
                found[layer] = level
        return found

    def figure(levels: Mapping[Layer, float]) -> float:
        key = tuple(levels.get(layer, 0.0) for layer in layers)
        if key not in known:
            new = {layer: tried[layer, level][0] for layer, level in levels.items()}
            known[key] = budget.of(wanted, results(replaced(graph, new), held))
        return known[key]

    kept = _halved(picked, figure, budget, offers)
    if not kept:
        raise CheckError(
            f"nothing within {budget} is faster than the dense network: no layer can be pruned",
            hint="allow more, or train on: --write-masks with a --sparsity says what is to stay",
        )
    found = []
    for levels in kept:
        told = {layer.name: offers[level][layer.name] for layer, level in levels.items()}
        plans = {layer: Plan(scheme, level) for layer, level in levels.items()}
        found.append((plans, {**offers[LEVELS[-1]], **told}))
    return found


def _at(graph: Graph, layers: Sequence[Layer], scheme: Scheme, level: float) -> Graph:
    return replaced(graph, {layer: by_magnitude(layer, Plan(scheme, level)) for layer in layers})


def _tried(
    graph: Graph, layers: Sequence[Layer], scheme: Scheme, method: str, data: Sequence[Arrays]
) -> dict[tuple[Layer, float], tuple[Chosen, float]]:
    """Every layer at every level by itself: its weights, and its error on rows that they were not fitted to."""
    walk = Walk(graph, data)
    nodes = {layer.node: layer for layer in layers}
    found = {}
    for n in walk:
        if n not in nodes:
            continue
        layer = nodes[n]
        w = matrix(layer)
        x, y = rows(layer, walk[layer.operand], walk[n])
        fitted = Statistics.of(x[::2], y[::2], w)
        spread = max(float(y.var(axis=0).mean()), 1e-30)
        for level in LEVELS:
            trial = chosen(w, taps(layer), scheme, level, method, fitted)
            got = x[1::2] @ trial.matrix.T + (0 if trial.shift is None else trial.shift)
            error = float(np.square(y[1::2] - got).mean()) / spread if len(got) else 0.0
            found[layer, level] = trial, error
    return found


def _halved(
    picked: Callable[[float], dict[Layer, float]],
    figure: Callable[[Mapping[Layer, float]], float],
    budget: Budget,
    offers: Mapping[float, Mapping[str, Any]],
) -> list[dict[Layer, float]]:
    """Levels that keep the budget, those at the least price of error first, found by halving its exponent."""
    cycles = max((o.dense_cycles for by_name in offers.values() for o in by_name.values()), default=1.0)
    low, high = (
        np.log10(cycles) - 4,
        np.log10(cycles) + 4,
    )  # at the first nearly nothing is too much, at the last nearly all
    kept: list[dict[Layer, float]] = []
    for _ in range(TRIALS):
        middle = (low + high) / 2
        levels = picked(10**middle)
        if not levels or budget.allows(figure(levels)):
            kept = [levels, *kept] if levels and levels not in kept else kept
            high = middle
        else:
            low = middle
    return kept

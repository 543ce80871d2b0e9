"""Pruning without training: which weights become zero, and what the others become to make up for them.

Only what the device's kernels can leave out is dropped (`scheme`), and only in layers where that gains by the price of
the scheduler, which the caller brings along (``Worth``): a network loses nothing where nothing would be won.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from edgec.compress.calibrate import RANDOM, samples
from edgec.compress.calibrate import labels as labels_of
from edgec.compress.layers import Arrays, Layer, layers_of
from edgec.compress.max_loss import MaxLoss
from edgec.compress.prune import levels
from edgec.compress.prune.advice import advice
from edgec.compress.prune.allot import Costs, allotted, costs
from edgec.compress.prune.channels import without_channels
from edgec.compress.prune.choose import Chosen
from edgec.compress.prune.layerwise import Plan, by_magnitude, pruned, replaced, spread
from edgec.compress.prune.offer import Offered
from edgec.compress.prune.operands import candidates, matrix, prunable, taps
from edgec.compress.prune.outcome import outcome
from edgec.compress.prune.report import PrunedLayer, PruneReport
from edgec.compress.prune.scheme import Scheme, fits
from edgec.compress.prune.stored import masks_for
from edgec.compress.report import largest
from edgec.errors import CheckError, UsageError
from edgec.ir.graph import Graph
from edgec.media.way import Data

#: From a graph to what the scheduler would do with each of its layers, by name.
Worth = Callable[[Graph], Mapping[str, Offered]]


#: Networks that are pruned as a whole to find one that keeps a bound.
TOGETHER = 5


@dataclass(frozen=True)
class Pruning:
    """The request. Without ``sparsity`` every layer gets as much as the bound allows; ``masks`` is an .npz file
    of masks that are taken as they are. ``vector`` is what `--prune vector` is on the device."""

    scheme: Scheme
    sparsity: float | None = None
    method: str = "obs"
    calibration: Data = RANDOM
    max_loss: MaxLoss | None = None
    masks: Path | None = None
    repair: bool = True
    vector: Scheme | None = None


@dataclass(frozen=True)
class Pruned:
    """A network with zeros (or fewer channels), and by layer the truth of what stayed: [outputs, inputs, taps..].

    ``new`` has the weights of every layer that was pruned, by its name.
    """

    graph: Graph
    report: PruneReport
    masks: Mapping[str, np.ndarray] = field(default_factory=dict)
    new: Mapping[str, Chosen] = field(default_factory=dict)


def prune(graph: Graph, asked: Pruning, worth: Worth | None) -> Pruned:
    """Prune ``graph``; without ``worth`` every layer, whether or not that gains anything, small ones less (`spread`).

    Raises UsageError where there is nothing to prune or masks do not fit, CheckError for a bound that cannot be kept.
    """
    has_data = str(asked.calibration) != RANDOM
    data = list(samples(asked.calibration, graph)) if has_data else []
    if asked.scheme.kind == "channel":
        return without_channels_of(graph, asked, data)
    able = layers_of(graph) if asked.masks is not None else candidates(graph)
    layers = [layer for layer in able if prunable(layer) and fits(asked.scheme, taps(layer))]
    if not layers:
        hint = f"it has no convolution or product by constant weights that '{asked.scheme}' is for"
        raise UsageError("there is nothing to prune", hint=hint)
    if worth is None:
        if asked.sparsity is None:
            raise UsageError("how many weights are to stay is not said", hint="give a sparsity")
        return _done(graph, asked, layers, spread(layers, asked.scheme, asked.sparsity), data, {})
    if asked.masks is not None:
        stays = masks_for(asked.masks, layers)
        plans = {layer: Plan(Scheme("mask"), 0.0, stays[layer]) for layer in layers if layer in stays}
        offers = worth(replaced(graph, {layer: by_magnitude(layer, plan) for layer, plan in plans.items()}))
        return _done(graph, asked, layers, plans, data, offers)
    if asked.sparsity is None:
        return _within(graph, asked, layers, data, worth)
    priced = costs(graph, layers, asked.scheme, asked.method, data) if len(data) > 1 and not asked.scheme.of else None
    gaining, offers = _gaining(graph, asked.scheme, asked.sparsity, layers, priced, worth)
    if not gaining:
        raise UsageError(
            f"'{asked.scheme}' at {asked.sparsity:g} gains nothing on this device in any of {len(layers)} layers",
            hint=advice(graph, layers, asked.scheme, asked.sparsity, asked.vector or asked.scheme, worth),
        )
    return _done(graph, asked, layers, gaining, data, offers)


def _gaining(
    graph: Graph, scheme: Scheme, sparsity: float, layers: Sequence[Layer], priced: Costs | None, worth: Worth
) -> tuple[dict[Layer, Plan], Mapping[str, Offered]]:
    """Plans of the layers that gain by them, and what the scheduler offers: the same share for each layer without
    ``priced``; otherwise what each can spare, where those that gain nothing by it leave theirs to the others."""
    among = list(layers)
    while True:
        plans = {layer: Plan(scheme, sparsity) for layer in among}
        plans = plans if priced is None else allotted(priced, scheme, sparsity, among)
        offers = worth(replaced(graph, {layer: by_magnitude(layer, plan) for layer, plan in plans.items()}))
        gaining = {layer: plan for layer, plan in plans.items() if layer.name in offers and offers[layer.name].taken}
        if priced is None or len(gaining) == len(plans):
            return gaining, offers
        among = [layer for layer in among if layer in gaining or layer not in plans]


def _within(graph: Graph, asked: Pruning, layers: Sequence[Layer], data: Sequence[Arrays], worth: Worth) -> Pruned:
    """As much as the bound allows. Steps are found with every layer pruned by itself; what counts is how they do
    together, each layer pruned on what the ones before it give."""
    known = labels_of(asked.calibration, graph)
    vector = asked.vector or asked.scheme
    found = levels.within(graph, layers, asked.scheme, asked.method, data, known, asked.max_loss, worth, vector)
    made: dict[int, Pruned] = {}
    refused: list[CheckError] = []

    def holds(count: int) -> bool:
        try:
            plans, offers = found.plans(count)
            made[count] = _done(graph, asked, layers, plans, data, offers)
        except CheckError as error:
            refused.append(error)
        return count in made

    count = levels.furthest(len(found.steps), holds, TOGETHER)
    if not count:
        raise refused[-1]
    return made[count]


def _done(
    graph: Graph,
    asked: Pruning,
    layers: Sequence[Layer],
    plans: Mapping[Layer, Plan],
    data: Sequence[Arrays],
    offers: Mapping[str, Offered],
) -> Pruned:
    """Prune by plans. Where there is a bound, half of the data are held back to see whether it is kept."""
    errors: Mapping[Layer, float] = {}
    fitted, held = (data[::2], data[1::2]) if asked.max_loss is not None and len(data) > 1 else (data, data)
    if data and plans:
        new, errors = pruned(graph, plans, fitted, asked.method, asked.repair)
    else:
        new = {layer: by_magnitude(layer, plan) for layer, plan in plans.items()}
    value = None
    rows = tuple(_row(layer, new.get(layer), errors.get(layer), offers.get(layer.name)) for layer in layers)
    told = None if asked.max_loss is None else str(asked.max_loss)
    if data and asked.max_loss is not None:
        known = labels_of(asked.calibration, graph)
        value = _kept(graph, new, held, known[1::2] if len(held) < len(data) else known, asked.max_loss, errors)
    method = asked.method if data else "magnitude"
    report = PruneReport(str(asked.scheme), method, asked.sparsity, len(data), rows, told, value)
    masks = {layer.name: _natural(layer, made.mask) for layer, made in new.items()}
    return Pruned(replaced(graph, new), report, masks, {layer.name: made for layer, made in new.items()})


def _kept(
    graph: Graph,
    new: Mapping[Layer, Chosen],
    data: Sequence[Arrays],
    known: Sequence[np.ndarray],
    max_loss: MaxLoss,
    errors: Mapping[Layer, float],
) -> float:
    """The figure of a pruned network on data held back. Raises CheckError where the bound is not kept."""
    run = outcome(graph)
    value = max_loss.of(run(graph, data), run(replaced(graph, new), data), known)
    if not max_loss.allows(value):
        told = largest([(layer.name, error) for layer, error in errors.items()], sum(errors.values()))
        raise CheckError(
            f"pruned it is {max_loss.figure}={value:.4g}, and it may be {max_loss}",
            hint=f"most of the error comes from {told}; --sparsity auto finds how much the bound allows",
        )
    return value


def _natural(layer: Layer, mask: np.ndarray) -> np.ndarray:
    return mask.reshape(layer.weights.shape) if layer.node.op == "conv" else mask


def _row(layer: Layer, new: Chosen | None, error: float | None, offer: Offered | None) -> PrunedLayer:
    zeros = 1 - np.count_nonzero(matrix(layer) if new is None else new.matrix) / layer.weights.size
    gain = None if offer is None else offer.dense_cycles / max(offer.sparse_cycles, 1.0)
    reason = ""
    if new is None:
        reason = "no sparse kernel is for it" if offer is None else "gains nothing" if not offer.taken else "bound"
    even = None if offer is None else offer.break_even
    return PrunedLayer(layer.name, layer.node.op, layer.weights.shape, float(zeros), error, gain, even, reason)


def without_channels_of(graph: Graph, asked: Pruning, data: Sequence[Arrays]) -> Pruned:
    """Channel pruning: the layers that are left, with what they lost."""
    if asked.sparsity is None:
        raise UsageError("channels are removed by a share", hint="give --sparsity 0.3 with --prune channel")
    smaller, removed = without_channels(graph, asked.sparsity, data)
    rows = tuple(
        PrunedLayer(name, "conv", shape, share, None, None, None, "" if share else "its channels are outputs")
        for name, shape, share in removed
    )
    return Pruned(
        smaller, PruneReport("channel", "magnitude" if not data else "wanda", asked.sparsity, len(data), rows)
    )

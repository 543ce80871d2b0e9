"""Retraining within a build: the pruned or rounded network learns the answers of the dense one, on this machine."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from edgec.compress.calibrate import samples
from edgec.compress.calibration import Calibration, calibrated
from edgec.compress.compress import rounded_layers
from edgec.compress.layers import Layer, layers_of
from edgec.compress.prune import Pruned
from edgec.compress.prune.layerwise import replaced
from edgec.compress.retrain import Retrained, Retraining, lesson, parameters, taught, with_parameters
from edgec.compress.retrain.samples import Samples
from edgec.compress.retrain.train import Bind
from edgec.device.device import Device
from edgec.errors import EdgecError, UsageError
from edgec.frontend.states import states
from edgec.ir.graph import Graph, Node
from edgec.media.way import Data
from edgec.progress import Progress

#: The part of the distance from the dense network that a retraining of use leaves, at most.
LEFT = 0.9
#: Samples of a step where nothing is said and the network can take so many.
BATCH = 8


class RetrainingWarning(UserWarning):
    """A pruned network that hardly came nearer to the dense one."""


@dataclass(frozen=True)
class Rounding:
    """Layers are to be int8 on ``device``, with the ranges that ``observer`` finds in ``data``."""

    device: Device
    data: Data
    observer: str


@dataclass(frozen=True)
class Tools:
    """The stages that retraining calls.

    ``widened`` gives the simplified network for a number of samples, ``simplified`` simplifies a graph, and ``bind``
    compiles a step: from its graph to a function that computes it.
    """

    widened: Callable[[int], Graph]
    simplified: Callable[[Graph], Graph]
    bind: Callable[[Graph], Bind]


def retrained(
    dense: Graph,
    student: Graph,
    pruned: Pruned | None,
    rounding: Rounding | None,
    asked: Retraining,
    tools: Tools,
    progress: Progress,
) -> tuple[Graph, Retrained]:
    """The student with the parameters that it has learned. ``dense`` is what it was made from; both are simplified.

    Raises UsageError for networks with states or open sizes, and for a batch that the network cannot take.
    """
    if states(dense) or dense.sizes or not all(n.type.is_fixed for n in dense.nodes()):
        hint = "fix open dimensions with --shape, and leave out --state"
        raise UsageError("a network with states or open dimensions is not retrained", hint=hint, where="--retrain")
    wide, learner, batch = _for_batch(dense, student, pruned, asked, tools)
    chosen = _rounded(student, learner, rounding) if rounding is not None else None
    known = parameters(learner)
    masks = {name: p.value != 0 for name, p in known.items() if not p.is_bias and (p.value == 0).any()}
    own = lesson(wide, learner, asked.optimizer, masks, chosen)
    found = taught(own, Samples(asked.data, wide.inputs, batch, asked.augments), asked, tools.bind(own.graph), progress)
    if pruned is not None and found.last > LEFT * found.first:
        told = f"the distance from the dense network went from {found.first:.3g} to {found.last:.3g}: answers may be"
        hint = "worse than without --retrain; give more --retrain-steps, more samples or a lower --sparsity"
        warnings.warn(f"{told} {hint}", RetrainingWarning, stacklevel=2)
    values = {name: found.values.get(name, p.value) for name, p in parameters(student).items()}
    return with_parameters(student, values), found


def _for_batch(
    dense: Graph, student: Graph, pruned: Pruned | None, asked: Retraining, tools: Tools
) -> tuple[Graph, Graph, int]:
    """The two networks for the samples of a step, and how many these are: 1 where a step takes a run's inputs."""
    wanted = asked.batch if asked.batch is not None else BATCH
    if _has(dense.inputs, wanted):
        return dense, student, wanted
    if wanted == 1 or (asked.batch is None and not _has(dense.inputs, 1)):
        return dense, student, 1
    try:
        wide = tools.widened(wanted)
        learner = _pruned_alike(wide, pruned, tools)
        if _shapes(learner) == _shapes(student) and _has(wide.inputs, wanted):
            return wide, learner, wanted
        reason = "its layers are others for several samples"
    except EdgecError as error:
        reason = error.message
    if asked.batch is None:
        return dense, student, 1
    hint = "leave out --batch, or export the network with an open batch"
    raise UsageError(f"the network takes one sample a run: {reason}", hint=hint, where="--batch")


def _has(inputs: Sequence[Node], samples: int) -> bool:
    return all(n.type.rank and n.type.shape[0] == samples for n in inputs)


def _shapes(graph: Graph) -> Mapping[str, tuple[object, ...]]:
    return {name: p.node.type.shape for name, p in parameters(graph).items()}


def _pruned_alike(wide: Graph, pruned: Pruned | None, tools: Tools) -> Graph:
    """The network for several samples, pruned as the one for one was."""
    if pruned is None:
        return wide
    layers = {layer.name: layer for layer in layers_of(wide)}
    missing = [name for name in pruned.new if name not in layers]
    if missing:
        raise UsageError(f"'{missing[0]}' is no layer for several samples", hint="leave out --retrain")
    return tools.simplified(replaced(wide, {layers[name]: new for name, new in pruned.new.items()}))


def _rounded(student: Graph, learner: Graph, rounding: Rounding) -> tuple[Sequence[Layer], Calibration]:
    """Layers of the learner that are to be int8, and ranges of their operands, found in the network for one run."""
    layers = rounded_layers(student, rounding.device)
    data = list(samples(rounding.data, student))
    found = calibrated(student, layers, data, rounding.observer)
    by_name = {layer.name: layer for layer in layers_of(learner)}
    pairs = [(layer, by_name[layer.name]) for layer in layers if layer.name in by_name]
    ranges = {b.source: found.ranges[a.source] for a, b in pairs}
    numbers = {b: replace(found.numbers[a], shift=None) for a, b in pairs}
    return [b for _, b in pairs], Calibration(ranges, numbers)

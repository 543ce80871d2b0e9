"""The model of a built training, as it was before it was built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from edgec.artifact.trainer import Trainer
from edgec.differentiate.losses import is_own, loss_of, taken_in
from edgec.frontend.onnx.batch_norm import statistics_of, with_batch_statistics
from edgec.frontend.onnx.dropout import dropping_of, with_dropout
from edgec.frontend.onnx.model import Model, read
from edgec.frontend.onnx.trainable import answers_of, weights_of, with_batch, with_inputs


@dataclass(frozen=True)
class Judged:
    """The model of a training, from inputs and trained weights to what the loss judges along ``axis``.

    ``weights`` are the trained ones, ``counter`` the input that numbers the steps where something is dropped, ``own``
    the model of a loss of the user's own; ``statistics`` are those of batch normalization that follow the batches, and
    ``running`` the outputs that renew them.
    """

    model: Model
    weights: Mapping[str, np.ndarray]
    loss: str
    axis: int
    counter: str | None
    own: Model | None
    statistics: Mapping[str, np.ndarray]
    running: Mapping[str, str]


def model_of(trainer: Trainer) -> Judged:
    """The model of a training: for a batch, or for a sample where samples run one by one."""
    folder, name = trainer.network.folder, trainer.network.name
    parsed = read(folder / f"{name}_model.onnx")
    loss, output = loss_of(trainer.said["loss"])
    chosen = [w for w in weights_of(parsed) if w.name in trainer.weights and w.name not in trainer.statistics]
    answers, axis = answers_of(parsed, output, taken_in(loss))
    shapes = {p.onnx_name: (int(p.shape[0]) // trainer.one_by_one, *map(int, p.shape[1:])) for p in trainer.inputs}
    statistics = statistics_of(parsed) if trainer.statistics else []
    opened = with_inputs(parsed, [*chosen, *statistics], [answers])
    judged, counter = with_dropout(opened, dropping_of(trainer.said["dropout"]))
    judged, running = with_batch_statistics(judged) if statistics else (judged, {})
    own = read(folder / f"{name}_loss.onnx") if is_own(loss) else None
    begun = {w.name: w.value for w in statistics}
    weights = {w.name: w.value for w in chosen}
    return Judged(with_batch(judged, shapes), weights, loss, axis, counter, own, begun, running)

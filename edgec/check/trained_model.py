"""The model of a built training, as it was before it was built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from edgec.artifact.trainer import Trainer
from edgec.differentiate.losses import is_own, loss_of, taken_in
from edgec.frontend.onnx.dropout import dropping_of, with_dropout
from edgec.frontend.onnx.model import Model, read
from edgec.frontend.onnx.trainable import answers_of, weights_of, with_batch, with_inputs


@dataclass(frozen=True)
class Judged:
    """The model of a training, from inputs and trained weights to what the loss judges along ``axis``.

    ``weights`` are the trained ones, ``counter`` the input that numbers the steps where something is dropped, ``own``
    the model of a loss of the user's own.
    """

    model: Model
    weights: Mapping[str, np.ndarray]
    loss: str
    axis: int
    counter: str | None
    own: Model | None


def model_of(trainer: Trainer) -> Judged:
    """The model of a training."""
    folder, name = trainer.network.folder, trainer.network.name
    parsed = read(folder / f"{name}_model.onnx")
    loss, output = loss_of(trainer.said["loss"])
    chosen = [w for w in weights_of(parsed) if w.name in trainer.weights]
    answers, axis = answers_of(parsed, output, taken_in(loss))
    shapes = {p.onnx_name: tuple(int(n) for n in p.shape) for p in trainer.inputs}
    judged, counter = with_dropout(with_inputs(parsed, chosen, [answers]), dropping_of(trainer.said["dropout"]))
    own = read(folder / f"{name}_loss.onnx") if is_own(loss) else None
    return Judged(with_batch(judged, shapes), {w.name: w.value for w in chosen}, loss, axis, counter, own)

"""The model of a built training, as it was before it was built."""

from __future__ import annotations

import numpy as np

from edgec.artifact.trainer import Trainer
from edgec.differentiate.losses import LOSSES, loss_of
from edgec.frontend.onnx.model import Model, read
from edgec.frontend.onnx.trainable import answers_of, weights_of, with_batch, with_inputs


def model_of(trainer: Trainer) -> tuple[Model, dict[str, np.ndarray]]:
    """The model of a training, from inputs and trained weights to what the loss judges; and the weights."""
    parsed = read(trainer.network.folder / f"{trainer.network.name}_model.onnx")
    loss, output = loss_of(trainer.said["loss"])
    chosen = [w for w in weights_of(parsed) if w.name in trainer.weights]
    answers, _ = answers_of(parsed, output, LOSSES[loss].takes_in)
    shapes = {p.onnx_name: tuple(int(n) for n in p.shape) for p in trainer.inputs}
    return with_batch(with_inputs(parsed, chosen, [answers]), shapes), {w.name: w.value for w in chosen}

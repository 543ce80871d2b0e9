"""Options of training: what a step is made by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgec.device.device import Device
from edgec.differentiate.losses import loss_of
from edgec.differentiate.optimizers import Optimizer, optimizer_of
from edgec.differentiate.update import Update, update_of
from edgec.errors import UsageError
from edgec.frontend.onnx.batch_norm import BATCH, batch_norm_of
from edgec.frontend.onnx.dropout import Dropping, dropping_of
from edgec.options.table import OPTIONS
from edgec.text import printable

#: How a step takes the samples of a batch, as its lock file says.
TOGETHER, ONE_BY_ONE = "together", "one by one"
#: More samples a step than this are a slip of the finger.
MAX_BATCH = 65536


@dataclass(frozen=True)
class Training:
    """A loss (by name, or the path of a model; of ``output``, or the first one), the weights that are trained, the
    optimizer, samples a step, the steps whose gradients change weights together, what dropout drops, and whether batch
    normalization uses the statistics of each batch."""

    loss: str
    output: str | None
    update: Update
    optimizer: Optimizer
    batch: int | None
    accumulate: int
    dropping: Dropping
    batch_norm: str

    @property
    def said(self) -> dict[str, str]:
        """The options as texts."""
        loss = Path(self.loss).name + (f":{self.output}" if self.output is not None else "")
        chosen = {"loss": loss, "update": str(self.update), "optimizer": str(self.optimizer)}
        return {
            **chosen,
            "accumulate": str(self.accumulate),
            "dropout": str(self.dropping),
            "batch_norm": self.batch_norm,
        }

    @property
    def renews_statistics(self) -> bool:
        """True where statistics are those of each batch."""
        return self.batch_norm == BATCH


def training_of(given: Mapping[str, Any], device: Device) -> Training | None:
    """The training that options ask for; None without a loss. Raises UsageError for what cannot be trained."""
    update, optimizer, batch = update_of(given["update"]), optimizer_of(given["optimizer"]), batch_of(given["batch"])
    dropping, batch_norm = dropping_of(given["dropout"]), batch_norm_of(given["batch_norm"])
    if given["loss"] is None:
        keys = (
            "update",
            "accumulate",
            "dropout",
            "batch_norm",
            *(("optimizer", "batch") if given["retrain"] is None else ()),
        )
        asked = next((k for k in keys if given[k] != OPTIONS[k].default), None)
        if asked is not None:
            hint = "give --loss cross_entropy, or another loss"
            raise UsageError("nothing is trained without a loss", hint=hint, where=f"--{asked.replace('_', '-')}")
        return None
    refused = {"quantize": "float", "prune": None, "retrain": None, "place": None, "dims": None}
    for key, usual in refused.items():
        if given[key] not in (usual, {}, ()):
            hint = f"leave out --{key.rstrip('s')}, and compress what export_onnx writes"
            raise UsageError(f"a training step takes no --{key.rstrip('s')}", hint=hint, where="--loss")
    kinds = ("fp32", "tf32", "fp16", "bf16") if device.language == "cuda" else ("fp32",)
    if given["precision"] not in (None, *kinds):
        hint = "leave out --precision; with --device cuda_sm90, tf32, fp16 and bf16 are trained too"
        wanted = printable(given["precision"])
        raise UsageError(f"a training step takes no --precision {wanted}", hint=hint, where="--loss")
    loss, output = loss_of(given["loss"])
    accumulate = _accumulate_of(given["accumulate"])
    return Training(loss, output, update, optimizer, batch, accumulate, dropping, batch_norm)


def _accumulate_of(given: int) -> int:
    if not 1 <= given <= MAX_BATCH:
        raise UsageError(f"gradients of {given} steps", hint=f"give 1 to {MAX_BATCH}", where="--accumulate")
    return given


def batch_of(given: int | None) -> int | None:
    """The samples of a step. Raises UsageError for a number that makes no sense."""
    if given is not None and not 1 <= given <= MAX_BATCH:
        raise UsageError(f"a batch of {given}", hint=f"give 1 to {MAX_BATCH}", where="--batch")
    return given

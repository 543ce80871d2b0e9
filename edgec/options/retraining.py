"""Options of retraining: data, steps, and where a state is saved to go on from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgec.compress.prune.scheme import Scheme
from edgec.compress.retrain import AUGMENTS, Retraining
from edgec.differentiate.optimizers import optimizer_of
from edgec.errors import UsageError
from edgec.options.table import OPTIONS
from edgec.options.training import batch_of
from edgec.text import printable

#: The optimizers where none is said, of pruned networks and of others; rates are parts of a weight's size.
OPTIMIZER, FINE = "adam:lr=0.002", "adam:lr=0.001"
#: More steps than this are a slip of the finger.
MAX_STEPS = 10_000_000


def retraining_of(given: Mapping[str, Any], quantize: str, prune: Scheme | None) -> Retraining | None:
    """The retraining that options ask for; None without data for it. Raises UsageError for what is not retrained."""
    keys = ("retrain_steps", "retrain_state", "augment")
    if given["retrain"] is None:
        asked = next((k for k in keys if given[k] != OPTIONS[k].default), None)
        if asked is not None:
            raise UsageError("nothing is retrained without data", hint="give --retrain FILE.npz", where=_flag(asked))
        return None
    data, state, steps = Path(given["retrain"]), given["retrain_state"], given["retrain_steps"]
    if not data.is_file():
        hint = "give an .npz file with an array for every input, samples along the first dimension"
        raise UsageError("there is no such file of samples", hint=hint, where=str(data))
    if prune is None and quantize != "int8":
        hint = "give --prune vector --sparsity 0.5, or --quantize int8"
        raise UsageError("retraining makes up for what pruning or int8 lost", hint=hint, where="--retrain")
    if prune is not None and prune.kind == "channel":
        hint = "build with --write-onnx FILE, and train that file: edgec train FILE --loss mse"
        raise UsageError("a network without some of its channels is not retrained", hint=hint, where="--retrain")
    if prune is not None and given["max_loss"] is not None and quantize == "float":
        hint = "give --sparsity 0.5 in place of --max-loss"
        raise UsageError("--max-loss bounds what is lost before the retraining", hint=hint, where="--retrain")
    if not 1 <= steps <= MAX_STEPS:
        raise UsageError(f"{steps} steps", hint=f"give 1 to {MAX_STEPS}", where=_flag("retrain_steps"))
    augments = tuple(filter(None, (word.strip() for word in (given["augment"] or "").split(","))))
    for word in augments:
        if word not in AUGMENTS:
            hint = f"it is {' or '.join(AUGMENTS)}, or both with a comma"
            raise UsageError(f"samples are not changed by '{printable(word)}'", hint=hint, where="--augment")
    usual = OPTIMIZER if prune is not None else FINE
    text = given["optimizer"] if given["optimizer"] != OPTIONS["optimizer"].default else usual
    saved = Path(state) if state is not None else None
    return Retraining(data, steps, optimizer_of(text), batch_of(given["batch"]), augments, saved)


def _flag(key: str) -> str:
    return OPTIONS[key].long

"""The choice of weights that are trained: all others stay constants."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from edgec.errors import UsageError
from edgec.frontend.onnx.adapters import DOWN, UP
from edgec.frontend.onnx.trainable import Weight
from edgec.text import listed, printable

_HINT = "write all, bias, norm, last:2 (layers), lora=8 (rank), or names of nodes with commas"
#: Adapters of a higher rank are a slip of the finger.
MAX_RANK = 4096


@dataclass(frozen=True)
class Update:
    """The choice of ``--update``: all, bias, norm, last (of so many layers), lora (adapters of that rank) or nodes."""

    kind: str
    layers: int = 0
    nodes: tuple[str, ...] = ()
    rank: int = 0

    def __str__(self) -> str:
        texts = {"last": f"last:{self.layers}", "nodes": ",".join(self.nodes), "lora": f"lora={self.rank}"}
        return texts.get(self.kind, self.kind)


def update_of(text: str) -> Update:
    """The choice that a text of ``--update`` means. Raises UsageError for one that means none."""
    if text in ("all", "bias", "norm"):
        return Update(text)
    if text == "last" or text.startswith("last:"):
        found = re.fullmatch(r"last:([1-9]\d{0,5})", text)
        if found is None:
            raise UsageError(f"'{printable(text)}' is no number of layers", hint="write last:2", where="--update")
        return Update("last", layers=int(found[1]))
    if text == "lora" or text.startswith("lora="):
        found = re.fullmatch(r"lora=([1-9]\d{0,3})", text)
        if found is None or int(found[1]) > MAX_RANK:
            hint = f"write lora=8; ranks are 1 to {MAX_RANK}"
            raise UsageError(f"'{printable(text)}' is no rank of adapters", hint=hint, where="--update")
        return Update("lora", rank=int(found[1]))
    nodes = tuple(name.strip() for name in text.split(",") if name.strip())
    if not nodes:
        raise UsageError("no weight is to be trained", hint=_HINT, where="--update")
    return Update("nodes", nodes=nodes)


def trained(weights: Sequence[Weight], update: Update, where: str) -> list[Weight]:
    """The weights of the model ``where`` that are trained. Raises UsageError where there are none of that kind."""
    if not weights:
        hint = "train a network with floats of 32 bits as weights of its main graph"
        raise UsageError("the model has no trainable weight", hint=hint, where=where)
    if update.kind == "nodes":
        return _of_nodes(weights, update.nodes)
    if update.kind == "lora":
        return [w for w in weights if w.name.endswith((DOWN, UP))]
    first = max(w.layer for w in weights) + 1 - update.layers
    found = [w for w in weights if update.kind in ("all", w.kind) or (update.kind == "last" and w.layer >= first)]
    if not found:
        kinds = listed(sorted({w.kind for w in weights}))
        hint = f"its weights are {kinds}; --update all trains them all"
        raise UsageError(f"the model has no trainable weight of the kind '{update}'", hint=hint, where=where)
    return found


def _of_nodes(weights: Sequence[Weight], nodes: Sequence[str]) -> list[Weight]:
    known = list(dict.fromkeys(w.node for w in weights))
    for name in nodes:
        if name not in known:
            hint = f"{_HINT}; nodes with weights are {listed(known)}"
            raise UsageError(
                f"there is no node '{printable(name)}' with trainable weights", hint=hint, where="--update"
            )
    return [w for w in weights if w.node in nodes]

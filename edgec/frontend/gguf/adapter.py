"""Low-rank adapters in GGUF, as llama.cpp's convert_lora_to_gguf.py writes them."""

from __future__ import annotations

import numpy as np

from edgec.errors import ModelError
from edgec.frontend.gguf.blocks import Blocks
from edgec.frontend.gguf.reader import GgufModel
from edgec.frontend.language.adapter import Adapter, Pair
from edgec.text import printable

#: Architectures whose rows of queries and keys are stored by pairs of features.
_PAIRED = ("llama", "smollm3")


def adapter_of(model: GgufModel) -> Adapter:
    """The adapter in a file; raises ModelError for files of another kind, and for matrices in few bits."""
    kinds = model.value("general.type", str, "model"), model.value("adapter.type", str, "")
    if kinds != ("adapter", "lora"):
        raise ModelError(
            f"the file is a {printable(kinds[0])} and no low-rank adapter",
            hint="convert one with llama.cpp's convert_lora_to_gguf.py",
            where=model.where,
        )
    alpha, pairs = model.number("adapter.lora.alpha"), {}
    for name in model.tensors:
        weight, _, kind = name.rpartition(".")
        if kind not in ("lora_a", "lora_b") or f"{weight}.lora_a" not in model.tensors:
            raise ModelError(f"tensor '{printable(name)}' is no matrix of a low-rank adapter", where=model.where)
        if kind == "lora_a":
            down, up = (_floats(model, f"{weight}.{end}") for end in ("lora_a", "lora_b"))
            pairs[weight] = Pair(down, up, alpha / len(down))
    return Adapter(model.where, pairs, by_module=False, is_paired=model.architecture in _PAIRED)


def _floats(model: GgufModel, name: str) -> np.ndarray:
    if name not in model.tensors:
        raise ModelError(f"the adapter has no '{printable(name)}'", where=model.where)
    found = model.tensor(name)
    if isinstance(found, Blocks):
        raise ModelError(
            f"tensor '{printable(name)}' is {model.tensors[name].format.name}; matrices of adapters are floats",
            hint="convert the adapter with --outtype f16",
            where=model.where,
        )
    return found

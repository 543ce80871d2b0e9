"""The hyperparameters of a decoder: a frozen record that every file format is read into."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from edgec.errors import ModelError

#: Bounds of what a file may ask for: no decoder for the edge comes near them.
MOST = {"layers": 512, "width": 1 << 16, "heads": 1 << 10, "hidden": 1 << 18, "vocabulary": 1 << 20, "context": 1 << 22}

#: More than any number of a configuration that multiplies or divides.
_LARGEST = 1e12


@dataclass(frozen=True)
class Rotary:
    """Rotary position embedding: the first ``size`` features of a head are rotated in pairs.

    ``is_interleaved``: a pair is two neighboring features; otherwise one of each half. ``scale`` divides positions;
    ``frequency_factors`` divide the frequency of each pair.
    """

    size: int
    base: float
    is_interleaved: bool = False
    scale: float = 1.0
    frequency_factors: tuple[float, ...] = ()


@dataclass(frozen=True)
class Layer:
    """Settings that may differ from layer to layer: the rotary embedding (None: no positions), and the window of
    attention in tokens (0: all earlier tokens are seen)."""

    rotary: Rotary | None
    window: int = 0


@dataclass(frozen=True)
class DecoderConfig:
    """A decoder of the Llama family, or GPT-2's; a weight that a layer does not have (a bias, a norm) is left out by
    the file."""

    vocabulary: int
    width: int
    heads: int
    kv_heads: int
    head: int
    hidden: int
    epsilon: float
    layers: tuple[Layer, ...]
    activation: str = "silu"  # of the gate: "silu", "gelu" (with tanh) or "exact gelu"
    embedding_scale: float = 1.0
    query_scale: float = 0.0  # 0: the inverse root of the size of a head
    attention_softcap: float = 0.0
    logits_softcap: float = 0.0
    positions: int = 0  # rows of a table that is added to the embeddings; 0: there is none
    is_centered: bool = False  # norms subtract the mean, and have a bias
    is_gated: bool = True  # feed-forward layers multiply by a gate; otherwise the activation is that of their values

    def check(self) -> None:
        """Raises ModelError where the numbers do not fit one another."""
        for name in ("width", "heads", "hidden", "vocabulary"):
            if not 1 <= getattr(self, name) <= MOST[name]:
                raise ModelError(f"the language model has {name} {getattr(self, name)}")
        if not 1 <= len(self.layers) <= MOST["layers"]:
            raise ModelError(f"the language model has {len(self.layers)} layers")
        if not 0 <= self.positions <= MOST["context"]:
            raise ModelError(f"the language model has {self.positions} positions")
        if self.kv_heads < 1 or self.heads % self.kv_heads:
            raise ModelError(f"{self.heads} query heads cannot share {self.kv_heads} key heads evenly")
        if not 1 <= self.head <= MOST["width"]:
            raise ModelError(f"the language model has heads of {self.head} features")
        for name in ("epsilon", "embedding_scale", "query_scale", "attention_softcap", "logits_softcap"):
            if not 0 <= getattr(self, name) <= _LARGEST:
                raise ModelError(f"the language model has {name.replace('_', ' ')} {getattr(self, name)}")
        for layer in self.layers:
            rotary = layer.rotary
            if not 0 <= layer.window <= MOST["context"]:
                raise ModelError(f"the language model has a window of {layer.window} tokens")
            if rotary is not None and not all(0 < n <= _LARGEST for n in (rotary.base, rotary.scale)):
                raise ModelError(f"positions have base {rotary.base} and scale {rotary.scale}")
            if rotary is not None and not all(isfinite(n) and n for n in rotary.frequency_factors):
                raise ModelError("the factors of frequencies are no numbers to divide by")
            if rotary is not None and not (0 < rotary.size <= self.head and rotary.size % 2 == 0):
                raise ModelError(f"{rotary.size} features of a head of {self.head} cannot be rotated in pairs")
            if rotary is not None and len(rotary.frequency_factors) not in (0, rotary.size // 2):
                raise ModelError(f"{len(rotary.frequency_factors)} frequency factors for {rotary.size} features")

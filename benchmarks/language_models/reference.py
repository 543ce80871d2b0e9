"""A plain evaluation of a decoder in fp32, of the weights as the file's blocks say: what speed is not to cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from edgec.frontend.gguf.architectures import config_of
from edgec.frontend.gguf.blocks import Blocks
from edgec.frontend.gguf.reader import GgufModel, read
from edgec.frontend.language.config import DecoderConfig, Layer, Rotary


@dataclass(frozen=True)
class Reference:
    """A model whose weights are computed when they are used, a matrix at a time."""

    model: GgufModel
    config: DecoderConfig

    def weight(self, name: str) -> np.ndarray | None:
        if name not in self.model.tensors:
            return None
        found = self.model.tensor(name)
        values = found.dequantized() if isinstance(found, Blocks) else found
        return np.asarray(values, np.float32).reshape(self.model.tensors[name].shape)

    def norm(self, x: np.ndarray, name: str) -> np.ndarray:
        scale = self.weight(f"{name}.weight")
        if scale is None:
            return x
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + self.config.epsilon) * scale

    def linear(self, x: np.ndarray, name: str) -> np.ndarray:
        weights, bias = self.weight(f"{name}.weight"), self.weight(f"{name}.bias")
        assert weights is not None, name
        return x @ weights.T if bias is None else x @ weights.T + bias

    def logits(self, tokens: Sequence[int], last: int) -> np.ndarray:
        """[last, vocabulary]: the logits of the last positions."""
        c = self.config
        table = self.weight("token_embd.weight")
        assert table is not None
        x = table[list(tokens)] * np.float32(c.embedding_scale)
        for k, layer in enumerate(c.layers):
            blk = f"blk.{k}"
            y = self._attention(self.norm(x, f"{blk}.attn_norm"), layer, f"{blk}.attn")
            x = x + self.norm(y, f"{blk}.post_attention_norm")
            h = self.norm(x, f"{blk}.ffn_norm")
            gate = self.linear(h, f"{blk}.ffn_gate")
            y = self.linear(_activated(gate, c.activation) * self.linear(h, f"{blk}.ffn_up"), f"{blk}.ffn_down")
            x = x + self.norm(y, f"{blk}.post_ffw_norm")
        head = self.weight("output.weight")
        y = self.norm(x[-last:], "output_norm") @ (table if head is None else head).T
        return np.tanh(y / c.logits_softcap) * c.logits_softcap if c.logits_softcap else y

    def _attention(self, x: np.ndarray, layer: Layer, name: str) -> np.ndarray:
        c, n = self.config, len(x)
        heads = {"q": c.heads, "k": c.kv_heads, "v": c.kv_heads}
        q, k, v = (self.linear(x, f"{name}_{part}").reshape(n, count, c.head) for part, count in heads.items())
        q, k = self.norm(q, f"{name}_q_norm"), self.norm(k, f"{name}_k_norm")
        if layer.rotary is not None:
            q, k = (rotated(y, layer.rotary) for y in (q, k))
        k, v = (np.repeat(y, c.heads // c.kv_heads, 1) for y in (k, v))
        scores = np.einsum("qhd,khd->hqk", q, k) * np.float32(c.query_scale or c.head**-0.5)
        if c.attention_softcap:
            scores = np.tanh(scores / c.attention_softcap) * c.attention_softcap
        query, key = np.arange(n)[:, None], np.arange(n)[None]
        hidden = key > query
        if layer.window:
            hidden |= key <= query - layer.window
        scores = np.where(hidden, -np.inf, scores)
        e = np.exp(scores - scores.max(-1, keepdims=True))
        y = np.einsum("hqk,khd->qhd", e / e.sum(-1, keepdims=True), v)
        return self.linear(y.reshape(n, -1).astype(np.float32), f"{name}_output")


def _activated(x: np.ndarray, kind: str) -> np.ndarray:
    if kind == "silu":
        y: np.ndarray = x / (1 + np.exp(-x))
    else:
        y = x * np.float32(0.5) * (np.tanh((x + x**3 * np.float32(0.044715)) * np.float32((2 / np.pi) ** 0.5)) + 1)
    return y


def rotated(x: np.ndarray, rotary: Rotary) -> np.ndarray:
    """[positions, heads, head] with its first features rotated by the angle of the position."""
    pairs = np.arange(rotary.size // 2)
    frequency = rotary.base ** (-2.0 * pairs / rotary.size) / np.array(rotary.frequency_factors or 1.0)
    angles = np.arange(len(x))[:, None, None] / rotary.scale * frequency
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    a, b = (2 * pairs, 2 * pairs + 1) if rotary.is_interleaved else (pairs, pairs + rotary.size // 2)
    y = x.copy()
    y[..., a] = x[..., a] * cos - x[..., b] * sin
    y[..., b] = x[..., b] * cos + x[..., a] * sin
    return y


@lru_cache(maxsize=1)
def reference(file: Path) -> Reference:
    """The reference of a GGUF file of the Llama family."""
    model = read(file, str(file))
    return Reference(model, config_of(model))

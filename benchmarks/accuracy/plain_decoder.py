"""The logits of a GGUF file in plain numpy, in fp32: the yardstick for what edgec builds of the same file.

The file is read and its blocks are decoded by the published `gguf` package, and the decoder is written from its
definition, for all tokens at once; nothing of edgec is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np


class PlainDecoder:
    """A decoder of the architectures llama and gemma3."""

    def __init__(self, path: Path) -> None:
        from gguf import GGUFReader
        from gguf.quants import dequantize

        reader = GGUFReader(path)
        self.fields = {name: field.contents() for name, field in reader.fields.items()}
        self.architecture = str(self.fields["general.architecture"])
        if self.architecture not in ("llama", "gemma3"):
            raise ValueError(f"{path}: the architecture '{self.architecture}' is not evaluated here")
        self.weights: dict[str, np.ndarray] = {
            t.name: dequantize(t.data, t.tensor_type).astype(np.float32).reshape([int(n) for n in t.shape[::-1]])
            for t in reader.tensors
        }

    def fact(self, name: str, default: Any = None) -> Any:
        return self.fields.get(f"{self.architecture}.{name}", default)

    def logits(self, tokens: Sequence[int], first: int = 0) -> np.ndarray:
        """Logits [tokens from ``first`` on, vocabulary]."""
        w, is_gemma = self.weights, self.architecture == "gemma3"
        heads, groups = self.fact("attention.head_count"), self.fact("attention.head_count_kv")
        width = self.fact("embedding_length")
        head = self.fact("attention.key_length", width // heads)
        x = w["token_embd.weight"][list(tokens)] * np.float32(width**0.5 if is_gemma else 1)
        for j in range(self.fact("block_count")):
            at = f"blk.{j}."
            is_local = is_gemma and (j + 1) % 6 != 0
            h = self._norm(x, f"{at}attn_norm")
            q, k, v = ((h @ w[f"{at}attn_{part}.weight"].T).reshape(len(x), -1, head) for part in "qkv")
            if is_gemma:
                q, k = self._norm(q, f"{at}attn_q_norm"), self._norm(k, f"{at}attn_k_norm")
            base = self.fact("rope.freq_base_swa", 10000.0) if is_local else self.fact("rope.freq_base", 10000.0)
            q, k = (_turned(y, base, not is_gemma) for y in (q, k))
            window = self.fact("attention.sliding_window") if is_local else len(x)
            y = np.concatenate([_attended(q[:, a], k[:, g], v[:, g], window)
                                for a in range(heads) for g in [a // (heads // groups)]], axis=1)  # fmt: skip
            y = y @ w[f"{at}attn_output.weight"].T
            x = x + (self._norm(y, f"{at}post_attention_norm") if is_gemma else y)
            h = self._norm(x, f"{at}ffn_norm")
            gate, up = h @ w[f"{at}ffn_gate.weight"].T, h @ w[f"{at}ffn_up.weight"].T
            y = (_gelu(gate) if is_gemma else gate / (1 + np.exp(-gate))) * up @ w[f"{at}ffn_down.weight"].T
            x = x + (self._norm(y, f"{at}post_ffw_norm") if is_gemma else y)
        head_of = w.get("output.weight", w["token_embd.weight"])
        return np.asarray(self._norm(x[first:], "output_norm") @ head_of.T)

    def _norm(self, x: np.ndarray, name: str) -> np.ndarray:
        epsilon = np.float32(self.fact("attention.layer_norm_rms_epsilon"))
        return np.asarray(x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * self.weights[f"{name}.weight"])


def _turned(x: np.ndarray, base: float, is_interleaved: bool) -> np.ndarray:
    """Features of each head [tokens, heads, head] rotated by position, neighbors or halves in pairs."""
    pairs = x.shape[2] // 2
    angles = np.arange(len(x))[:, None, None] * base ** (-np.arange(pairs) / pairs)
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    first, second = (slice(0, None, 2), slice(1, None, 2)) if is_interleaved else (slice(pairs), slice(pairs, None))
    y, a, b = np.empty_like(x), x[..., first], x[..., second]
    y[..., first], y[..., second] = a * cos - b * sin, b * cos + a * sin
    return y


def _attended(q: np.ndarray, k: np.ndarray, v: np.ndarray, window: int) -> np.ndarray:
    distance = np.arange(len(q))[:, None] - np.arange(len(k))
    scores = np.where((distance >= 0) & (distance < window), q @ k.T * np.float32(q.shape[1] ** -0.5), -np.inf)
    shares = np.exp(scores - scores.max(-1, keepdims=True), dtype=np.float32)
    return np.asarray(shares / shares.sum(-1, keepdims=True) @ v)


def _gelu(x: np.ndarray) -> np.ndarray:
    return np.asarray(x / 2 * (1 + np.tanh(np.float32((2 / np.pi) ** 0.5) * (x + np.float32(0.044715) * x * x * x))))

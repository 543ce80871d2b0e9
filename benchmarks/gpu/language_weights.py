"""Random language models for `benchmarks.gpu.language_models`: their shapes, weights, and logits in numpy."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

#: Threads of the host.
THREADS = 16
Kind = Literal["fp32", "fp16", "int8"]
KINDS: tuple[Kind, ...] = ("fp32", "fp16", "int8")


@dataclass(frozen=True)
class Model:
    """The shape of a decoder of the Llama family with tied embeddings; ``bits`` of a weight."""

    name: str
    vocabulary: int
    width: int
    heads: int
    kv_heads: int
    head: int
    hidden: int
    layers: int
    bits: int
    context: int = 2048
    base: float = 1e4
    epsilon: float = 1e-5
    cache: Kind = "fp32"  # what keys and values are stored as

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every weight, [outputs, inputs] for a matrix."""
        found: dict[str, tuple[int, ...]] = {"token_embd.weight": (self.vocabulary, self.width)}
        keys = self.kv_heads * self.head
        for k in range(self.layers):
            own: dict[str, tuple[int, ...]] = {
                "attn_norm": (self.width,), "attn_q": (self.heads * self.head, self.width),
                "attn_k": (keys, self.width), "attn_v": (keys, self.width),
                "attn_output": (self.width, self.heads * self.head), "ffn_norm": (self.width,),
                "ffn_gate": (self.hidden, self.width), "ffn_up": (self.hidden, self.width),
                "ffn_down": (self.width, self.hidden),
            }  # fmt: skip
            found |= {f"blk.{k}.{name}.weight": shape for name, shape in own.items()}
        return found | {"output_norm.weight": (self.width,)}

    @property
    def token_bytes(self) -> float:
        """Bytes of weights that a token reads; of 4 bits, a scale and an offset for every 32."""
        return sum(float(np.prod(s)) for s in self.shapes().values() if len(s) > 1) * {16: 2, 4: 0.625}[self.bits]


_SMOLLM2 = (49152, 576, 9, 3, 64, 1536, 30)
_ONE_BILLION = (128256, 2048, 32, 8, 64, 8192, 16)
_TINY = (512, 256, 4, 2, 64, 512, 2)
MODELS = {
    m.name: m
    for m in (
        *(Model(f"smollm2-fp16-cache-{kind}", *_SMOLLM2, 16, cache=kind) for kind in KINDS),
        *(Model(f"smollm2-int4-cache-{kind}", *_SMOLLM2, 4, cache=kind) for kind in KINDS),
        *(Model(f"1b-fp16-cache-{kind}", *_ONE_BILLION, 16, cache=kind) for kind in KINDS),
        Model("1b-int4-cache-fp16", *_ONE_BILLION, 4, cache="fp16"),
        *(Model(f"tiny-cache-{kind}", *_TINY, 16, context=256, cache=kind) for kind in KINDS),
    )
}


def packed(codes: np.ndarray) -> np.ndarray:
    """Codes [rows, columns] of 4 bits, eight to a word, the first one lowest: [rows, bytes]."""
    pairs: np.ndarray = codes[:, 0::2] | codes[:, 1::2] << np.uint8(4)
    return pairs


class Weights:
    """Random weights, and the forms in which a project stores them."""

    def __init__(self, model: Model, seed: int) -> None:
        self.model = model
        self.forms: dict[str, dict[str, np.ndarray]] = {}
        matrices = {name: shape for name, shape in model.shapes().items() if len(shape) > 1}
        with ThreadPoolExecutor(THREADS) as pool:
            drawn = pool.map(self._drawn, range(seed, seed + len(matrices)), matrices, matrices.values())
            self.forms = dict(zip(matrices, drawn))

    def _drawn(self, seed: int, name: str, shape: tuple[int, int]) -> dict[str, np.ndarray]:
        random, (rows, columns) = np.random.default_rng(seed), shape
        spread = np.float32(1.0 if "embd" in name else columns**-0.5)
        if self.model.bits == 16:
            return {"f16": (random.standard_normal(shape, np.float32) * spread).astype(np.float16)}
        codes = np.frombuffer(random.bytes(rows * columns), np.uint8).reshape(shape) & np.uint8(15)
        scale = (random.uniform(0.5, 1.5, (rows, columns // 32)) * (spread / 4.6)).astype(np.float16)
        return {"codes": codes, "scale": scale, "base": (scale * np.float16(-8)).astype(np.float16)}

    def floats(self, name: str) -> np.ndarray:
        """The weights of a matrix in fp32."""
        form = self.forms[name]
        if "f16" in form:
            return form["f16"].astype(np.float32)
        each = form["codes"].reshape(*form["scale"].shape, 32).astype(np.float32)
        each *= form["scale"].astype(np.float32)[..., None]
        each += form["base"].astype(np.float32)[..., None]
        return each.reshape(form["codes"].shape)

    def form(self, name: str, kind: str) -> np.ndarray:
        """[rows, bytes] of a matrix in one of the forms of a project."""
        found = self.forms[name].get(kind)
        if kind == "words":
            found = packed(self.forms[name]["codes"])
        elif kind == "pairs":
            found = np.stack([self.forms[name]["scale"], self.forms[name]["base"]], 2)
        elif found is None:
            found = self.floats(name).astype(np.float16 if kind == "f16" else np.float32)
        return np.ascontiguousarray(found).reshape(len(found), -1).view(np.uint8)

    def blob(self, folder: Path) -> np.ndarray:
        """The file of weights of a project."""
        facts = json.loads((folder / "weights.json").read_text())
        blob = np.zeros(facts["bytes"] + 64, np.uint8)

        def put(entry: tuple[int, str, str, int, int, int]) -> None:
            offset, kind, tensor, start, step, count = entry
            rows = self.form(tensor, kind)[start :: step or 1][:count]
            blob[offset : offset + rows.size].reshape(rows.shape)[...] = rows

        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(put, facts["rows"]))
        raw = np.frombuffer(zlib.decompress((folder / "constants.bin").read_bytes()), np.uint8)
        for offset, begin, size in facts["constants"]:
            blob[offset : offset + size] = raw[begin : begin + size]
        return blob


def reference(model: Model, weights: Weights, tokens: np.ndarray, positions: Sequence[int]) -> list[np.ndarray]:
    """Logits after so many tokens, in fp32, all positions at once."""
    count, groups = len(tokens), model.heads // model.kv_heads
    frequency = model.base ** (-2 * np.arange(model.head // 2) / model.head)
    angles = np.arange(count)[:, None] * frequency
    cos, sin = (f(angles).astype(np.float32)[:, None] for f in (np.cos, np.sin))
    hidden = np.triu(np.full((count, count), -np.inf, np.float32), 1)

    def norm(x: np.ndarray) -> np.ndarray:
        unit: np.ndarray = x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(model.epsilon))
        return unit

    def turned(x: np.ndarray) -> np.ndarray:
        a, b = x[..., 0::2], x[..., 1::2]
        return np.stack([a * cos - b * sin, b * cos + a * sin], -1).reshape(x.shape)

    x = weights.floats("token_embd.weight")[tokens]
    for k in range(model.layers):

        def times(x: np.ndarray, part: str, layer: int = k) -> np.ndarray:
            return x @ weights.floats(f"blk.{layer}.{part}.weight").T

        h = norm(x)
        q, key, value = (times(h, f"attn_{part}").reshape(count, -1, model.head) for part in "qkv")
        q, key = turned(q), turned(key)
        mixed = np.empty_like(q)
        for head in range(model.heads):
            scores = q[:, head] @ key[:, head // groups].T / np.float32(model.head**0.5) + hidden
            e = np.exp(scores - scores.max(-1, keepdims=True))
            mixed[:, head] = e / e.sum(-1, keepdims=True) @ value[:, head // groups]
        x = x + times(mixed.reshape(count, -1), "attn_output")
        h = norm(x)
        gate = times(h, "ffn_gate")
        x = x + times(gate / (1 + np.exp(-gate)) * times(h, "ffn_up"), "ffn_down")
    ends: np.ndarray = norm(x)[[p - 1 for p in positions]] @ weights.floats("token_embd.weight").T
    return list(ends)

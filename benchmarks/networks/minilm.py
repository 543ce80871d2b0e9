"""all-MiniLM-L6-v2 (a BERT of six layers for text embeddings) as ONNX, from the safetensors file of a wheel.

Written twice, as exporters do: with LayerNormalization as one operator, and with layer normalization and shapes in
primitive operators of an older opset.
"""

from __future__ import annotations

import json
from math import sqrt
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto

from benchmarks.networks.graph_writer import Writer

HEADS, WIDTH = 12, 384
EPSILON = 1e-12
_TYPES = {"F32": np.float32, "F16": np.float16, "I64": np.int64}


def tensors(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a safetensors file: 8 bytes with the length of a JSON header, the header, then the data."""
    raw = path.read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    found = {}
    for name, entry in json.loads(raw[8:start]).items():
        if name != "__metadata__":
            low, high = entry["data_offsets"]
            array = np.frombuffer(raw[start + low : start + high], _TYPES[entry["dtype"]])
            found[name] = array.reshape(entry["shape"])
    return found


class _Bert(Writer):
    """Layers of BERT; ``primitive`` spells layer normalization out."""

    def __init__(self, weights: dict[str, np.ndarray], primitive: bool) -> None:
        super().__init__()
        self.state = weights
        self.primitive = primitive

    def stored(self, name: str) -> str:
        return self.weight(name, self.state[name].astype(np.float32))

    def number(self, value: float) -> str:
        return self.weight(f"number_{value!r}", np.array(value, np.float32))

    def integers(self, *values: int) -> str:
        return self.weight("integers_" + "_".join(map(str, values)), np.array(values, np.int64))

    def dense(self, x: str, name: str) -> str:
        kernel = self.weight(f"{name}.weight", self.state[f"{name}.weight"].astype(np.float32).T)
        return self.node("Add", self.node("MatMul", x, kernel), self.stored(f"{name}.bias"))

    def norm(self, x: str, name: str) -> str:
        scale, shift = self.stored(f"{name}.weight"), self.stored(f"{name}.bias")
        if not self.primitive:
            return self.node("LayerNormalization", x, scale, shift, axis=-1, epsilon=EPSILON)
        centered = self.node("Sub", x, self.node("ReduceMean", x, axes=[-1], keepdims=1))
        square = self.node("Pow", centered, self.number(2.0))
        variance = self.node("ReduceMean", square, axes=[-1], keepdims=1)
        deviation = self.node("Sqrt", self.node("Add", variance, self.number(EPSILON)))
        return self.node("Add", self.node("Mul", self.node("Div", centered, deviation), scale), shift)

    def gelu(self, x: str) -> str:
        erf = self.node("Erf", self.node("Div", x, self.number(sqrt(2))))
        return self.node("Mul", self.node("Mul", x, self.node("Add", erf, self.number(1.0))), self.number(0.5))

    def heads(self, x: str, perm: list[int]) -> str:
        split = self.node("Reshape", x, self.integers(0, 0, HEADS, WIDTH // HEADS))
        return self.node("Transpose", split, perm=perm)

    def attention(self, x: str, mask: str, name: str) -> str:
        q = self.heads(self.dense(x, f"{name}.self.query"), [0, 2, 1, 3])
        k = self.heads(self.dense(x, f"{name}.self.key"), [0, 2, 3, 1])
        v = self.heads(self.dense(x, f"{name}.self.value"), [0, 2, 1, 3])
        scores = self.node("Div", self.node("MatMul", q, k), self.number(sqrt(WIDTH / HEADS)))
        weights = self.node("Softmax", self.node("Add", scores, mask), axis=-1)
        joined = self.node("Transpose", self.node("MatMul", weights, v), perm=[0, 2, 1, 3])
        mixed = self.node("Reshape", joined, self.integers(0, 0, WIDTH))
        return self.norm(self.node("Add", self.dense(mixed, f"{name}.output.dense"), x), f"{name}.output.LayerNorm")

    def embeddings(self) -> str:
        words = self.node("Gather", self.stored("embeddings.word_embeddings.weight"), "input_ids")
        types = self.node("Gather", self.stored("embeddings.token_type_embeddings.weight"), "token_type_ids")
        length = self.node("Slice", self.node("Shape", "input_ids"), self.integers(1), self.integers(2))
        table = self.stored("embeddings.position_embeddings.weight")
        positions = self.node("Slice", table, self.integers(0), length)
        total = self.node("Add", self.node("Add", words, types), positions)
        return self.norm(total, "embeddings.LayerNorm")

    def mask(self) -> str:
        """0 where a token counts, a large negative number where it does not; f32[B,1,1,S]."""
        wide = self.node("Unsqueeze", "attention_mask", self.integers(1, 2))
        off = self.node("Sub", self.number(1.0), self.node("Cast", wide, to=TensorProto.FLOAT))
        return self.node("Mul", off, self.number(-10000.0))


def _bert(path: Path, primitive: bool) -> onnx.ModelProto:
    """input_ids, attention_mask, token_type_ids i64[B,S] -> last_hidden_state f32[B,S,384]."""
    state = tensors(path)
    g = _Bert(state, primitive)
    x, mask = g.embeddings(), g.mask()
    for layer in range(sum(name.endswith("attention.self.query.bias") for name in state)):
        name = f"encoder.layer.{layer}"
        x = g.attention(x, mask, f"{name}.attention")
        inner = g.gelu(g.dense(x, f"{name}.intermediate.dense"))
        x = g.norm(g.node("Add", g.dense(inner, f"{name}.output.dense"), x), f"{name}.output.LayerNorm")
    g.node("Identity", x, name="last_hidden_state")
    ids = dict.fromkeys(("input_ids", "attention_mask", "token_type_ids"), (TensorProto.INT64, ("B", "S")))
    hidden = {"last_hidden_state": (TensorProto.FLOAT, ("B", "S", WIDTH))}
    return g.model("all_minilm_l6_v2", ids, hidden, opset=14 if primitive else 17)


def from_safetensors(path: Path) -> onnx.ModelProto:
    return _bert(path, primitive=False)


def of_primitives(path: Path) -> onnx.ModelProto:
    return _bert(path, primitive=True)

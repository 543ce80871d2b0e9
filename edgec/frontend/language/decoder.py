"""The graph of a decoder: tokens and the number of earlier ones in, the logits of the last token out.

The graph has two run-time sizes: ``tokens``, 1 .. chunk, and ``past``, the number of tokens in the cache. Keys and
values of every layer are states that each run extends in place at ``past`` (`edgec.frontend.language.cache`). Keys are
stored with their features outermost, so that the scores of neighboring keys are computed in the lanes of a vector.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from edgec.errors import ModelError
from edgec.frontend.language.cache import Cache, Kind, Positions, products_of, shares_of
from edgec.frontend.language.config import DecoderConfig, Layer, Rotary
from edgec.frontend.language.facts import LanguageModel
from edgec.frontend.language.lora import LowRank, Reserve, layout_of
from edgec.frontend.values import Value, concat, constant, emit, select
from edgec.ir import expr as X
from edgec.ir.graph import Graph, placeholder
from edgec.ir.sizes import Dimension
from edgec.ir.types import Type

#: A weight by its name, [outputs, inputs] for a matrix; None where the file has none.
Weights = Callable[[str], Value | None]
#: Most tokens that one run takes.
CHUNK = 64
#: Tokens that a built model keeps where nothing is said, if its file allows as many.
CONTEXT = 2048


class _Decoder:
    """One decoder under construction."""

    def __init__(self, config: DecoderConfig, weights: Weights, cache: Cache, low_rank: LowRank | None) -> None:
        self.config, self.weights, self.cache, self.at = config, weights, cache, cache.at
        self.low_rank = low_rank

    def weight(self, name: str, *shape: int) -> Value:
        found = self.optional(name, *shape)
        if found is None:
            raise ModelError(f"the language model has no weight '{name}'")
        return found

    def optional(self, name: str, *shape: int) -> Value | None:
        found = self.weights(name)
        if found is not None and found.shape != shape:
            raise ModelError(f"weight '{name}' is {list(found.shape)}, expected {list(shape)}")
        return found

    def linear(self, x: Value, name: str, outputs: int) -> Value:
        """``x`` [.., inputs] times the transposed weight, with its bias and its low-rank path where there are."""
        y = x @ self.weight(f"{name}.weight", outputs, x.shape[-1]).swap(0, 1)
        y = y if self.low_rank is None else self.low_rank.added(y, x, f"{name}.weight")
        bias = self.optional(f"{name}.bias", outputs)
        return y if bias is None else y + bias

    def norm(self, x: Value, name: str) -> Value:
        """Root-mean-square norm over the last dimension, or that of what differs from the mean."""
        if self.config.is_centered:
            x = x - x.mean([x.rank - 1])
        mean = (x * x).mean([x.rank - 1])
        unit = x * (1.0 / emit("sqrt", mean + self.config.epsilon))
        y = unit * self.weight(f"{name}.weight", x.shape[-1])
        return y + self.weight(f"{name}.bias", x.shape[-1]) if self.config.is_centered else y

    def norm_if_any(self, x: Value, name: str) -> Value:
        return x if self.weights(f"{name}.weight") is None else self.norm(x, name)

    def split(self, x: Value, heads: int) -> Value:
        """[tokens, heads * head] as [heads, tokens, head]."""
        return x.reshape(self.at.count, heads, self.config.head).transpose(1, 0, 2)

    def attention(self, x: Value, layer: Layer, number: int) -> Value:
        c, at, name = self.config, self.at, f"blk.{number}.attn"
        q, k, v = (self.split(y, n) for y, n in zip(self.projections(x, name), (c.heads, c.kv_heads, c.kv_heads)))
        q, k = self.norm_if_any(q, f"{name}_q_norm"), self.norm_if_any(k, f"{name}_k_norm")
        if layer.rotary is not None:
            tables = rotary_tables(layer.rotary, at)
            q, k = (rotated(y, layer.rotary, *tables) for y in (q, k))
        rows = self.cache.rows(layer.window)
        keys = self.cache.extended(f"keys_{number}", k.swap(1, 2), 2, rows)
        values = self.cache.extended(f"values_{number}", v, 1, rows)
        q = q.reshape(c.kv_heads, c.heads // c.kv_heads, at.count, c.head)
        scores = products_of(q, keys) * (c.query_scale or c.head**-0.5)
        if c.attention_softcap:
            scores = emit("tanh", scores / c.attention_softcap) * c.attention_softcap
        scores = select(rows.hidden(), float("-inf"), scores)
        y = shares_of(scores, values) @ values.numbers.unsqueeze(1)
        y = y.transpose(2, 0, 1, 3).reshape(at.count, c.heads * c.head)
        return self.linear(y, f"{name}_output", c.width)

    def projections(self, x: Value, name: str) -> tuple[Value, Value, Value]:
        """Queries, keys and values [tokens, ..], of three weights or of one."""
        c = self.config
        outputs = [c.heads * c.head, c.kv_heads * c.head, c.kv_heads * c.head]
        if self.weights(f"{name}_qkv.weight") is None:
            q, k, v = (self.linear(x, f"{name}_{part}", n) for part, n in zip("qkv", outputs))
            return q, k, v
        y, ends = self.linear(x, f"{name}_qkv", sum(outputs)), np.cumsum([0, *outputs]).tolist()
        q, k, v = (y.part(1, ends[j], ends[j + 1]) for j in range(3))
        return q, k, v

    def feed_forward(self, x: Value, number: int) -> Value:
        c, name = self.config, f"blk.{number}.ffn"
        if not c.is_gated:
            y = activation(self.linear(x, f"{name}_up", c.hidden), c.activation)
            return self.linear(y, f"{name}_down", c.width)
        if self.weights(f"{name}_gate.weight") is None:  # one matrix gives gate and value
            y = self.linear(x, f"{name}_up", 2 * c.hidden)
            gate, up = y.part(1, 0, c.hidden), y.part(1, c.hidden, 2 * c.hidden)
        else:
            gate, up = self.linear(x, f"{name}_gate", c.hidden), self.linear(x, f"{name}_up", c.hidden)
        return self.linear(activation(gate, c.activation) * up, f"{name}_down", c.width)

    def learned_positions(self) -> Value:
        """The rows [tokens, width] of the table of positions at which this run's tokens are."""
        c, at = self.config, self.at
        table = self.weight("position_embd.weight", c.positions, c.width)
        beyond = at.capacity - c.positions  # a part of a table has its largest size, whatever the tokens
        if beyond > 0:
            table = concat([table, constant(np.zeros((beyond, c.width), np.float32))], 0)
        return table.part(0, at.past, X.plain(at.past + at.count))

    def logits(self, tokens: Value) -> Value:
        """The logits [vocabulary] of the last of ``tokens`` [tokens]."""
        c, at = self.config, self.at
        table = self.weight("token_embd.weight", c.vocabulary, c.width)
        x = table.gather(tokens, 0)
        if c.embedding_scale != 1.0:
            x = x * c.embedding_scale
        if c.positions:
            x = x + self.learned_positions()
        for number, layer in enumerate(c.layers):
            name = f"blk.{number}"
            y = self.attention(self.norm(x, f"{name}.attn_norm"), layer, number)
            x = x + self.norm_if_any(y, f"{name}.post_attention_norm")
            y = self.feed_forward(self.norm(x, f"{name}.ffn_norm"), number)
            x = x + self.norm_if_any(y, f"{name}.post_ffw_norm")
        last = self.norm(x.part(0, X.plain(at.count - 1), at.count), "output_norm")
        head = self.optional("output.weight", c.vocabulary, c.width)
        y = (last @ (table if head is None else head).swap(0, 1)).reshape(c.vocabulary)
        return emit("tanh", y / c.logits_softcap) * c.logits_softcap if c.logits_softcap else y


def decoder(
    config: DecoderConfig,
    weights: Weights,
    context: int,
    chunk: int = CHUNK,
    name: str = "lm",
    cache: Kind = "fp32",
    lora: Reserve | None = None,
) -> Graph:
    """The graph of a decoder for at most ``context`` tokens, of which a run takes at most ``chunk``.

    Inputs: ``tokens`` i32 [tokens], ``past`` i64 (the number of tokens in the cache), and the cache of every layer,
    which is stored as ``cache`` says; where ``lora`` reserves room for adapters, ``adapted`` (is there one?) and
    ``adapter`` f32 (its numbers, `edgec.frontend.language.lora`) stand before the cache. Outputs: ``logits`` f32
    [vocabulary] of the last token, and the renewed cache.
    Raises ModelError for weights that are missing or of another shape.
    """
    config.check()
    chunk = min(chunk, context)
    at = Positions(X.size("past", 0, context - 1), Dimension("tokens", 1, chunk).extent, context, chunk)
    kept = Cache(at, cache)
    tokens, past = placeholder("tokens", Type("i32", (at.count,))), placeholder("past", Type("i64", ()))
    weights = functools.cache(weights)
    layout = None if lora is None else layout_of(config, lora, lambda weight: weights(weight) is not None)
    low_rank = None if layout is None else LowRank(layout)
    logits = _Decoder(config, weights, kept, low_rank).logits(Value(tokens))
    kept.finish()
    facts = LanguageModel(context, chunk, config.vocabulary, cache, kept.ring)
    return Graph(
        (tokens, past, *(low_rank.inputs if low_rank is not None else ()), *kept.inputs),
        (("logits", logits.node), *kept.outputs),
        name,
        metadata={**facts.described(), **kept.described, **(low_rank.described if low_rank is not None else {})},
        sizes=((at.past, past),),
    )


def activation(x: Value, kind: str) -> Value:
    """SiLU, GELU, or its approximation with tanh."""
    if kind == "silu":
        return x * emit("sigmoid", x)
    if kind == "exact gelu":
        return x * 0.5 * (emit("erf", x * float(np.sqrt(0.5))) + 1.0)
    return x * 0.5 * (emit("tanh", (x + x * x * x * 0.044715) * float(np.sqrt(2 / np.pi))) + 1.0)


def rotary_tables(rotary: Rotary, at: Positions) -> tuple[Value, Value]:
    """Cosines and sines [tokens, pairs] at the positions of this run: a part of a constant table."""
    pairs = np.arange(rotary.size // 2, dtype=np.float64)
    frequency = rotary.base ** (-2 * pairs / rotary.size) / (np.array(rotary.frequency_factors or 1.0))
    angles = np.arange(at.capacity, dtype=np.float64)[:, None] * (frequency / rotary.scale)
    cos, sin = (constant(table.astype(np.float32)) for table in (np.cos(angles), np.sin(angles)))
    end = X.plain(at.past + at.count)
    return cos.part(0, at.past, end), sin.part(0, at.past, end)


def rotated(x: Value, rotary: Rotary, cos: Value, sin: Value) -> Value:
    """[heads, tokens, head] with its first features rotated."""
    heads, count, head = x.shape
    first, rest = x.part(2, 0, rotary.size), x.part(2, rotary.size, head)
    pairs = rotary.size // 2
    axis = 3 if rotary.is_interleaved else 2
    split = first.reshape(heads, count, *((pairs, 2) if rotary.is_interleaved else (2, pairs)))
    a, b = (split.part(axis, j, j + 1).squeeze(axis) for j in (0, 1))
    turned = concat([(a * cos - b * sin).unsqueeze(axis), (b * cos + a * sin).unsqueeze(axis)], axis)
    turned = turned.reshape(heads, count, rotary.size)
    return turned if rotary.size == head else concat([turned, rest], 2)

"""Decoders: every token's logits against a plain evaluation in numpy, whatever came in one run or one by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from chance import RANDOM
from compiled import Compiled, compile_graphs
from gguf_files import llama

from edgec.execute.executor import run_graph
from edgec.frontend.gguf import import_gguf, parse
from edgec.frontend.gguf.architectures import config_of
from edgec.frontend.gguf.blocks import Blocks
from edgec.frontend.language.config import DecoderConfig, Layer, Rotary
from edgec.frontend.language.decoder import decoder
from edgec.frontend.values import constant
from edgec.ir.graph import Graph
from edgec.ir.types import DTYPES

Arrays = dict[str, np.ndarray]
CONTEXT, CHUNK = 24, 5


def config(**more: object) -> DecoderConfig:
    rotary = Rotary(8, 500.0)
    given = DecoderConfig(31, 24, heads=6, kv_heads=2, head=8, hidden=40, epsilon=1e-5, layers=(Layer(rotary),) * 2)
    return replace(given, **more)  # type: ignore[arg-type]


CONFIGS = {
    "plain": config(),
    "interleaved": config(layers=(Layer(Rotary(8, 1e4, True)),) * 2),
    "part of a head": config(layers=(Layer(Rotary(4, 1e4, True, 2.0, (1.0, 3.0))), Layer(None))),
    "windows": config(layers=(Layer(Rotary(8, 1e4), 3), Layer(Rotary(8, 1e6)), Layer(Rotary(8, 1e4), 1))),
    "bounded": config(
        attention_softcap=5.0, logits_softcap=3.0, activation="gelu", embedding_scale=4.9, query_scale=0.3
    ),
    "one key head": config(kv_heads=1),
    "fused": config(heads=2, kv_heads=2, width=16),
}  # fmt: skip


def weights(c: DecoderConfig, name: str) -> Arrays:
    """Random weights: with biases, norms of heads and norms after each part, or fused, by the name of the case."""
    found: Arrays = {}

    def add(key: str, *shape: int) -> None:
        found[key] = (RANDOM.standard_normal(shape) * (0.3 if len(shape) == 1 else 0.6 * shape[-1] ** -0.5)).astype("f")
        if len(shape) == 1 and "bias" not in key:
            found[key] += 1

    add("token_embd.weight", c.vocabulary, c.width)
    add("output_norm.weight", c.width)
    if name == "interleaved":
        add("output.weight", c.vocabulary, c.width)
    outputs = {"q": c.heads * c.head, "k": c.kv_heads * c.head, "v": c.kv_heads * c.head}
    for j in range(len(c.layers)):
        blk = f"blk.{j}."
        if name == "fused":
            add(f"{blk}attn_qkv.weight", sum(outputs.values()), c.width)
            add(f"{blk}ffn_up.weight", 2 * c.hidden, c.width)
        else:
            for part, n in outputs.items():
                add(f"{blk}attn_{part}.weight", n, c.width)
                if name == "plain":
                    add(f"{blk}attn_{part}.bias", n)
            add(f"{blk}ffn_gate.weight", c.hidden, c.width)
            add(f"{blk}ffn_up.weight", c.hidden, c.width)
        add(f"{blk}attn_output.weight", c.width, c.heads * c.head)
        add(f"{blk}ffn_down.weight", c.width, c.hidden)
        add(f"{blk}attn_norm.weight", c.width)
        add(f"{blk}ffn_norm.weight", c.width)
        if name in ("windows", "bounded"):
            for norm in ("attn_q_norm", "attn_k_norm"):
                add(f"{blk}{norm}.weight", c.head)
            for norm in ("post_attention_norm", "post_ffw_norm"):
                add(f"{blk}{norm}.weight", c.width)
    return found


def reference(c: DecoderConfig, w: Arrays, tokens: list[int]) -> np.ndarray:
    """Logits of every position, in fp64, all positions at once: written from the definitions, not from the graph."""
    get = {k: v.astype(np.float64) for k, v in w.items()}

    def norm(x: np.ndarray, key: str) -> np.ndarray:
        if f"{key}.weight" not in get:
            return x
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + c.epsilon) * get[f"{key}.weight"]

    def linear(x: np.ndarray, key: str) -> np.ndarray:
        return x @ get[f"{key}.weight"].T + get.get(f"{key}.bias", 0)

    def turned(x: np.ndarray, r: Rotary) -> np.ndarray:
        y = x.copy()
        for p in range(len(x)):
            for i in range(r.size // 2):
                factor = r.frequency_factors[i] if r.frequency_factors else 1.0
                angle = p / r.scale * r.base ** (-2 * i / r.size) / factor
                a, b = (2 * i, 2 * i + 1) if r.is_interleaved else (i, i + r.size // 2)
                y[p, :, a] = x[p, :, a] * np.cos(angle) - x[p, :, b] * np.sin(angle)
                y[p, :, b] = x[p, :, b] * np.cos(angle) + x[p, :, a] * np.sin(angle)
        return y

    n, ends = len(tokens), np.cumsum([c.heads * c.head, c.kv_heads * c.head])
    x = get["token_embd.weight"][tokens] * c.embedding_scale
    for j, layer in enumerate(c.layers):
        blk = f"blk.{j}."
        h = norm(x, f"{blk}attn_norm")
        if f"{blk}attn_qkv.weight" in get:
            parts = np.split(linear(h, f"{blk}attn_qkv"), ends, axis=1)
        else:
            parts = [linear(h, f"{blk}attn_{part}") for part in "qkv"]
        q, k, v = (part.reshape(n, -1, c.head) for part in parts)
        q, k = norm(q, f"{blk}attn_q_norm"), norm(k, f"{blk}attn_k_norm")
        if layer.rotary is not None:
            q, k = turned(q, layer.rotary), turned(k, layer.rotary)
        y = np.zeros((n, c.heads, c.head))
        for p in range(n):
            first = max(0, p - layer.window + 1) if layer.window else 0
            for a in range(c.heads):
                g = a // (c.heads // c.kv_heads)
                s = k[first : p + 1, g] @ q[p, a] * (c.query_scale or c.head**-0.5)
                s = np.tanh(s / c.attention_softcap) * c.attention_softcap if c.attention_softcap else s
                e = np.exp(s - s.max())
                y[p, a] = e / e.sum() @ v[first : p + 1, g]
        x = x + norm(linear(y.reshape(n, -1), f"{blk}attn_output"), f"{blk}post_attention_norm")
        h = norm(x, f"{blk}ffn_norm")
        if f"{blk}ffn_gate.weight" in get:
            gate, up = linear(h, f"{blk}ffn_gate"), linear(h, f"{blk}ffn_up")
        else:
            gate, up = np.split(linear(h, f"{blk}ffn_up"), 2, axis=1)
        if c.activation == "silu":
            gate = gate / (1 + np.exp(-gate))
        else:
            gate = gate / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (gate + 0.044715 * gate**3)))
        x = x + norm(linear(gate * up, f"{blk}ffn_down"), f"{blk}post_ffw_norm")
    y = norm(x, "output_norm") @ get.get("output.weight", get["token_embd.weight"]).T
    return np.tanh(y / c.logits_softcap) * c.logits_softcap if c.logits_softcap else y


def decoded(graph: Graph, run: Callable[[Arrays], Arrays], tokens: list[int], parts: list[int]) -> list[np.ndarray]:
    """The logits after each part of the tokens."""
    states = {n.attributes["name"]: np.zeros(n.type.shape, DTYPES[n.type.dtype]) for n in graph.inputs[2:]}
    past, found = 0, []
    for count in parts:
        part = np.array(tokens[past : past + count], np.int32)
        outputs = run({"tokens": part, "past": np.array(past), **states})
        found.append(outputs["logits"])
        states = {name: outputs[f"{name}_new"] for name in states}
        past += count
    return found


CASES = {name: weights(c, name) for name, c in CONFIGS.items()}
GRAPHS = {
    name: decoder(c, lambda key, w=CASES[name]: constant(w[key]) if key in w else None, CONTEXT, CHUNK)  # type: ignore[misc]
    for name, c in CONFIGS.items()
}


def close(got: np.ndarray, want: np.ndarray, tolerance: float = 1e-4) -> None:
    assert np.abs(got - want).max() <= tolerance * np.abs(want).max()


@pytest.mark.parametrize("name", CONFIGS)
def test_the_graph_is_the_definition(name: str) -> None:
    tokens = RANDOM.integers(0, 31, 14).tolist()
    want = reference(CONFIGS[name], CASES[name], tokens)
    for parts in ([4, 1, 1, 5, 3], [1] * 14):
        got = decoded(GRAPHS[name], lambda fed: run_graph(GRAPHS[name], fed), tokens, parts)
        for logits, end in zip(got, np.cumsum(parts)):
            close(logits, want[end - 1])


def test_compiled(tmp_path: Path) -> None:
    """To the end of the context, on one thread and on two, states in place and apart."""
    made = compile_graphs(GRAPHS, tmp_path)
    for name, network in made.items():
        assert isinstance(network, Compiled), (name, network)
        tokens = RANDOM.integers(0, 31, CONTEXT).tolist()
        want = reference(CONFIGS[name], CASES[name], tokens)
        parts = [5, 1, 1, 1, 4, 1, 5, 5, 1]
        for threads, in_place in ((None, False), (None, True), (2, True)):
            got = decoded(GRAPHS[name], lambda fed: network(fed, threads, in_place), tokens, parts)  # noqa: B023
            for logits, end in zip(got, np.cumsum(parts)):
                close(logits, want[end - 1])


@pytest.mark.parametrize("format", ["F32", "Q4_K"])
def test_from_a_file(format: str) -> None:
    model = parse(llama(format))
    read = {name: model.tensor(name) for name in model.tensors}
    w = {name: t.dequantized() if isinstance(t, Blocks) else t for name, t in read.items()}
    tokens = RANDOM.integers(0, 40, 6).tolist()
    graph = import_gguf(model, 16)
    (got,) = decoded(graph, lambda fed: run_graph(graph, fed), tokens, [6])
    close(got, reference(config_of(model), w, tokens)[-1])


def test_formats_compiled(tmp_path: Path) -> None:
    """Codes of two to five bits, with scales of superblocks and without, and numbers of 16 bits."""
    models = {format: parse(llama(format, 1)) for format in ("Q5_0", "Q5_1", "Q5_K", "Q3_K", "Q2_K", "F16")}
    made = compile_graphs({format: import_gguf(model, 8) for format, model in models.items()}, tmp_path)
    for format, network in made.items():
        assert isinstance(network, Compiled), (format, network)
        model = models[format]
        read = {name: model.tensor(name) for name in model.tensors}
        w = {name: t.dequantized() if isinstance(t, Blocks) else t for name, t in read.items()}
        tokens = RANDOM.integers(0, 40, 6).tolist()
        want = reference(config_of(model), w, tokens)
        got = decoded(import_gguf(model, 8), lambda fed: network(fed, None, True), tokens, [4, 1, 1])  # noqa: B023
        for logits, end in zip(got, (4, 5, 6)):
            close(logits, want[end - 1])

"""Folders of GPT-2: centered norms, learned positions, weights of products the other way round."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import erf
from pathlib import Path
from typing import Any

import lora_files
import numpy as np
import plain
import pytest
from chance import RANDOM
from gguf_files import gguf_file
from test_decoder import close, decoded
from test_lora import numbers, run_tokens

import edgec
from edgec.artifact.network import Network
from edgec.artifact.session import Session
from edgec.errors import EdgecError, UsageError
from edgec.execute.executor import run_graph

VOCABULARY, WIDTH, HEADS, LAYERS, POSITIONS, HIDDEN = 37, 32, 4, 2, 24, 48
CONFIG = {
    "model_type": "gpt2", "vocab_size": VOCABULARY, "n_embd": WIDTH, "n_head": HEADS, "n_layer": LAYERS,
    "n_positions": POSITIONS, "n_inner": HIDDEN, "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new",
}  # fmt: skip


def drawn() -> plain.Arrays:
    found = {"wte.weight": (VOCABULARY, WIDTH), "wpe.weight": (POSITIONS, WIDTH)}
    products = {"attn.c_attn": (WIDTH, 3 * WIDTH), "attn.c_proj": (WIDTH, WIDTH), "mlp.c_fc": (WIDTH, HIDDEN)}
    products["mlp.c_proj"] = HIDDEN, WIDTH
    for layer in range(LAYERS):
        for name, shape in products.items():
            found |= {f"h.{layer}.{name}.weight": shape, f"h.{layer}.{name}.bias": shape[1:]}
    for norm in ("ln_f", *(f"h.{layer}.ln_{k}" for layer in range(LAYERS) for k in (1, 2))):
        found |= {f"{norm}.weight": (WIDTH,), f"{norm}.bias": (WIDTH,)}
    return {k: (RANDOM.standard_normal(shape) * shape[0] ** -0.5).astype(np.float32) for k, shape in found.items()}


def tanh_gelu(y: np.ndarray) -> np.ndarray:
    return np.asarray(0.5 * y * (1 + np.tanh(np.sqrt(2 / np.pi) * (y + 0.044715 * y**3))))


def exact_gelu(y: np.ndarray) -> np.ndarray:
    return np.asarray(0.5 * y * (1 + np.vectorize(erf)(y * 0.5**0.5)))


def evaluate(
    weights: plain.Arrays, tokens: list[int], gelu: Callable[[np.ndarray], np.ndarray] = tanh_gelu
) -> np.ndarray:
    """The logits of every position in fp64, from the definition."""
    w = {k: v.astype(np.float64) for k, v in weights.items()}
    n, head = len(tokens), WIDTH // HEADS

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        y = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + CONFIG["layer_norm_epsilon"])
        return y * w[f"{name}.weight"] + w[f"{name}.bias"]

    def linear(x: np.ndarray, name: str) -> np.ndarray:
        return x @ w[f"{name}.weight"] + w[f"{name}.bias"]

    x = w["wte.weight"][tokens] + w["wpe.weight"][:n]
    for layer in range(LAYERS):
        parts = np.split(linear(norm(x, f"h.{layer}.ln_1"), f"h.{layer}.attn.c_attn"), 3, axis=1)
        q, k, v = (part.reshape(n, HEADS, head).transpose(1, 0, 2) for part in parts)
        scores = np.where(np.tri(n, dtype=bool), q @ k.transpose(0, 2, 1) * head**-0.5, -np.inf)
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        y = (shares / shares.sum(-1, keepdims=True) @ v).transpose(1, 0, 2).reshape(n, WIDTH)
        x = x + linear(y, f"h.{layer}.attn.c_proj")
        y = linear(norm(x, f"h.{layer}.ln_2"), f"h.{layer}.mlp.c_fc")
        y = gelu(y)
        x = x + linear(y, f"h.{layer}.mlp.c_proj")
    return norm(x, "ln_f") @ w["wte.weight"].T


def write(path: Path, weights: plain.Arrays, prefix: str = "transformer.", **more: object) -> Path:
    path.mkdir()
    (path / "config.json").write_text(json.dumps({**CONFIG, **more}))
    (path / "model.safetensors").write_bytes(plain.safetensors({prefix + k: v for k, v in weights.items()}))
    return path


@pytest.mark.parametrize("prefix", ["transformer.", ""])
def test_every_position(prefix: str, tmp_path: Path) -> None:
    weights, tokens = drawn(), RANDOM.integers(0, VOCABULARY, POSITIONS).tolist()
    graph, want = edgec.load(write(tmp_path / "lm", weights, prefix)).graph, evaluate(weights, tokens)
    for parts in ([POSITIONS], [7, 1, 1, 5, 10]):
        got = decoded(graph, lambda fed: run_graph(graph, fed), tokens, parts)
        for logits, end in zip(got, np.cumsum(parts)):
            close(logits, want[end - 1])


def test_exact_gelu(tmp_path: Path) -> None:
    """The two differ by more than the tolerance where values are large."""
    weights, tokens = drawn(), RANDOM.integers(0, VOCABULARY, 9).tolist()
    weights |= {key: 3 * value for key, value in weights.items() if "mlp.c" in key}
    graph = edgec.load(write(tmp_path / "lm", weights, activation_function="gelu")).graph
    (got,) = decoded(graph, lambda fed: run_graph(graph, fed), tokens, [9])
    want = evaluate(weights, tokens, exact_gelu)[-1]
    close(got, want, 1e-5)
    assert np.abs(want - evaluate(weights, tokens)[-1]).max() > 1e-4 * np.abs(want).max()


_GGUF = {
    "wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm", "ln_1": "attn_norm", "ln_2": "ffn_norm",
    "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down",
}  # fmt: skip


def gguf(weights: plain.Arrays, **more: Any) -> bytes:
    """As llama.cpp's converter writes it: matrices the other way round, the table as the head too."""
    metadata = {
        "general.architecture": "gpt2", "gpt2.block_count": LAYERS, "gpt2.context_length": POSITIONS,
        "gpt2.embedding_length": WIDTH, "gpt2.feed_forward_length": HIDDEN, "gpt2.attention.head_count": HEADS,
        "gpt2.attention.layer_norm_epsilon": CONFIG["layer_norm_epsilon"], **more,
    }  # fmt: skip
    tensors = {"output.weight": ("F32", (VOCABULARY, WIDTH), weights["wte.weight"].tobytes())}
    for key, value in weights.items():
        body, _, kind = key.rpartition(".")
        layer, part = (body.split(".")[1], body.split(".", 2)[2]) if body.startswith("h.") else ("", body)
        array = np.ascontiguousarray(value.T if ".c_" in body and kind == "weight" else value)
        name = f"{f'blk.{layer}.' if layer else ''}{_GGUF[part]}.{kind}"
        tensors[name] = ("F32", array.shape, array.tobytes())
    return gguf_file(metadata, tensors)


def test_from_gguf() -> None:
    weights, tokens = drawn(), RANDOM.integers(0, VOCABULARY, POSITIONS).tolist()
    graph, want = edgec.load(gguf(weights)).graph, evaluate(weights, tokens)
    parts = [7, 1, 1, 5, 10]
    got = decoded(graph, lambda fed: run_graph(graph, fed), tokens, parts)
    for logits, end in zip(got, np.cumsum(parts)):
        close(logits, want[end - 1])
    with pytest.raises(EdgecError, match="no table of positions"):
        edgec.load(gguf({key: value for key, value in weights.items() if key != "wpe.weight"}))


@pytest.mark.parametrize("is_gguf", [False, True], ids=["folder", "gguf"])
def test_low_rank_adapters(is_gguf: bool, tmp_path: Path) -> None:
    """The modules of GPT-2's layers, of which PEFT's matrices are not the other way round."""
    weights, tokens = drawn(), RANDOM.integers(0, VOCABULARY, 7).tolist()
    found, changed = {}, dict(weights)
    for key in [k for k in weights if ".c_" in k and k.endswith("weight")]:
        inputs, outputs = weights[key].shape
        a, b = (RANDOM.standard_normal(shape).astype(np.float32) * 0.2 for shape in ((2, inputs), (outputs, 2)))
        changed[key] = weights[key] + lora_files.ALPHA / 2 * (b @ a).T
        body = f"base_model.model.transformer.{key.removesuffix('.weight')}"
        found |= {f"{body}.lora_A.weight": a, f"{body}.lora_B.weight": b}
    model = gguf(weights) if is_gguf else write(tmp_path / "lm", weights)
    graph = edgec.load(model, lora=3).graph
    folder = lora_files.peft_folder(tmp_path / "adapter", found, fan_in_fan_out=True)
    close(run_tokens(graph, tokens, numbers(folder, graph)), evaluate(changed, tokens)[-1])
    close(run_tokens(graph, tokens, None), evaluate(weights, tokens)[-1])


def test_session(tmp_path: Path) -> None:
    """Compiled; up to the last position, beyond which no context goes."""
    weights, tokens = drawn(), RANDOM.integers(0, VOCABULARY, POSITIONS).tolist()
    folder, want = write(tmp_path / "lm", weights), evaluate(weights, tokens)
    edgec.build(folder, tmp_path / "out", name="lm")
    with Network(tmp_path / "out") as network:
        session = Session(network)
        close(session.prefill(tokens[:9]), want[8])
        for end in range(10, POSITIONS + 1):
            close(session.next(tokens[end - 1]), want[end - 1])
    with pytest.raises(UsageError, match=f"trained for {POSITIONS}"):
        edgec.load(folder, context=POSITIONS + 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"activation_function": "relu"}, "the activation is 'relu'"),
        ({"scale_attn_by_inverse_layer_idx": True}, "'scale_attn_by_inverse_layer_idx' is set"),
        ({"add_cross_attention": True}, "'add_cross_attention' is set"),
        ({"n_positions": 25}, "'position_embd.weight' is"),
        ({"n_positions": 1 << 40}, "has 1099511627776 positions"),
        ({"n_inner": 49}, "'blk.0.ffn_up.weight' is"),
        ({"n_head": 0}, "heads"),
    ],
)
def test_refused(changes: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(EdgecError, match=message):
        edgec.load(write(tmp_path / "lm", drawn(), **changes), context=8)

"""Tiny decoders of every architecture: random weights, their logits from the definitions, and files of two formats.

The evaluation is written from Hugging Face's definitions of the models, with their names, in fp64, and uses nothing of
the package. A GGUF file has the same weights as llama.cpp's converter would have written them.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from chance import RANDOM
from gguf_files import gguf_file

Arrays = dict[str, np.ndarray]
VOCABULARY, CONTEXT = 40, 64
_BASE = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": CONTEXT,
    "rms_norm_eps": 1e-5, "hidden_act": "silu", "rope_theta": 500.0, "tie_word_embeddings": True,
}  # fmt: skip
_LLAMA3 = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
           "original_max_position_embeddings": 64}  # fmt: skip
_GEMMA = {"hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 16, "sliding_window": 5}
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": {**_BASE, "tie_word_embeddings": False},
    "llama with factors": {**_BASE, "rope_scaling": _LLAMA3},
    "llama at half speed": {**_BASE, "rope_scaling": {"type": "linear", "factor": 2.0}},
    "smollm3": {**_BASE, "num_hidden_layers": 4, "no_rope_layers": [1, 1, 1, 0]},
    "qwen2": {**_BASE, "head_dim": 8},
    "qwen3": {**_BASE},
    "phi3": {**_BASE, "head_dim": 8, "num_key_value_heads": 4, "sliding_window": 6},
    "gemma": {**_BASE, **_GEMMA},
    "gemma2": {**_BASE, **_GEMMA, "attn_logit_softcapping": 5.0, "final_logit_softcapping": 3.0},
    "gemma3": {**_BASE, **_GEMMA, "num_hidden_layers": 6, "rope_local_base_freq": 50.0},
}


def kind(name: str) -> str:
    return name.split()[0]


def draw(name: str) -> Arrays:
    """Random weights by Hugging Face's names."""
    c, found = CONFIGS[name], {}

    def add(key: str, *shape: int) -> None:
        spread = 0.2 if len(shape) == 1 else shape[-1] ** -0.5
        found[key] = (RANDOM.standard_normal(shape) * spread).astype(np.float32)
        if len(shape) == 1 and "norm" in key and not kind(name).startswith("gemma"):
            found[key] += 1

    width, head, hidden = c["hidden_size"], c["head_dim"], c["intermediate_size"]
    q, kv = c["num_attention_heads"] * head, c["num_key_value_heads"] * head
    add("model.embed_tokens.weight", VOCABULARY, width)
    add("model.norm.weight", width)
    if not c["tie_word_embeddings"]:
        add("lm_head.weight", VOCABULARY, width)
    for j in range(c["num_hidden_layers"]):
        at = f"model.layers.{j}."
        norms = ["input_layernorm", "post_attention_layernorm"]
        norms += ["pre_feedforward_layernorm", "post_feedforward_layernorm"] * (kind(name) in ("gemma2", "gemma3"))
        for norm in norms:
            add(f"{at}{norm}.weight", width)
        if kind(name) == "phi3":
            add(f"{at}self_attn.qkv_proj.weight", q + 2 * kv, width)
            add(f"{at}mlp.gate_up_proj.weight", 2 * hidden, width)
        else:
            for part, rows in (("q", q), ("k", kv), ("v", kv)):
                add(f"{at}self_attn.{part}_proj.weight", rows, width)
                if kind(name) == "qwen2":
                    add(f"{at}self_attn.{part}_proj.bias", rows)
            add(f"{at}mlp.gate_proj.weight", hidden, width)
            add(f"{at}mlp.up_proj.weight", hidden, width)
        if kind(name) in ("qwen3", "gemma3"):
            add(f"{at}self_attn.q_norm.weight", head)
            add(f"{at}self_attn.k_norm.weight", head)
        add(f"{at}self_attn.o_proj.weight", width, q)
        add(f"{at}mlp.down_proj.weight", width, hidden)
    return found


def _frequencies(name: str, layer: int) -> np.ndarray | None:
    """Radians per position of each pair of features; None where a layer has no positions."""
    c = CONFIGS[name]
    if kind(name) == "smollm3" and not c["no_rope_layers"][layer]:
        return None
    is_local = kind(name) == "gemma3" and (layer + 1) % 6 != 0
    base, pairs = c["rope_local_base_freq"] if is_local else c["rope_theta"], c["head_dim"] // 2
    frequencies = base ** (-np.arange(pairs) / pairs)
    scaling = c.get("rope_scaling", {})
    if scaling.get("rope_type") == "llama3":
        waves = 2 * np.pi / frequencies
        old, low, high = (scaling[k] for k in ("original_max_position_embeddings", "low_freq_factor",
                                               "high_freq_factor"))  # fmt: skip
        smooth = (old / waves - low) / (high - low)
        mixed = (1 - smooth) * frequencies / scaling["factor"] + smooth * frequencies
        slow = np.where(waves > old / low, frequencies / scaling["factor"], frequencies)
        return np.where((waves <= old / low) & (waves >= old / high), mixed, slow)
    return frequencies / scaling.get("factor", 1.0)


def _window(name: str, layer: int) -> int:
    c = CONFIGS[name]
    is_local = {"phi3": True, "gemma2": layer % 2 == 0, "gemma3": (layer + 1) % 6 != 0}.get(kind(name), False)
    return int(c["sliding_window"]) if is_local else 10**6


def evaluate(name: str, weights: Arrays, tokens: list[int]) -> np.ndarray:
    """Logits [tokens, vocabulary] of all positions at once."""
    c, is_gemma = CONFIGS[name], kind(name).startswith("gemma")
    w = {key: value.astype(np.float64) for key, value in weights.items()}
    n, head, heads = len(tokens), c["head_dim"], c["num_attention_heads"]

    def norm(x: np.ndarray, key: str) -> np.ndarray:
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + c["rms_norm_eps"]) * (w[f"{key}.weight"] + is_gemma)

    def linear(x: np.ndarray, key: str) -> np.ndarray:
        return x @ w[f"{key}.weight"].T + w.get(f"{key}.bias", 0.0)

    def turn(x: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
        angles = np.arange(n)[:, None] * np.concatenate([frequencies, frequencies])
        half = np.concatenate([-x[..., head // 2 :], x[..., : head // 2]], -1)
        return x * np.cos(angles)[:, None] + half * np.sin(angles)[:, None]

    def activation(x: np.ndarray) -> np.ndarray:
        if is_gemma:
            return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
        return x / (1 + np.exp(-x))

    x = w["model.embed_tokens.weight"][tokens] * (np.sqrt(c["hidden_size"]) if is_gemma else 1.0)
    for j in range(c["num_hidden_layers"]):
        at = f"model.layers.{j}."
        h = norm(x, f"{at}input_layernorm")
        if kind(name) == "phi3":
            kv = c["num_key_value_heads"] * head
            q, k, v = np.split(linear(h, f"{at}self_attn.qkv_proj"), [heads * head, heads * head + kv], -1)
        else:
            q, k, v = (linear(h, f"{at}self_attn.{part}_proj") for part in "qkv")
        q, k, v = (y.reshape(n, -1, head) for y in (q, k, v))
        if f"{at}self_attn.q_norm.weight" in w:
            q, k = norm(q, f"{at}self_attn.q_norm"), norm(k, f"{at}self_attn.k_norm")
        frequencies = _frequencies(name, j)
        if frequencies is not None:
            q, k = turn(q, frequencies), turn(k, frequencies)
        k, v = (np.repeat(y, heads // c["num_key_value_heads"], 1) for y in (k, v))
        scores = np.einsum("qhd,khd->hqk", q, k) * (c.get("query_pre_attn_scalar", head) if is_gemma else head) ** -0.5
        if "attn_logit_softcapping" in c:
            scores = np.tanh(scores / c["attn_logit_softcapping"]) * c["attn_logit_softcapping"]
        distance = np.arange(n)[:, None] - np.arange(n)
        scores = np.where((distance >= 0) & (distance < _window(name, j)), scores, -np.inf)
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        y = np.einsum("hqk,khd->qhd", shares / shares.sum(-1, keepdims=True), v).reshape(n, -1)
        y = linear(y, f"{at}self_attn.o_proj")
        has_four = kind(name) in ("gemma2", "gemma3")
        x = x + (norm(y, f"{at}post_attention_layernorm") if has_four else y)
        h = norm(x, f"{at}pre_feedforward_layernorm" if has_four else f"{at}post_attention_layernorm")
        if kind(name) == "phi3":
            gate, up = np.split(linear(h, f"{at}mlp.gate_up_proj"), 2, -1)
        else:
            gate, up = linear(h, f"{at}mlp.gate_proj"), linear(h, f"{at}mlp.up_proj")
        y = linear(activation(gate) * up, f"{at}mlp.down_proj")
        x = x + (norm(y, f"{at}post_feedforward_layernorm") if has_four else y)
    y = norm(x, "model.norm") @ w.get("lm_head.weight", w["model.embed_tokens.weight"]).T
    bound = c.get("final_logit_softcapping")
    return np.tanh(y / bound) * bound if bound else y


# ---- files


_SAFE = {np.dtype(np.float32): "F32", np.dtype(np.float16): "F16", np.dtype(ml_dtypes.bfloat16): "BF16"}


def safetensors(weights: Arrays) -> bytes:
    described, data = {"__metadata__": {"format": "pt"}}, b""
    for name, value in weights.items():
        place = [len(data), len(data) + value.nbytes]
        described[name] = {"dtype": _SAFE[value.dtype], "shape": list(value.shape), "data_offsets": place}  # type: ignore[dict-item]
        data += value.tobytes()
    head = json.dumps(described).encode()
    return struct.pack("<Q", len(head)) + head + data


def write_folder(path: Path, name: str, weights: Arrays, files: int = 1) -> Path:
    """A folder of Hugging Face's, its weights in one file or in several with an index."""
    path.mkdir()
    model_type = {"gemma3": "gemma3_text"}.get(kind(name), kind(name))
    (path / "config.json").write_text(json.dumps({"model_type": model_type, **CONFIGS[name]}))
    if files == 1:
        (path / "model.safetensors").write_bytes(safetensors(weights))
        return path
    keys, places = list(weights), {}
    for k in range(files):
        part = {key: weights[key] for key in keys[k::files]}
        (path / f"part-{k}.safetensors").write_bytes(safetensors(part))
        places |= dict.fromkeys(part, f"part-{k}.safetensors")
    (path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    return path


_NAMES = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.qkv_proj": "attn_qkv", "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.gate_up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm",
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
}  # fmt: skip


def gguf(name: str, weights: Arrays) -> bytes:
    """The same in GGUF: rows of llama's queries and keys by pairs, gemma's norms with the one that is added."""
    c, a = CONFIGS[name], kind(name)
    metadata: dict[str, Any] = {
        "general.architecture": a, f"{a}.block_count": c["num_hidden_layers"], f"{a}.context_length": CONTEXT,
        f"{a}.embedding_length": c["hidden_size"], f"{a}.feed_forward_length": c["intermediate_size"],
        f"{a}.attention.head_count": c["num_attention_heads"],
        f"{a}.attention.head_count_kv": c["num_key_value_heads"], f"{a}.attention.key_length": c["head_dim"],
        f"{a}.attention.value_length": c["head_dim"], f"{a}.rope.dimension_count": c["head_dim"],
        f"{a}.rope.freq_base": c["rope_theta"], f"{a}.attention.layer_norm_rms_epsilon": c["rms_norm_eps"],
    }  # fmt: skip
    if "rope_local_base_freq" in c:
        metadata[f"{a}.rope.freq_base_swa"] = c["rope_local_base_freq"]
    if "sliding_window" in c and a != "gemma":
        metadata[f"{a}.attention.sliding_window"] = c["sliding_window"]
    for key, field in (("attn_logit_softcapping", "attn"), ("final_logit_softcapping", "final")):
        if key in c:
            metadata[f"{a}.{field}_logit_softcapping"] = c[key]
    tensors = {}
    scaling = c.get("rope_scaling", {})
    if scaling.get("type") == "linear":
        metadata |= {f"{a}.rope.scaling.type": "linear", f"{a}.rope.scaling.factor": scaling["factor"]}
    if "rope_type" in scaling:
        pairs = c["head_dim"] // 2
        factors = c["rope_theta"] ** (-np.arange(pairs) / pairs) / _frequencies(name, 0)
        tensors["rope_freqs.weight"] = ("F32", (pairs,), factors.astype("<f4").tobytes())
    for key, value in weights.items():
        body, _, suffix = key.rpartition(".")
        number = int(body.split(".")[2]) if body.startswith("model.layers.") else None
        part = ".".join(body.split(".")[3:]) if number is not None else body
        has_four = a in ("gemma2", "gemma3")
        short = {"post_attention_layernorm": "post_attention_norm" if has_four else "ffn_norm"}.get(part) or _NAMES[
            part
        ]
        array = value + 1 if a.startswith("gemma") and part.endswith("norm") else value
        if a in ("llama", "smollm3") and short in ("attn_q", "attn_k"):
            heads = len(array) // c["head_dim"]
            array = array.reshape(heads, 2, c["head_dim"] // 2, -1).swapaxes(1, 2).reshape(array.shape)
        full = f"{short}.{suffix}" if number is None else f"blk.{number}.{short}.{suffix}"
        tensors[full] = ("F32", array.shape, array.astype("<f4").tobytes())
    return gguf_file(metadata, tensors)

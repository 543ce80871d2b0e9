"""Low-rank adapters made by the tests: PEFT's folders, llama.cpp's GGUF files, and the weights that they stand for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import plain
from chance import RANDOM
from gguf_files import gguf_file

ALPHA = 6.0


def matrices(weights: plain.Arrays, rank: int, ends: Iterable[str] = ("proj",)) -> plain.Arrays:
    """Random A and B of the products whose names end so, by PEFT's names."""
    found = {}
    for key, value in weights.items():
        body, _, kind = key.rpartition(".")
        if kind == "weight" and ".layers." in body and body.endswith(tuple(ends)):
            rows, columns = value.shape
            a, b = RANDOM.standard_normal((rank, columns)), RANDOM.standard_normal((rows, rank))
            found[f"base_model.model.{body}.lora_A.weight"] = (a * columns**-0.5).astype(np.float32)
            found[f"base_model.model.{body}.lora_B.weight"] = (b * 0.1).astype(np.float32)
    return found


def merged(weights: plain.Arrays, found: plain.Arrays, scale: float) -> plain.Arrays:
    """The weights W + scale B A."""
    result = dict(weights)
    for name, a in found.items():
        if ".lora_A" in name:
            key = name.removeprefix("base_model.model.").replace(".lora_A", "")
            b = found[name.replace("lora_A", "lora_B")]
            result[key] = (weights[key] + scale * (b.astype(np.float64) @ a)).astype(np.float32)
    return result


def peft_folder(path: Path, found: plain.Arrays, **more: Any) -> Path:
    rank = next(iter(found.values())).shape[0] if found else 4
    path.mkdir(parents=True)
    (path / "adapter_model.safetensors").write_bytes(plain.safetensors(found))
    config = {
        "peft_type": "LORA", "r": rank, "lora_alpha": ALPHA, "bias": "none", "target_modules": ["q_proj"],
        "use_dora": False, "use_rslora": False, "rank_pattern": {}, "alpha_pattern": {}, "modules_to_save": None,
        "init_lora_weights": True, "fan_in_fan_out": False, "task_type": "CAUSAL_LM", "layer_replication": None,
    }  # fmt: skip
    (path / "adapter_config.json").write_text(json.dumps({**config, **more}))
    return path


def gguf_adapter(name: str, found: plain.Arrays, **changes: Any) -> bytes:
    """As convert_lora_to_gguf.py writes it: rows of llama's queries and keys by pairs."""
    c, kind = plain.CONFIGS[name], plain.kind(name)
    metadata = {
        "general.type": "adapter", "adapter.type": "lora", "adapter.lora.alpha": ALPHA, "general.architecture": kind,
        **changes,
    }  # fmt: skip
    tensors = {}
    for key, value in found.items():
        module, _, which = key.removeprefix("base_model.model.").removesuffix(".weight").rpartition(".")
        number, part = module.split(".")[2], ".".join(module.split(".")[3:])
        short, array = plain._NAMES[part], value
        if which == "lora_B" and kind in ("llama", "smollm3") and short in ("attn_q", "attn_k"):
            heads = len(array) // c["head_dim"]
            array = array.reshape(heads, 2, c["head_dim"] // 2, -1).swapaxes(1, 2).reshape(array.shape)
        full = f"blk.{number}.{short}.weight.{which.lower()}"
        tensors[full] = ("F32", array.shape, np.ascontiguousarray(array, "<f4").tobytes())
    return gguf_file(metadata, tensors)


def model_file(path: Path, name: str, weights: Mapping[str, np.ndarray], is_gguf: bool) -> Path:
    """The model in one of the two formats."""
    if not is_gguf:
        return plain.write_folder(path / "lm", name, dict(weights))
    (path / "lm.gguf").write_bytes(plain.gguf(name, dict(weights)))
    return path / "lm.gguf"

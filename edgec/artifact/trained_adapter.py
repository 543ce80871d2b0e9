"""Trained low-rank adapters in files, as PEFT reads them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from edgec import files
from edgec.frontend.hugging.adapter import CONFIG, WEIGHTS
from edgec.frontend.onnx.adapters import DOWN


def write_adapter(folder: str | Path, matrices: Mapping[str, np.ndarray], rank: int) -> None:
    """Write matrices by name (MODULE.lora_A.weight, MODULE.lora_B.weight) and their description to a folder."""
    where = Path(folder)
    where.mkdir(parents=True, exist_ok=True)
    modules = [name.removesuffix(DOWN) for name in matrices if name.endswith(DOWN)]
    described = {
        "peft_type": "LORA", "r": rank, "lora_alpha": rank, "target_modules": modules, "bias": "none",
        "lora_dropout": 0.0, "base_model_name_or_path": None, "inference_mode": True,
    }  # fmt: skip
    files.replace(where / CONFIG, (json.dumps(described, indent=2) + "\n").encode())
    files.replace(where / WEIGHTS, _safetensors({f"base_model.model.{n}": m for n, m in matrices.items()}))


def _safetensors(matrices: Mapping[str, np.ndarray]) -> bytes:
    """Floats of 32 bits as safetensors: the length of a description, the description, the numbers."""
    described, parts, at = {}, [], 0
    for name, matrix in matrices.items():
        parts.append(np.ascontiguousarray(matrix, "<f4").tobytes())
        described[name] = {"dtype": "F32", "shape": list(matrix.shape), "data_offsets": [at, at + len(parts[-1])]}
        at += len(parts[-1])
    head = json.dumps(described).encode()
    head += b" " * (-len(head) % 8)
    return len(head).to_bytes(8, "little") + head + b"".join(parts)

"""Small GGUF files made by the tests themselves."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
from chance import RANDOM

from edgec.frontend.gguf.blocks import FORMATS

_WITH_BASE = ("Q4_1", "Q4_K", "Q5_1", "Q5_K")
NUMBERS = {f.name: number for number, f in FORMATS.items()}


def _text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(raw)) + raw


def _value(value: Any) -> bytes:
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + _text(value)
    if isinstance(value[0], (str, bytes)):
        return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(_text, value))
    if isinstance(value[0], int):
        return struct.pack("<IIQ", 9, 5, len(value)) + np.asarray(value, "<i4").tobytes()
    return struct.pack("<IIQ", 9, 6, len(value)) + np.asarray(value, "<f4").tobytes()


def gguf_file(metadata: Mapping[str, Any], tensors: Mapping[str, tuple[str, tuple[int, ...], bytes]]) -> bytes:
    """A file with this metadata, and tensors by name: format, shape in numpy's order, content."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    head += b"".join(_text(key) + _value(value) for key, value in metadata.items())
    data = b""
    for name, (format, shape, content) in tensors.items():
        data += b"\0" * (-len(data) % 32)
        head += _text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape[::-1], NUMBERS[format], len(data))
        data += content
    return head + b"\0" * (-len(head) % 32) + data


def drawn(format: str, shape: tuple[int, ...], scale: float = 1.0) -> tuple[str, tuple[int, ...], bytes]:
    """A tensor of random content, with finite numbers of about ``scale`` where the format has scales of its own."""
    kind = FORMATS[NUMBERS[format]]
    if kind.elements == 1:
        values = (RANDOM.standard_normal(shape) * scale).astype("<f4")
        if format == "F16":
            return format, shape, values.astype("<f2").tobytes()
        raw = values.view("<u4") >> 16 if format == "BF16" else values
        return format, shape, raw.astype("<u2" if format == "BF16" else "<f4").tobytes()
    count = prod(shape) // kind.elements
    blocks = RANDOM.integers(0, 256, (count, kind.size), dtype=np.uint8)
    halves = {"Q6_K": (208,), "Q3_K": (108,), "Q2_K": (80, 82)}.get(format, (0, 2) if format in _WITH_BASE else (0,))
    largest = {
        "Q4_0": 8, "Q8_0": 127, "Q4_1": 15, "Q4_K": 15 * 63, "Q6_K": 32 * 128, "Q5_0": 16, "Q5_1": 31, "Q5_K": 31 * 63,
        "Q2_K": 3 * 15, "Q3_K": 4 * 32, "IQ4_NL": 127,
    }[format]  # fmt: skip
    for at in halves:
        some = (RANDOM.uniform(0.5, 2, count) * scale / largest).astype("<f2")
        blocks[:, at : at + 2] = some[:, None].view(np.uint8)
    return format, shape, blocks.tobytes()


def llama(format: str = "F32", layers: int = 2, vocabulary: int = 40, **more: Any) -> bytes:
    """A decoder of 64 features with heads of 16, of which two share a key head."""
    width, hidden, heads, groups = 256, 256, 4, 2
    head = width // heads
    metadata = {
        "general.architecture": "llama",
        "llama.block_count": layers,
        "llama.context_length": 96,
        "llama.embedding_length": width,
        "llama.feed_forward_length": hidden,
        "llama.attention.head_count": heads,
        "llama.attention.head_count_kv": groups,
        "llama.rope.freq_base": 10000.0,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        **more,
    }
    tensors = {"token_embd.weight": drawn(format, (vocabulary, width)), "output_norm.weight": drawn("F32", (width,))}
    for j in range(layers):
        shapes = {
            "attn_q": (width, width), "attn_k": (groups * head, width), "attn_v": (groups * head, width),
            "attn_output": (width, width), "ffn_gate": (hidden, width), "ffn_up": (hidden, width),
            "ffn_down": (width, hidden),
        }  # fmt: skip
        tensors |= {f"blk.{j}.{name}.weight": drawn(format, shape, 0.1) for name, shape in shapes.items()}
        tensors |= {f"blk.{j}.{name}.weight": drawn("F32", (width,)) for name in ("attn_norm", "ffn_norm")}
    return gguf_file(metadata, tensors)

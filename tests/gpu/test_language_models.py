"""Decoders on GPUs: open numbers of tokens, and a position that kernels read from memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gguf_files import llama

import edgec
from edgec.artifact.network import Network

CONTEXT = 80
CASES = [("F32", "cuda_sm90", "fp32"), ("Q4_1", "cuda_sm90", "fp16"), ("Q8_0", "host_pocl", "fp32")]


@pytest.mark.parametrize(("format", "device", "precision"), CASES)
def test_logits_are_those_of_a_processor(format: str, device: str, precision: str, tmp_path: Path) -> None:
    """At the beginning, in the middle and at the end of the context; one token and several."""
    (tmp_path / "lm.gguf").write_bytes(llama(format, layers=1))
    emulated = {"compiler": "emulated"} if device.startswith("cuda") else {}
    edgec.build(tmp_path / "lm.gguf", tmp_path / "cpu", context=CONTEXT)
    edgec.build(tmp_path / "lm.gguf", tmp_path / "gpu", context=CONTEXT, device=device, precision=precision, **emulated)
    random = np.random.default_rng(0)
    with Network(tmp_path / "cpu") as cpu, Network(tmp_path / "gpu") as gpu:
        for past, count in ((0, 1), (0, 5), (7, 64), (31, 1), (CONTEXT - 1, 1)):
            given = {p.onnx_name: random.standard_normal(p.shape).astype(np.float32) for p in cpu.inputs[2:]}
            given |= {"tokens": random.integers(0, 40, count).astype(np.int32), "past": np.array(past, np.int64)}
            want = cpu.run(given)
            for name, got in gpu.run(given).items():
                tolerance = 1e-4 if precision == "fp32" else 1e-2
                assert np.abs(got - want[name]).max() <= tolerance * np.abs(want[name]).max(), (name, past, count)

"""Language models whose weights are in a file: one copy, mapped."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
from chance import RANDOM
from compiled import STRICT
from gguf_files import llama
from test_tokenizer import metadata

import edgec
from edgec.artifact.network import Network
from edgec.artifact.session import Session
from edgec.artifact.tokenizer import Tokenizer
from edgec.emit.weights import HEAD_BYTES, PLACES


def test_language_models_map_one_copy(tmp_path: Path) -> None:
    (tmp_path / "lm.gguf").write_bytes(llama("Q4_1", vocabulary=262, **metadata()))
    for place in PLACES:
        edgec.build(
            tmp_path / "lm.gguf",
            tmp_path / place,
            context=80,
            name="lm",
            weights=place,
            ram="64M" if place == "stream" else None,
        )
    tokens = RANDOM.integers(0, 40, 20).tolist()
    logits = []
    for place in PLACES:
        with Network(tmp_path / place) as opened:
            logits.append(Session(opened).prefill(tokens))
            assert Tokenizer(opened).decode(Tokenizer(opened).encode("hello \u20ac")) == "hello \u20ac"
    assert all(np.array_equal(found, logits[0]) for found in logits)
    sources = sorted(p.name for p in (tmp_path / "file").glob("*.c"))
    command = ["gcc", *STRICT, "-Wconversion", "-Wsign-conversion", "-march=native", "-fsyntax-only", *sources]
    done = subprocess.run(command, cwd=tmp_path / "file", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:3000]
    blob = (tmp_path / "incbin" / "lm_weights.bin").read_bytes()
    written = (tmp_path / "file" / "lm.weights").read_bytes()[HEAD_BYTES:]
    assert written[: 1 << 14] == blob[: 1 << 14]
    assert len(blob) <= len(written) < len(blob) + 4096, "scalars of the model, which are in the code elsewhere"
    library = (tmp_path / "file" / "liblm.so").read_bytes()
    assert blob[: 1 << 12] not in library, "a second copy"

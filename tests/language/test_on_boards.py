"""Language models on boards without an operating system, emulated: the text and tokens of the session in Python."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from chance import RANDOM
from needed import need
from onnx_decoders import VOCABULARY, decoder, stacked
from talking_model import CONTEXT, compiled_with_less_optimization, gguf

import edgec
from edgec.artifact.language_model import LanguageModel
from edgec.artifact.session import Session
from edgec.errors import UsageError

#: What a program that allocates asks its library for.
_HEAP = re.compile(r"\b(?:malloc|calloc|realloc|free|_sbrk)\b")


def run(folder: Path, file: str, count: int) -> tuple[str, float]:
    """What the program writes, and the perplexity that it tells, after it was made."""
    need("make", "make")
    need("qemu-system-arm", "qemu-system-arm")
    need("arm-none-eabi-gcc", "gcc-arm-none-eabi", "libnewlib-arm-none-eabi")
    for words in ([], ["run", f"FILE={file}", f"COUNT={count}"]):
        done = subprocess.run(["make", "-s", "-C", folder, *words], capture_output=True, check=False)
        assert done.returncode == 0, (done.stdout + done.stderr).decode("utf-8", "replace")
    objects = [str(path) for path in folder.glob("*.o")]
    wanted = subprocess.run(["arm-none-eabi-nm", "-u", *objects], capture_output=True, text=True, check=True).stdout
    assert not _HEAP.search(wanted)
    text, told = done.stdout.decode("utf-8").rstrip("\n").rsplit("\n", 1)
    return text, float(told.split()[1].rstrip(","))


def perplexity(logits: list[np.ndarray], tokens: list[int]) -> float:
    losses = [np.log(np.exp(x - x.max()).sum()) + x.max() - x[t] for x, t in zip(logits, tokens[1:])]
    return float(np.exp(np.mean(losses)))


def test_a_text_on_a_cortex_m7(tmp_path: Path) -> None:
    """With a tokenizer: the session of the same model on this machine."""
    (tmp_path / "lm.gguf").write_bytes(gguf(None))
    with compiled_with_less_optimization():
        edgec.build(tmp_path / "lm.gguf", tmp_path / "host", context=CONTEXT, name="lm")
    out, device = tmp_path / "out", "mps2_an500"
    edgec.build(
        tmp_path / "lm.gguf", out, context=CONTEXT, name="lm", device=device, extras=["embedded"], compile=False
    )
    (tmp_path / "out" / "embedded" / "text.txt").write_text("hello world")
    text, told = run(tmp_path / "out" / "embedded", "text.txt", 12)
    with edgec.load(tmp_path / "host") as model:
        assert isinstance(model, LanguageModel)
        assert text == model.generate("hello world", max_tokens=12, temperature=0).text()
        tokens = model.tokenizer.encode("hello world", begin=True)
        session = Session(model.network)
        want = perplexity([session.next(t) for t in tokens], tokens)
    assert abs(told - want) <= 1e-3 * want + 1e-3


def test_tokens_on_a_cortex_m55(tmp_path: Path) -> None:
    """Without one: numbers in and out, weights in a flash of their own, one token a run."""
    onnx.save(stacked(decoder("plain"), 1), str(tmp_path / "lm.onnx"))
    tokens = RANDOM.integers(0, VOCABULARY, 7).tolist()
    edgec.build(tmp_path / "lm.onnx", tmp_path / "host", context=24, name="lm")
    with edgec.Network(tmp_path / "host") as network:
        session = Session(network)
        logits = [session.next(t) for t in tokens]
        want, written = perplexity(logits, tokens), []
        for _ in range(17):
            written.append(int(logits[-1].argmax()))
            logits.append(session.next(written[-1]))
        written.append(int(logits[-1].argmax()))
    out = tmp_path / "out"
    edgec.build(
        tmp_path / "lm.onnx", out, context=24, name="lm", device="mps3_an547_qspi", extras=["embedded"], compile=False
    )
    (out / "embedded" / "tokens.bin").write_bytes(np.array(tokens, "<i4").tobytes())
    text, told = run(out / "embedded", "tokens.bin", 100)  # to the end of the context
    assert [int(word) for word in text.split()] == written
    assert abs(told - want) <= 1e-3 * want + 1e-3
    (out / "embedded" / "long.bin").write_bytes(np.zeros(25, "<i4").tobytes())
    refused = subprocess.run(["make", "-s", "-C", out / "embedded", "run", "FILE=long.bin"], capture_output=True)
    assert refused.returncode and b"longer than 24 tokens" in refused.stdout


def test_boards_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "lm.gguf").write_bytes(gguf(None))
    with pytest.raises(UsageError, match="needs the memory map of a board"):
        edgec.build(tmp_path / "lm.gguf", tmp_path / "out", device="cortex_m7", extras=["embedded"])

"""The benchmark of language models: its yardstick against another evaluation, and a small model from end to end."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from chance import RANDOM

sys.path.append(str(Path(__file__).resolve().parents[1] / "language"))

import plain
from gguf_files import llama
from test_tokenizer import metadata

from benchmarks.accuracy import language_models
from benchmarks.accuracy.drawn_lines import broken, lines
from benchmarks.accuracy.plain_decoder import PlainDecoder


@pytest.mark.parametrize("name", ["llama", "gemma3"])
def test_the_yardstick(name: str, tmp_path: Path) -> None:
    weights = plain.draw(name)
    (tmp_path / "lm.gguf").write_bytes(plain.gguf(name, weights))
    tokens = RANDOM.integers(0, plain.VOCABULARY, 14).tolist()
    got, want = PlainDecoder(tmp_path / "lm.gguf").logits(tokens, 3), plain.evaluate(name, weights, tokens)[3:]
    assert np.abs(got - want).max() <= 1e-4 * np.abs(want).max()


def test_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Equal tokens, a page with its row; the row of a model that misses a bound says which."""
    path = tmp_path / "lm.gguf"
    path.write_bytes(llama("Q8_0", 1, vocabulary=262, **{**metadata(), "llama.context_length": 512}))
    (tmp_path / "text.txt").write_text("the hello of a shell " * 30)
    known, written = tmp_path / "known.json", tmp_path / "page.md"
    settings = {"tokens": 4, "lines": 20, "text": tmp_path / "text.txt", "json": known, "write": written}
    arguments = [str(path), *(str(part) for key, value in settings.items() for part in (f"--{key}", value))]
    assert language_models.main(arguments) == 0
    assert "| lm.gguf | plain fp32 in numpy | 40 of 40 |" in written.read_text()
    known.write_text(known.read_text().replace('"equal_tokens": 40', '"equal_tokens": 39'))
    assert language_models.main(arguments) == 1
    assert "lm.gguf: greedy tokens" in capsys.readouterr().err


def test_lines() -> None:
    assert lines(50) == lines(60)[:50] and len({*lines(50)}) > 45
    assert sum(raw.decode("utf-8", "replace").encode() != raw for raw in broken(50)) > 40

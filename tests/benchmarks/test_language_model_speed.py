"""The benchmark of language models on a small one: its rows, what it takes up again, and its page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from chance import RANDOM

from benchmarks.alone import append_row, read_rows
from benchmarks.language_models import __main__ as benchmark
from benchmarks.language_models import page
from benchmarks.language_models.models import Model, file_of, write_gpt2, write_random
from benchmarks.language_models.reference import Reference, reference, rotated
from edgec.execute.executor import run_graph
from edgec.frontend.gguf import import_gguf
from edgec.frontend.gguf.reader import read
from edgec.frontend.language.config import Rotary

pytest.importorskip("gguf")


def write_tiny(target: Path, python: str | None) -> None:
    write_random(target, width=64, hidden=96, heads=2, kv_heads=1, layers=2, vocabulary=96)


TINY = Model("tiny", write_tiny, (8, 16), ("reassociates",))


def test_a_run_and_its_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(benchmark, "MODELS", (TINY,))
    where = ["--cache", str(tmp_path / "cache"), "--threads", "1", "--contexts", "8"]
    options = [*where, "--peer", "llama.cpp", "--write", str(tmp_path / "page.md")]
    assert benchmark.main(options) == 0
    rows = read_rows(tmp_path / "cache" / "language_models.jsonl")
    assert list(rows) == [
        "tiny, reassociates, build",
        "tiny, reassociates, accuracy",
        "tiny, reassociates, 1 threads, 8",
    ]
    built, accurate, fast = rows.values()
    assert built["weights_bytes"] >= built["read_bytes"] > 96 * 64 // 2
    assert accurate["max_rel"] < 1e-4 and accurate["same"] == accurate["of"] == 16
    own, peer = fast["engines"]
    assert own["decode_per_second"] > 0 and own["error"] is None
    assert peer["error"] or peer["decode_per_second"] > 0
    text = (tmp_path / "page.md").read_text()
    assert "## tiny" in text and f"{own['decode_per_second']:.1f}" in text and "same 16 of 16" in text
    capsys.readouterr()
    assert benchmark.main(where) == 0  # every row is there
    assert not capsys.readouterr().out


def test_models_that_peers_do_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder of GPT-2: built and timed alone."""
    small = Model("small", lambda target, _: write_gpt2(target, 32, 1, 2, 96, 40), (8,), ("reassociates",), "")
    monkeypatch.setattr(benchmark, "MODELS", (small,))
    where = ["--cache", str(tmp_path / "cache"), "--threads", "1", "--contexts", "8"]
    assert benchmark.main([*where, "--write", str(tmp_path / "page.md")]) == 0
    built, fast = read_rows(tmp_path / "cache" / "language_models.jsonl").values()
    assert built["context"] == 96 and [e["error"] for e in fast["engines"]] == [None]
    assert "## small" in (tmp_path / "page.md").read_text()
    capsys.readouterr()


def test_steps_that_failed_are_told(tmp_path: Path) -> None:
    shared = {"model": "tiny", "numeric": "approximates", "threads": 2, "date": "today"}
    speed = {**shared, "step": "speed", "prompt": 8, "tokens": 4, "name": "b", "error": "it took more than 2 s"}
    append_row(tmp_path / "rows", {**shared, "name": "a", "step": "build", "error": "no compiler"})
    append_row(tmp_path / "rows", speed)
    rows = list(read_rows(tmp_path / "rows").values())
    assert [page.sentence(r) for r in rows] == ["a: ERROR: no compiler", "b: ERROR: it took more than 2 s"]
    text = page.text(rows)
    assert "build failed: no compiler" in text and "edgec, 8 bits failed: it took more than 2 s." in text


def test_the_reference_is_the_graph(tmp_path: Path) -> None:
    file = file_of(TINY, tmp_path, None)
    graph = import_gguf(read(file, "tiny"), 12)
    tokens = RANDOM.integers(0, 96, 9)
    states = {str(n.attributes["name"]): np.zeros(n.type.shape, np.float32) for n in graph.inputs[2:]}
    given = {"tokens": tokens.astype(np.int32), "past": np.array(0, np.int64), **states}
    want = run_graph(graph, given)["logits"]
    (got,) = reference(file).logits(tokens.tolist(), 1)
    assert np.abs(got - want).max() <= 1e-5 * np.abs(want).max()
    wrong = Reference(reference(file).model, reference(file).config).logits(tokens[::-1].tolist(), 1)
    assert np.abs(wrong - want).max() > 1e-2 * np.abs(want).max()


@pytest.mark.parametrize("is_interleaved", [True, False])
def test_rotation_keeps_lengths_and_the_first_position(is_interleaved: bool) -> None:
    x = RANDOM.standard_normal((5, 2, 8)).astype(np.float32)
    y = rotated(x, Rotary(4, 100.0, is_interleaved))
    assert np.array_equal(y[0], x[0]) and np.array_equal(y[..., 4:], x[..., 4:])
    assert np.allclose((y**2).sum(-1), (x**2).sum(-1), rtol=1e-5) and not np.allclose(y[1:, :, :4], x[1:, :, :4])

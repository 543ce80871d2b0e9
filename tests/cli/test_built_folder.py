"""A built folder without its model: what bench and inspect make of it, and what the other commands say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_commands import Shell, elsewhere, file, shell

__all__ = ["elsewhere", "file", "shell"]  # fixtures


def test_a_build_is_timed_and_shown_without_its_model(shell: Shell, file: Path, elsewhere: Path) -> None:
    shell("build", file, "-o", "out", "--threads", "2")
    timed = shell.json("bench", "out", "--seconds", "0.02", "--rounds", "1", "--threads", "2")
    assert timed["threads"] == 2 and timed["median_ms"] > 0 and timed["peer"] is None
    shown = shell.json("inspect", "out")
    assert shown["build"]["threads"] == 2 and [p["onnx_name"] for p in shown["inputs"]] == ["image"]
    assert shown["model_sha256"] == json.loads((elsewhere / "out" / "edgec.lock").read_text())["model"]["sha256"]
    assert "image: f32" in shell("inspect", "out")[1]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["bench", "out", "--device", "arm64"], "cannot be changed after the build"),
        (["bench", "out", "--vs", "onnxruntime", "--model", "none.onnx"], "is not at none.onnx"),
        (["bench", "out", "--threads", "3"], "3 threads asked for"),
        (["explain", "out", "node"], "there is no node called"),
    ],
)
def test_what_a_build_cannot_tell(words: list[str], told: str, shell: Shell, file: Path, elsewhere: Path) -> None:
    shell("build", file, "-o", "out", "--threads", "2")
    code, _, err = shell(*words)
    assert code == 2 and told in err.replace("\n", " ")

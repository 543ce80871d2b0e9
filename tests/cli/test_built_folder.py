"""A built folder without its model: what bench and inspect make of it, and what the other commands say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest
from test_commands import Shell, elsewhere, file, shell

import edgec
from edgec.bench import built as bench_built

__all__ = ["elsewhere", "file", "shell"]  # fixtures


def test_a_build_is_timed_and_shown_without_its_model(shell: Shell, file: Path, elsewhere: Path) -> None:
    shell("build", file, "-o", "out", "--threads", "2")
    timed = shell.json("bench", "out", "--seconds", "0.02", "--rounds", "1", "--threads", "2")
    assert timed["threads"] == 2 and timed["median_ms"] > 0 and timed["peer"] is None
    shown = shell.json("inspect", "out")
    assert shown["build"]["threads"] == 2 and [p["onnx_name"] for p in shown["inputs"]] == ["image"]
    assert shown["model_sha256"] == json.loads((elsewhere / "out" / "edgec.lock").read_text())["model"]["sha256"]
    assert "image: f32" in shell("inspect", "out")[1]


def test_a_build_of_open_sizes_is_timed_at_the_greatest(
    shell: Shell, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dimensions may have any names, by which the build tells its ports."""
    x, y = (onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, ["it's", "n", 2]) for n in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Tanh", ["x"], ["y"])], "g", [x], [y])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), "o.onnx")
    built = edgec.build("o.onnx", "out", dims={"it's": (1, 3), "n": (8, 512, 8)})
    assert "x  f32[it_s,n,2]" in str(built) and "{" not in str(built)
    drawn: list[tuple[int, ...]] = []

    def watched(*given: Any) -> Any:
        array = draw(*given)
        drawn.append(array.shape)
        return array

    draw = bench_built.drawn
    monkeypatch.setattr(bench_built, "drawn", watched)
    timed = shell.json("bench", "out", "--seconds", "0.02", "--rounds", "1")
    assert timed["median_ms"] > 0 and drawn == [(3, 512, 2)]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["bench", "out", "--device", "arm64"], "cannot be changed after the build"),
        (["bench", "out", "--vs", "onnxruntime", "--model", "none.onnx"], "is not at none.onnx"),
        (["bench", "out", "--threads", "3"], "3 threads asked for"),
        (["explain", "out", "node"], "there is no node called"),
        (["chat", "out"], "this is no language model"),
    ],
)
def test_what_a_build_cannot_tell(words: list[str], told: str, shell: Shell, file: Path, elsewhere: Path) -> None:
    shell("build", file, "-o", "out", "--threads", "2")
    code, _, err = shell(*words)
    assert code == 2 and told in err.replace("\n", " ")

"""Every command of the guide runs, in its order; so does its Python."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from small_models import model, node, tensor_input, weights

from edgec.cli.demo import digits
from edgec.cli.main import main

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "guide.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", GUIDE.read_text(), re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Working folder with the files that the guide names."""
    shutil.copy(digits()[0], tmp_path / "digits.onnx")
    sobel = np.float32([[[[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]]]])
    conv = node("Conv", ["image", "sobel"], ["edges"], "conv", pads=[1, 1, 1, 1])
    image = tensor_input("image", [1, 1, "rows", "columns"])
    onnx.save(model([conv], [image], ["edges"], [weights("sobel", sobel)]), tmp_path / "edges.onnx")
    found = model([node("NonZero", ["x"], ["places"])], [tensor_input("x", [4, 5])], ["places"])
    onnx.save(found, tmp_path / "places.onnx")
    random = np.random.default_rng(0)
    parameters = [weights(n, random.standard_normal((1, 32, k)).astype(np.float32)) for n, k in (("w", 6), ("r", 8))]
    lstm = node("LSTM", ["x", "w", "r", "", "", "h", "c"], ["y", "h_next", "c_next"], hidden_size=8)
    states = [tensor_input(n, [1, 1, 8]) for n in "hc"]
    steps = model([lstm], [tensor_input("x", [1, 1, 6]), *states], ["y", "h_next", "c_next"], parameters)
    steps.ir_version = 8
    onnx.save(steps, tmp_path / "steps.onnx")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_commands(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commands = [line for block in blocks("sh") for line in block.splitlines()]
    assert len(commands) > 10
    for command in commands:
        edgec, *arguments = shlex.split(command)
        assert edgec == "edgec"
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert not ended.value.code, f"{command}: {capsys.readouterr().err}"


def test_python(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = blocks("python")
    variables = {"image": digits()[1][:1]}
    exec(code, variables)
    assert np.asarray(variables["probabilities"]).shape == (1, 10)
    assert "True" in capsys.readouterr().out

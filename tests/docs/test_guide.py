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

from edgec.cli import main
from edgec.demo import digits

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", GUIDE.read_text(), re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the guide says it works: digits.onnx and edges.onnx."""
    shutil.copy(digits()[0], tmp_path / "digits.onnx")
    sobel = np.float32([[[[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]]]])
    conv = node("Conv", ["image", "sobel"], ["edges"], "conv", pads=[1, 1, 1, 1])
    image = tensor_input("image", [1, 1, "rows", "columns"])
    onnx.save(model([conv], [image], ["edges"], [weights("sobel", sobel)]), tmp_path / "edges.onnx")
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

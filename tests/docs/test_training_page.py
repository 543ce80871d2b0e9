"""The page on training: its first command and its Python make a network learn."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest

import edgec
from edgec.cli.main import main
from edgec.resources import data_folder

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "training.md"
DIGITS = data_folder("apps") / "digits"


def test_the_page_trains_the_digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(DIGITS / "digits.onnx", tmp_path)
    text = PAGE.read_text()
    words = shlex.split(next(line for line in text.splitlines() if line.startswith("edgec train digits.onnx")))
    monkeypatch.setattr("sys.argv", words)
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 0
    learning_rate = re.search(r"learning_rate=(lambda step: .+)\)\n", text)
    assert learning_rate
    with np.load(DIGITS / "digits_test.npz") as data, edgec.load("out") as net:
        samples = {"image": data["image"], "target": data["label"]}
        losses = net.fit(samples, epochs=5, learning_rate=eval(learning_rate[1])).losses
        assert losses[-1] < 0.1 and losses[-1] < losses[0]
        assert str(net).splitlines()[:3] == [
            "training of net",
            "  in     image  f32[8,1,8,8]",
            "  target target  i64[8]",
        ]

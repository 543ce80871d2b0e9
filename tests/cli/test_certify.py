"""The command `edgec certify`: answers, files and errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from small_models import model, node, tensor_input, weights

from edgec.cli.main import main

PROPERTY = """
(declare-const X_0 Real) (declare-const X_1 Real) (declare-const Y_0 Real)
(assert (<= X_0 1)) (assert (>= X_0 {low})) (assert (<= X_1 1)) (assert (>= X_1 -1))
(assert (<= Y_0 0.25))
"""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """|a| + |b|, inputs, and properties."""
    first = np.array([[1, -1, 0, 0], [0, 0, 1, -1]], np.float32)
    made = model(
        [node("MatMul", ["x", "a"], ["h"]), node("Relu", ["h"], ["r"]), node("MatMul", ["r", "b"], ["y"])],
        [tensor_input("x", [1, 2])],
        initializers=[weights("a", first), weights("b", np.ones((4, 1), np.float32))],
    )
    onnx.save(made, tmp_path / "net.onnx")
    np.savez(tmp_path / "x.npz", x=np.array([[[1, 2]], [[3, 4]]], np.float32))
    for name, low in (("holds", 0.5), ("violated", -1)):
        (tmp_path / f"{name}.vnnlib").write_text(PROPERTY.format(low=low))
    return tmp_path


def certify(here: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    with pytest.raises(SystemExit) as ended:
        main(["certify", str(here / "net.onnx"), *words, "--json"])
    return int(ended.value.code or 0), json.loads(capsys.readouterr().out)


def test_a_property_that_holds(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = certify(here, capsys, "--property", str(here / "holds.vnnlib"))
    assert code == 0 and found["ok"] and found["certified_share"] == 1.0
    (row,) = found["certificates"]
    assert row["verdict"] == "holds" and row["outputs"][0]["low"][0] <= 0.5 and row["outputs"][0]["high"][0] >= 2


def test_a_violation_is_written(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = here / "found.npz"
    code, found = certify(here, capsys, "--property", str(here / "violated.vnnlib"), "-o", str(out))
    assert code == 1 and found["counterexamples"] == str(out) and found["replayed"]
    with np.load(out) as data:
        assert np.abs(data["x"]).sum() <= 0.25


def test_bounds_of_an_output_of_one_element(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = certify(here, capsys, "--inputs", str(here / "x.npz"), "--eps", "1/4")
    assert code == 0 and len(found["certificates"]) == 2
    low, high = (found["certificates"][1]["outputs"][0][k][0] for k in ("low", "high"))
    assert 6.49 < low <= 6.5 and 7.5 <= high < 7.51


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "what is to be certified is not said"),
        (("--inputs", "x.npz"), "what is to be certified is not said"),
        (("--inputs", "x.npz", "--eps", "-1"), "no distance"),
        (("--inputs", "x.npz", "--eps", "nan"), "no distance"),
        (("--inputs", "x.npz", "--eps", "0.1", "--norm", "1"), "no norm '1'"),
        (("--inputs", "x.npz", "--eps", "0.1", "--within", "1:0"), "is no range"),
        (("--inputs", "x.npz", "--eps", "0.1", "--within", "5:6"), "is not within"),
        (("--inputs", "x.npz", "--eps", "0.1", "--output", "z"), "no output 'z'"),
        (("--property", "holds.vnnlib", "--eps", "0.1"), "says what its inputs are"),
        (("--property", "holds.vnnlib", "--inputs", "x.npz"), "says what its inputs are"),
        (("--property", "none.vnnlib"), "cannot be read"),
        (("--eps", "0.1"), "what is to be certified is not said"),
        (("--inputs", "x.npz", "--eps", "0.1", "--within", "0"), "is no range"),
        (("--inputs", "x.npz", "--eps", "0.1", "--within", "nan:1"), "is no range"),
        (("--box", "x.npz:0.1", "--inputs", "x.npz"), "a box says what its inputs are"),
        (("--box", "x.npz:0.1", "--eps", "0.1"), "a box says what its inputs are"),
        (("--box", "x.npz:0.1", "--property", "holds.vnnlib"), "a box says what its inputs are"),
        (("--inputs", "x.npz", "--eps", "0.1", "--limit", "1"), "a limit is one of differences"),
        (("--inputs", "x.npz", "--eps", "0.1", "--against", "float", "--output", "y"), "bounded for all outputs"),
        (("--inputs", "x.npz", "--eps", "0.1", "--against", "float", "--radius"), "bounded for all outputs"),
        (("--property", "holds.vnnlib", "--against", "float"), "bounded for all outputs"),
        (("--inputs", "x.npz", "--eps", "0.1", "--against", "float", "--limit", "-1"), "is no limit"),
        (("--inputs", "x.npz", "--eps", "0.1", "--seconds", "-1"), "no time"),
    ],
)
def test_errors_in_words(
    here: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(here)
    code, found = certify(here, capsys, *words)
    assert code == 2 and said in found["error"]["message"]


def test_an_output_of_several_is_named(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = [node("Relu", ["x"], ["y"]), node("Neg", ["x"], ["z"])]
    onnx.save(model(nodes, [tensor_input("x", [1, 2])], ["y", "z"]), here / "net.onnx")
    asked = ("--inputs", str(here / "x.npz"), "--eps", "0.1")
    code, found = certify(here, capsys, *asked)
    assert code == 2 and "the network has 2 outputs" in found["error"]["message"]
    rows = [certify(here, capsys, *asked, "--output", name)[1]["certificates"] for name in ("y", "z")]
    assert [[row["verdict"] for row in found] for found in rows] == [["holds"] * 2] * 2


def test_what_it_draws(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["certify", str(here / "net.onnx"), "--property", str(here / "holds.vnnlib")])
    shown = capsys.readouterr().out
    assert "1 holds of 1" in shown and "sums as the code adds them up" in shown and "run in the compiled code" in shown

"""Commands on TensorFlow Lite models: inspect, explain, bench, and the origin of an error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tflite_cases import CASES

import edgec
from edgec.cli.main import main
from edgec.errors import UsageError
from edgec.frontend.tflite import call as registry
from edgec.frontend.tflite.call import TfliteCall
from edgec.frontend.values import Value


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "net.tflite"
    file.write_bytes(CASES["CONV_2D-f32-same"])
    return file


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--json"])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert not ended.value.code, found
    return found


def test_inspect_and_explain(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = said(capsys, "inspect", str(path))
    assert told["operators"] == {"CONV_2D": 1} and told["producer"] == "made by a test"
    assert told["opsets"] == {"TensorFlow Lite": 3} and told["inputs"][0]["shape"] == [2, 7, 6, 4]
    told = said(capsys, "explain", str(path), "y")
    assert [n["operator"] for n in told["imported_as"]][-2:] == ["add", "transpose"]


def test_quantization_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "net.tflite"
    file.write_bytes(CASES["CONV_2D-i8-same"])
    told = said(capsys, "inspect", str(file))["metadata"]
    assert json.loads(told["quantization x0"]) == [pytest.approx(0.05), -7]
    assert json.loads(told["quantization y"]) == [pytest.approx(0.31), -2]
    checked = said(capsys, "check", str(file))
    assert checked["outputs"][0]["quantized"] and checked["outputs"][0]["max_abs"] == 0


def test_bench_beside_the_interpreter(path: Path) -> None:
    built = edgec.build(path)
    benched = edgec.bench(built, vs="litert", seconds=0.05, rounds=1)
    assert benched.peer is not None and "litert" in benched.peer and benched.max_rel is not None
    with pytest.raises(UsageError, match="no ONNX model"):
        edgec.bench(built, vs="onnxruntime")


def test_a_wrong_lowering_is_located(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = registry.lowering("CONV_2D")

    def wrong(call: TfliteCall) -> Value:
        assert right is not None
        result = right(call)
        assert isinstance(result, Value)
        return result * 1.01

    monkeypatch.setitem(registry._LOWERINGS, "CONV_2D", wrong)
    checked = edgec.check(path, locate=True, samples=1)
    assert not checked.ok and checked.located is not None
    assert checked.located.stage == "import" and checked.located.nodes == ("y",)
    assert "(CONV_2D)" in checked.located.what


def test_without_the_interpreter_the_formulas_are_the_reference(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from edgec.check import litert
    from edgec.check.unavailable import Unavailable

    def missing() -> None:
        raise Unavailable("ai-edge-litert is not installed", hint="pip install ai-edge-litert")

    monkeypatch.setattr(litert, "runtime", missing)
    checked = edgec.check(path)
    assert checked.ok and checked.reference == "the graph in numpy"
    assert "ai-edge-litert is not installed" in checked.notes[0]
    assert np.isfinite(checked.outputs[0].max_rel)

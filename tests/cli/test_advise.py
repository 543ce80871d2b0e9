"""`edgec advise`: the best options are those that no other one beats, and changes of the model that pay are found."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import edgec
from edgec.advise.advise import Advice
from edgec.advise.switches import Switch
from edgec.advise.trial import Trial
from edgec.cli.main import main
from edgec.errors import UsageError

DIGITS = str(Path(__file__).parents[2] / "apps" / "digits" / "digits.onnx")


def _model(channels: int, nodes: list[onnx.NodeProto], shape: list[int | str]) -> onnx.ModelProto:
    """A convolution of ``channels`` whose result is "c", then ``nodes`` to "y"."""
    random = np.random.default_rng(0)
    weights = numpy_helper.from_array(random.standard_normal((channels, 16, 3, 3)).astype(np.float32) / 12, "w")
    roi = numpy_helper.from_array(np.zeros(0, np.float32), "roi")
    scales = numpy_helper.from_array(np.array([1, 1, 4, 4], np.float32), "scales")
    ones = [numpy_helper.from_array(np.full(channels, k, np.float32), n) for k, n in ((1, "one"), (0, "zero"))]
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["c"], "conv", pads=[1, 1, 1, 1]), *nodes],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 16, 32, 32])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [weights, roi, scales, *ones],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _resized(mode: str) -> list[onnx.NodeProto]:
    return [helper.make_node("Resize", ["c", "roi", "scales"], ["y"], "up", mode=mode)]


@pytest.fixture(scope="module")
def digits() -> Advice:
    return edgec.advise(DIGITS, seconds=600)


def test_every_option_has_an_outcome(digits: Advice) -> None:
    assert digits.trials[0].switch == Switch() and digits.skipped == 0 and digits.is_measured
    names = {t.switch.name for t in digits.trials}
    assert {"as given", "--quantize int8-dynamic", "--prune vector --sparsity 0.5"} <= names
    assert len(names) == len(digits.trials)
    for t in digits.trials:
        known = t.ms is not None and t.measured_ms is not None and t.error is not None and t.weights_bytes > 0
        assert bool(t.refused) != known, t


def test_no_other_one_beats_the_best(digits: Advice) -> None:
    able = [t for t in digits.trials if not t.refused]
    assert digits.best
    for t in able:
        beaten = any(o.is_better(t) for o in able)
        assert beaten != (t in digits.best), t


def test_int8_takes_fewer_bytes_and_costs_accuracy(digits: Advice) -> None:
    by_name = {t.switch.name: t for t in digits.trials}
    plain, narrow = by_name["as given"], by_name["--quantize int8-dynamic"]
    assert narrow.weights_bytes < plain.weights_bytes
    assert plain.error is not None and narrow.error is not None and plain.error < 1e-5 < narrow.error < 0.1


@pytest.mark.parametrize(
    ("one", "other", "is_better"),
    [
        ((1.0, 0.1, 100), (1.0, 0.1, 100), False),
        ((0.5, 0.1, 100), (1.0, 0.1, 100), True),
        ((0.5, 0.2, 100), (1.0, 0.1, 100), False),
        ((0.5, 0.1, 200), (1.0, 0.1, 100), False),
        ((0.99, 0.1, 100), (1.0, 0.1, 100), False),  # within what a clock tells
        ((1.0, 1e-9, 100), (1.0, 1e-6, 100), False),  # both are rounding
        ((1.0, 1e-3, 50), (1.0, 1e-3, 100), True),
    ],
)
def test_a_trial_is_better_where_nothing_is_worse(
    one: tuple[float, float, int], other: tuple[float, float, int], is_better: bool
) -> None:
    a, b = (Trial(Switch(), measured_ms=ms, error=e, weights_bytes=n) for ms, e, n in (one, other))
    assert a.is_better(b) is is_better


def test_without_time_the_build_itself_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    found = edgec.advise(DIGITS, seconds=0)
    assert [t.switch.name for t in found.trials] == ["as given"] and found.skipped > 5
    assert found.trials[0].measured_ms is not None and found.costliest


def test_options_that_are_given_are_not_tried() -> None:
    found = edgec.advise(DIGITS, seconds=0, quantize="int8-dynamic", threads=2, prune=None)
    assert found.trials[0].weights_bytes < 8000
    fewer = edgec.advise(DIGITS, seconds=0)
    assert found.skipped < fewer.skipped


def test_what_cannot_be_built_is_an_error() -> None:
    with pytest.raises(UsageError, match="needs inputs like those"):
        edgec.advise(DIGITS, quantize="int8")
    with pytest.raises(UsageError, match="steps that train"):
        edgec.advise(DIGITS, loss="cross_entropy")


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_interpolation_that_costs_is_found(mode: str) -> None:
    found = edgec.advise(_model(16, _resized(mode), [1, 16, 128, 128]), device="raspberry_pi_5", seconds=0)
    assert [(c.text.split(" ")[0], c.nodes) for c in found.changes] == [("resize", ("up",))]
    assert 0.02 < found.changes[0].gain < 1


def test_normalization_by_statistics_of_the_sample_is_found() -> None:
    nodes = [
        helper.make_node("InstanceNormalization", ["c", "one", "zero"], ["n"], "norm"),
        helper.make_node("Sigmoid", ["n"], ["s"], "gate"),
        helper.make_node("Mul", ["n", "s"], ["y"], "silu"),
    ]
    found = edgec.advise(_model(16, nodes, [1, 16, 32, 32]), device="raspberry_pi_5", seconds=0)
    assert {c.nodes for c in found.changes} == {("norm",), ("silu",)}


def test_nothing_is_found_where_nothing_would_pay() -> None:
    nodes = [helper.make_node("Relu", ["c"], ["y"], "relu")]
    found = edgec.advise(_model(16, nodes, [1, 16, 32, 32]), device="raspberry_pi_5", seconds=0)
    assert found.changes == () and found.uneven == ()
    assert edgec.advise(_model(16, _resized("nearest"), [1, 16, 128, 128]), seconds=0).changes == ()


def test_channels_that_fill_no_vector_are_found() -> None:
    nodes = [helper.make_node("Relu", ["c"], ["y"], "relu")]
    found = edgec.advise(_model(17, nodes, [1, 17, 32, 32]), device="raspberry_pi_5", seconds=0)
    (row,) = found.uneven
    assert row.channels == 17 and row.even == (16, 20) and 0.05 < row.lost <= 3 / 20 + 1e-9


def _run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    with pytest.raises(SystemExit) as ended:
        main([*words, "--json"])
    return int(ended.value.code or 0), json.loads(capsys.readouterr().out)


def test_the_command_names_commands_that_build(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    from answer_schemas import refuse_other

    page = tmp_path / "advice.html"
    code, found = _run(capsys, "advise", DIGITS, "-d", "cortex_m7", "--seconds", "600", "-o", str(page))
    assert code == 0
    refuse_other(found)
    best = [t for t in found["trials"] if t["is_best"]]
    assert best and not found["is_measured"] and all(t["measured_ms"] is None for t in found["trials"])
    for k, trial in enumerate(best):
        program, *words = shlex.split(trial["command"])
        assert program == "edgec"
        code, built = _run(capsys, *words, "-o", str(tmp_path / str(k)))
        assert code == 0 and built["weights_bytes"] == trial["weights_bytes"], trial
    text = page.read_text(encoding="utf-8")
    assert text.count("<circle") == sum(t["max_rel"] is not None for t in found["trials"])
    assert "--quantize int8-dynamic" in text and "<script" not in text
    code, again = _run(capsys, "advise", DIGITS, "-o", str(page))
    assert code == 2 and "is there already" in again["error"]["message"]


def test_the_page_escapes_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = [helper.make_node("Resize", ["c", "roi", "scales"], ["y"], "<img src=x>", mode="cubic")]
    path = tmp_path / "a&b.onnx"
    onnx.save(_model(16, nodes, [1, 16, 128, 128]), path)
    page = tmp_path / "page.html"
    assert _run(capsys, "advise", str(path), "--seconds", "0", "-d", "raspberry_pi_5", "-o", str(page))[0] == 0
    text = page.read_text(encoding="utf-8")
    assert "<img" not in text and "&lt;img src=x&gt;" in text and "a&amp;b.onnx" in text

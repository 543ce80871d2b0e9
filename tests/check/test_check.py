"""The check of a whole network, and the timing of one."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convnet import convnet
from onnx import helper

import edgec
from edgec.bench import latency
from edgec.check import network, reference
from edgec.check.reference import Reference
from edgec.check.unavailable import Unavailable
from edgec.errors import CheckError, EdgecError, ModelError, UsageError
from edgec.frontend.onnx.model import read


@pytest.fixture(scope="module")
def built() -> edgec.Built:
    return edgec.build(convnet(), threads=2)


def test_everything_agrees(built: edgec.Built) -> None:
    checked = edgec.check(built)
    assert checked.ok and checked.reference.startswith("onnxruntime") and checked.threads == (1, 2)
    assert [d.name for d in checked.outputs] == ["scores", "features"] and checked.samples == 3
    assert [e.stage for e in checked.stages] == ["import", "simplify", "compress", "fuse", "schedule", "emit"]


def test_no_tolerance_at_all(built: edgec.Built) -> None:
    got = built(np.ones((1, 3, 10, 10), np.float32))
    wrong = {"image": np.ones((1, 3, 10, 10), np.float32)}
    want = Reference(read(convnet())).run(wrong)
    exact = all((got[name] == want[name]).all() for name in want)
    assert edgec.check(built, inputs=wrong, tolerance=0.0).ok == exact


def test_without_onnxruntime_the_formulas_are_the_reference(
    built: edgec.Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise Unavailable("onnxruntime is not installed", hint="pip install onnxruntime")

    monkeypatch.setattr(reference, "runtime", missing)
    checked = edgec.check(built)
    assert checked.ok and checked.reference == "the graph in numpy"
    assert "onnxruntime is not installed" in checked.notes[0]


def test_code_for_another_machine_is_run_in_numpy() -> None:
    checked = edgec.check(convnet(), device="cortex_m4", samples=1)
    assert checked.ok and checked.executed_stage == "schedule" and checked.threads == ()
    assert "does not run here" in checked.notes[0]


@pytest.mark.parametrize("arguments", [{"samples": 0}, {"tolerance": -1.0}, {"threads": 4}])
def test_refused(built: edgec.Built, arguments: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        edgec.check(built, **arguments)  # type: ignore[arg-type]


def test_call_forms(built: edgec.Built) -> None:
    image = np.random.default_rng(0).standard_normal((1, 3, 10, 10)).astype(np.float32)
    a, b = built(image), built(image=image)
    assert set(a) == {"scores", "features"}
    assert all((a[name] == b[name]).all() for name in a)
    with edgec.Network(built.folder) as network:
        assert (network.run({"image": image})["scores"] == a["scores"]).all()


@pytest.mark.parametrize(
    ("arrays", "named", "message"),
    [
        ([], {}, "input 'image' is missing"),
        ([np.zeros((1, 3, 10, 9), np.float32)], {}, "expected f32[1,3,10,10]"),
        ([np.zeros((1, 3, 10, 10))], {}, "float64"),
        ([], {"picture": np.zeros(1)}, "there is no input 'picture'"),
        ([np.zeros(1), np.zeros(1)], {}, "2 arrays are given"),
        ([np.zeros(1)], {"image": np.zeros(1)}, "given twice"),
    ],
)
def test_wrong_inputs_at_run_time(
    built: edgec.Built, arrays: list[np.ndarray], named: dict[str, np.ndarray], message: str
) -> None:
    with pytest.raises((ModelError, UsageError)) as raised:
        built(*arrays, **named)
    assert message in str(raised.value)


def test_views_of_any_kind_are_taken(built: edgec.Built) -> None:
    image = np.random.default_rng(0).standard_normal((1, 10, 10, 3)).astype(np.float32).transpose(0, 3, 1, 2)
    assert (built(image)["scores"] == built(np.ascontiguousarray(image))["scores"]).all()


def test_two_networks_in_two_threads_at_once() -> None:
    networks = [edgec.build(convnet(seed, channels), threads=2, name=name)
                for seed, channels, name in ((1, 8, "one"), (2, 12, "two"))]  # fmt: skip
    image = np.random.default_rng(0).standard_normal((1, 3, 10, 10)).astype(np.float32)
    want = [n(image)["scores"] for n in networks]
    wrong: list[int] = []

    def work(k: int) -> None:
        for _ in range(300):
            if not (networks[k](image)["scores"] == want[k]).all():
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in (0, 1)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_a_temporary_build_goes_with_its_result() -> None:
    made = edgec.build(convnet(), compile=False)
    folder = made.folder
    assert (folder / "net.h").is_file()
    with pytest.raises(EdgecError, match="not compiled"):
        made(np.zeros((1, 3, 10, 10), np.float32))
    del made
    assert not folder.exists()


def test_timing_beside_onnxruntime(built: edgec.Built) -> None:
    cores = os.sched_getaffinity(0)
    benched = edgec.bench(built, vs="onnxruntime", seconds=0.05, rounds=2)
    assert os.sched_getaffinity(0) == cores
    assert benched.peer_timing is not None and benched.ratio is not None and benched.max_rel is not None
    assert benched.ratio == pytest.approx(benched.timing.median_ms / benched.peer_timing.median_ms)
    for t in (benched.timing, benched.peer_timing):
        assert 0 < t.p10_ms <= t.median_ms <= t.p90_ms and t.calls >= 6


def test_times_of_wrong_results_are_refused(built: edgec.Built, monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrong(edgec.Network):
        def bind(self, *given: Any) -> Any:
            call, outputs = super().bind(*given)
            return call, lambda: {name: value * 1.01 for name, value in outputs().items()}

    monkeypatch.setattr(latency, "Network", Wrong)
    with pytest.raises(CheckError, match="differs from onnxruntime"):
        edgec.bench(built, vs="onnxruntime", seconds=0.05)


@pytest.mark.parametrize(("value", "shape"), [(2, ()), ([2], ()), (2.0, (4,))])
def test_timing_with_a_value_for_an_input(value: object, shape: tuple[int, ...], tmp_path: Path) -> None:
    """A number stands for all elements of an input, in its type."""
    dims = [shape[0]] if shape else [1]
    inputs = [helper.make_tensor_value_info("x", 1, [3, 4]), helper.make_tensor_value_info("n", 1, dims)]
    wrong = helper.make_tensor_value_info("y", 1, [3, 4, 1])  # its rank is not that of the result
    graph = helper.make_graph([helper.make_node("Mul", ["x", "n"], ["y"])], "g", inputs, [wrong])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    benched = edgec.bench(edgec.build(model, tmp_path, values={"n": value}), vs="onnxruntime", seconds=0.01, rounds=1)
    assert benched.max_rel == 0


def test_timing_where_the_peer_takes_what_is_declared_the_first_time_alone(tmp_path: Path) -> None:
    """onnxruntime allocates an output of any rank, and refuses to write there again."""
    inputs = [helper.make_tensor_value_info("x", 1, [3, 4]), helper.make_tensor_value_info("n", 7, ["rank"])]
    wrong = helper.make_tensor_value_info("y", 1, [1, "length"])
    graph = helper.make_graph([helper.make_node("Reshape", ["x", "n"], ["y"])], "g", inputs, [wrong])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    built = edgec.build(model, tmp_path, values={"n": [2, 2, 3]}, shapes={"n": [3]})
    assert edgec.bench(built, vs="onnxruntime", seconds=0.01, rounds=1).max_rel == 0


@pytest.mark.parametrize("arguments", [{"vs": "tensorflow"}, {"rounds": 0}, {"seconds": 0.0}])
def test_timing_refused(built: edgec.Built, arguments: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        edgec.bench(built, **arguments)  # type: ignore[arg-type]


def test_load() -> None:
    loaded = edgec.load(convnet())
    assert {n: str(t) for n, t in loaded.inputs.items()} == {"image": "f32[1,3,10,10]"}
    assert list(loaded.outputs) == ["scores", "features"] and loaded.operators["Conv"] == 2
    assert edgec.build(loaded, compile=False).operators == 9
    with pytest.raises(UsageError, match="there is no option 'thread'"):
        edgec.load(convnet(), thread=2)  # type: ignore[call-arg]


def test_inputs_of_both_kinds_are_understood(tmp_path: Path) -> None:
    graph = edgec.load(convnet()).graph
    assert len(network.inputs_for(graph, {"image": np.zeros((7, 3, 10, 10), np.float32)}, 1, 0)) == 7

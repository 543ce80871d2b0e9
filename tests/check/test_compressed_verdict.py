"""The verdict on a compressed network: of its code beside the compressed graph. What compression costs is told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import edgec
from edgec.check import network
from edgec.execute.executor import Executor


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Two products [16, 64] -> [16, 512] -> [16, 8] with a rectifier between them."""
    random = np.random.default_rng(3)
    first, second = (random.standard_normal(s).astype(np.float32) / np.float32(8) for s in ((64, 512), (512, 8)))
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["h"]), helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("MatMul", ["r", "b"], ["y"]),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [16, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [16, 8])],
        [numpy_helper.from_array(first, "a"), numpy_helper.from_array(second, "b")],
    )  # fmt: skip
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    np.savez(tmp_path / "data.npz", x=random.standard_normal((20, 16, 64)).astype(np.float32))
    return path


@pytest.mark.parametrize(
    "settings",
    [
        {"quantize": "int8"}, {"quantize": "int8-dynamic"}, {"quantize": "int4-weight"},
        {"prune": "vector", "sparsity": 0.9},
    ],
    ids=lambda s: "-".join(map(str, s.values())),
)  # fmt: skip
def test_compression_costs_and_fails_nothing(model: Path, settings: dict[str, object]) -> None:
    data = model.parent / "data.npz" if settings.get("quantize") == "int8" else None
    checked = edgec.check(model, **settings, **({"calibrate": data} if data else {}))  # type: ignore[arg-type]
    assert checked.verdict == "ok" and [d.name for d in checked.compression] == ["y"]
    assert 1e-4 < checked.compression[0].max_rel < 2
    assert any("calibration data" in note for note in checked.notes) == (data is not None)


def test_a_tolerance_of_ones_own_is_beside_the_floats(model: Path) -> None:
    options = {"quantize": "int8", "calibrate": model.parent / "data.npz"}
    assert edgec.check(model, tolerance=1e-7, **options).verdict == "FAILED"  # type: ignore[arg-type]
    assert edgec.check(model, tolerance=0.5, **options).verdict == "ok"  # type: ignore[arg-type]


def test_a_float_network_has_no_cost(model: Path) -> None:
    assert edgec.check(model).compression == ()


def test_wrong_code_of_a_compressed_network_fails(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = network._executors

    def wrong(built: edgec.Built, notes: list[str]) -> tuple[dict[str, Executor], tuple[int, ...]]:
        found, threads = real(built, notes)
        return {n: lambda arrays, e=e: {k: v * 1.01 for k, v in e(arrays).items()} for n, e in found.items()}, threads

    monkeypatch.setattr(network, "_executors", wrong)
    checked = edgec.check(model, quantize="int8", calibrate=model.parent / "data.npz")
    assert checked.verdict == "FAILED" and checked.compression


def test_what_rounding_alone_makes_of_compressed_weights_is_excused(model: Path) -> None:
    """The last digits of sums, amplified: floats of another order are as far from double precision."""
    made = onnx.load(model)
    made.graph.node[-1].output[0] = "z"
    amplified = [helper.make_node("Mul", ["z", "large"], ["s"]), helper.make_node("Sin", ["s"], ["y"])]
    made.graph.node.extend(amplified)
    made.graph.initializer.append(numpy_helper.from_array(np.array(1e4, np.float32), "large"))
    onnx.save(made, model)
    checked = edgec.check(model, quantize="int4-weight")
    assert checked.verdict != "FAILED" and checked.compression
    assert max(d.max_rel for d in checked.outputs) > 1e-4, "the two agree anyway"

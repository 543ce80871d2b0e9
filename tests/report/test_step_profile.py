"""The kernels of a training step, with their times."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest
from chance import RANDOM
from small_models import model, node, tensor_input, weights

import edgec
from edgec.artifact.folder import read_lock
from edgec.cli.main import main
from edgec.errors import UsageError
from edgec.reuse import reopened_step

SGD = "sgd:lr=0.01,momentum=0.9"


def network() -> onnx.ModelProto:
    """One convolution of 9 x 9 pixels and a classifier, whose samples do not meet."""
    made = [
        node("Conv", ["x", "w"], ["c"], "conv", kernel_shape=[3, 3]),
        node("Relu", ["c"], ["r"], "relu"),
        node("ReduceMean", ["r"], ["m"], "mean", axes=[2, 3], keepdims=0),
        node("Gemm", ["m", "v"], ["y"], "classes"),
    ]
    held = {"w": RANDOM.standard_normal((6, 2, 3, 3)), "v": RANDOM.standard_normal((6, 3))}
    return model(made, [tensor_input("x", [1, 2, 9, 9])], ["y"], [weights(n, v.astype("f4")) for n, v in held.items()])


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("step") / "model.onnx"
    onnx.save(network(), path)
    return path


@pytest.fixture(scope="module")
def folder(file: Path) -> Path:
    out = file.parent / "out"
    edgec.build(file, out, loss="cross_entropy", optimizer=SGD, batch=8)
    return out


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as end:
        main(list(words))
    assert end.value.code == 0
    return capsys.readouterr().out


def test_kernels_of_a_built_step(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(printed(capsys, "profile", str(folder), "--seconds", "0.01", "--json"))
    facts = read_lock(folder)["training"]
    kernels: list[dict[str, Any]] = found["kernels"]
    assert len(kernels) == facts["kernels"]
    assert found["micro_batches"] == facts["micro_batches"] > 1
    assert {k["runs"] for k in kernels} == {1, found["micro_batches"]}, "weights change once"
    assert all(k["measured_us"] >= 0 and k["predicted_us"] > 0 for k in kernels), "all of them ran"
    assert found["step_ms"] == pytest.approx(sum(k["runs"] * k["measured_us"] for k in kernels) / 1e3)
    backward = [k for k in kernels if "conv" in k["operators"]]
    assert {k["flops"] for k in backward} and len(backward) >= 2, "forward, and of the weights"


def test_the_table_says_what_the_roofs_allow(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "profile", str(folder), "--seconds", "0.01")
    assert "of roof" in text and "kernels of a step together" in text


def test_a_model_with_a_loss(file: Path) -> None:
    found = edgec.profile(file, seconds=0.01, loss="cross_entropy", optimizer=SGD)
    assert found["micro_batches"] == 1 and found["step_ms"] > 0


def test_what_a_step_has_not(folder: Path, file: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no trace"):
        edgec.profile(folder, seconds=0.01, trace=tmp_path / "trace.json")
    with pytest.raises(UsageError, match="not timed here"):
        edgec.profile(file, seconds=0.01, loss="cross_entropy", device="cuda_sm90", compiler="emulated")


def test_another_step_is_refused(folder: Path) -> None:
    """Its functions would be called with other arguments than they take."""
    source = folder / "net_step_kernels_0.c"
    kept = source.read_bytes()
    source.write_bytes(kept + b"\n")
    try:
        with pytest.raises(UsageError, match="not the one that this edgec makes"):
            edgec.profile(folder, seconds=0.01)
    finally:
        source.write_bytes(kept)


def test_a_step_of_which_nothing_is_noted(file: Path, tmp_path: Path) -> None:
    """Built from a model in memory, its folder does not know of which file it is, and how it was trained."""
    out = tmp_path / "out"
    edgec.build(onnx.load(file), out, loss="cross_entropy", optimizer=SGD, batch=8, compile=False)
    with pytest.raises(UsageError, match="the options of its training are not noted"):
        reopened_step(out, {}, file)

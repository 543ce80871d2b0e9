"""Models that cannot be trained, and mistakes in options: each an error that says what to do."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_models import model, node, tensor_input, weights
from trained_models import convolutions, floats, linear

import edgec
from edgec.artifact.folder import read_lock
from edgec.artifact.trainer import Trainer
from edgec.check.training import batch_of
from edgec.cli.main import main
from edgec.errors import EdgecError, UsageError

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "loss": ({"loss": "crossentropy"}, "no loss 'crossentropy'"),
    "output": ({"loss": "mse:logits"}, "no output 'logits'"),
    "optimizer": ({"optimizer": "sdg"}, "no optimizer 'sdg'"),
    "parameter": ({"optimizer": "sgd:beta1=0.9"}, "sgd has no 'beta1'"),
    "number": ({"optimizer": "sgd:lr=fast"}, "lr is 'fast'"),
    "range": ({"optimizer": "sgd:momentum=1"}, "momentum is '1'"),
    "large": ({"optimizer": "sgd:lr=1e39"}, "lr is '1e39'"),
    "twice": ({"optimizer": "adamw:weight_decay=0.1,wd=0.2"}, "weight_decay is given twice"),
    "node": ({"update": "third"}, "no node 'third' with trainable weights"),
    "no node": ({"update": ","}, "no weight is to be trained"),
    "layers": ({"update": "last:0"}, "no number of layers"),
    "batch": ({"batch": 0}, "a batch of 0"),
    "accumulate": ({"accumulate": 0}, "gradients of 0 steps"),
    "rank": ({"update": "lora=0"}, "'lora=0' is no rank"),
    "device": ({"device": "host_pocl"}, "training is not written"),
    "quantize": ({"quantize": "int8-dynamic"}, "takes no --quantize"),
    "prune": ({"prune": "vector", "sparsity": 0.5}, "takes no --prune"),
}


@pytest.mark.parametrize("case", WRONG)
def test_options(case: str, tmp_path: Path) -> None:
    given, message = WRONG[case]
    with pytest.raises(EdgecError, match=message) as raised:
        edgec.build(convolutions(), tmp_path / "out", compile=False, **{"loss": "cross_entropy", **given})
    assert raised.value.hint
    assert not (tmp_path / "out").exists()


def test_options_of_training_without_a_loss() -> None:
    for given in ({"update": "bias"}, {"optimizer": "adam"}, {"batch": 2}, {"accumulate": 2}):
        with pytest.raises(UsageError, match="nothing is trained without a loss"):
            edgec.build(convolutions(), compile=False, **given)


def test_ram(tmp_path: Path) -> None:
    """A step that does not fit is refused with what is enough for a small one, and that one fits."""
    given: dict[str, Any] = {"loss": "cross_entropy", "device": "cortex_m7", "compile": False}
    with pytest.raises(UsageError, match="a training step takes") as raised:
        edgec.build(convolutions(), tmp_path / "out", ram="5k", optimizer="adam", **given)
    found = re.search(r"(\d+) bytes are enough", raised.value.hint or "")
    assert found is not None
    enough = int(found[1])
    smallest = {"update": "last:1", "optimizer": "sgd:lr=0.001", **given}
    edgec.build(convolutions(), tmp_path / "out", ram=enough, **smallest)
    with pytest.raises(UsageError, match="a training step takes") as raised:
        edgec.build(convolutions(), tmp_path / "other", ram=enough // 2, **smallest)
    assert "more than there is" in (raised.value.hint or "")


def refused(proto: Any, **given: Any) -> str:
    with pytest.raises(EdgecError) as raised:
        edgec.build(proto, compile=False, **{"loss": "mse", **given})
    return str(raised.value)


def test_models() -> None:
    x = [tensor_input("x", [2, 3])]
    assert "no trainable weight" in refused(model([node("Relu", ["x"], ["y"])]))
    assert "kind 'norm'" in refused(linear(), update="norm")
    found = [node("MatMul", ["x", "w"], ["p"]), node("NonZero", ["p"], ["y"])]
    assert "sizes that follow from data" in refused(model(found, x, ["y"], [weights("w", floats(3, 3))]))
    rounded = model([node("MatMul", ["x", "w"], ["p"]), node("Round", ["p"], ["y"], "steps")], x, ["y"],
                    [weights("w", floats(3, 2))])  # fmt: skip
    assert "no trained weight changes the output" in refused(rounded) and "steps" in refused(rounded)
    whole = model([node("MatMul", ["x", "w"], ["p"]), node("Cast", ["p"], ["y"], "cast", to=7)], x, ["y"],
                  [weights("w", floats(3, 2))])  # fmt: skip
    assert "a loss of i64" in refused(whole)
    assert "no batch of one" in refused(linear(batch=5), batch=4)
    open_batch = model([node("MatMul", ["x", "w"], ["y"])], [tensor_input("x", ["n", 3])], ["y"],
                       [weights("w", floats(3, 2))])  # fmt: skip
    assert "takes no --dim" in refused(open_batch, dims={"n": (1, 4, 1)})
    sorted_values = model(
        [node("MatMul", ["x", "w"], ["p"]), node("CumSum", ["p", "axis"], ["q"]), node("Det", ["m"], ["y"])],
        [*x, tensor_input("m", [2, 2])], ["y"], [weights("w", floats(3, 2)), weights("axis", np.array(0))],
    )  # fmt: skip
    assert "no trained weight changes the output" in refused(sorted_values)


def test_unused_weights_are_left_out(tmp_path: Path) -> None:
    """Two heads, of which the loss judges one: the other keeps its weights."""
    heads = model([node("MatMul", ["x", "w"], ["y"]), node("MatMul", ["x", "v"], ["z"])], [tensor_input("x", [2, 3])],
                  ["y", "z"], [weights("w", floats(3, 2)), weights("v", floats(3, 4))])  # fmt: skip
    built = edgec.build(heads, tmp_path / "out", compile=False, loss="mse:z")
    lock = json.loads((built.folder / "edgec.lock").read_text())
    assert lock["training"]["trained"] == "v"


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(convolutions().SerializeToString())

    def run(*words: str) -> dict[str, Any]:
        with pytest.raises(SystemExit):
            main([*words, "--json"])
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    assert "--loss" in run("train", str(path))["error"]["hint"]
    told = run("train", str(path), "--loss", "cross_entropy", "--no-compile", "-o", str(tmp_path / "out"),
               "--update", "last:1", "--optimizer", "sgd:lr=0.5,momentum=0.9")  # fmt: skip
    assert told["training"]["update"] == "last:1" and told["training"]["trained"] == "w3, b3"
    without = run("train", str(path), "--loss", "mse", "--write-onnx", str(tmp_path / "t.onnx"))
    assert "nothing is trained without data" in without["error"]["message"]
    with pytest.raises(UsageError, match="no training step"):
        edgec.Trainer(edgec.build(linear(), tmp_path / "plain", compile=False).folder)


def test_broken_locks(tmp_path: Path) -> None:
    built = edgec.build(linear(), tmp_path / "out", compile=False, loss="mse")
    lock = json.loads((built.folder / "edgec.lock").read_text())
    for broken in (
        {},
        {**lock["training"], "state_bytes": 8},
        {**lock["training"], "inputs": 3},
        {**lock["training"], "state": [{"at": "x"}]},
    ):
        (built.folder / "edgec.lock").write_text(json.dumps({**lock, "training": broken}))
        with pytest.raises(UsageError, match="lock that edgec writes"):
            edgec.load(built.folder)


def chain(layers: int = 6) -> Any:
    """Convolutions with a factor and a ReLU behind each."""
    made, held, x = [], [], "x"
    for k in range(layers):
        held += [weights(f"w{k}", floats(4, 4, 3, 3)), weights(f"s{k}", floats(1, 4, 1, 1))]
        made += [node("Conv", [x, f"w{k}"], [f"c{k}"], f"conv{k}", pads=[1, 1, 1, 1])]
        made += [node("Mul", [f"c{k}", f"s{k}"], [f"m{k}"]), node("Relu", [f"m{k}"], [f"r{k}"])]
        x = f"r{k}"
    return model(made, [tensor_input("x", [1, 4, 16, 16])], [x], held)


def test_ram_has_convolutions_computed_again(tmp_path: Path) -> None:
    """A step that does not fit is replaced by one that computes convolutions again, and learns the same."""
    given: dict[str, Any] = {"loss": "mse", "optimizer": "sgd:lr=0.001"}
    network = chain()
    edgec.build(network, tmp_path / "usual", **given)
    with pytest.raises(UsageError, match="a training step takes") as raised:
        edgec.build(network, tmp_path / "small", ram=1000, **given)
    least = re.search(r"takes (\d+) bytes", raised.value.message)
    assert least is not None
    edgec.build(network, tmp_path / "small", ram=int(least[1]), **given)
    facts = [read_lock(tmp_path / name)["training"] for name in ("usual", "small")]
    assert facts[1]["arena_bytes"] < facts[0]["arena_bytes"]
    with Trainer(tmp_path / "usual") as usual, Trainer(tmp_path / "small") as small:
        for k in range(5):
            batch = batch_of(usual, k)
            assert abs(usual.step(*batch) - small.step(*batch)) < 1e-5

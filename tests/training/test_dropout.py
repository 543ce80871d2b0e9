"""Dropout in a training step: what is dropped, by whose choice, and that both directions drop the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from small_models import model, node, tensor_input, weights
from trained_models import DEVICES, floats

import edgec
from edgec import ops
from edgec.artifact.trainer import Trainer
from edgec.check.training import check_training
from edgec.errors import UsageError
from edgec.frontend.onnx.dropout import Dropping, dropping_of, with_dropout
from edgec.frontend.onnx.model import read
from edgec.ir import evaluate
from edgec.ir.graph import Graph, placeholder
from edgec.ir.types import Type


def numbers(count: int, stream: int = 0, seed: int = 0, shape: tuple[int, ...] = (64, 500)) -> np.ndarray:
    counter = placeholder("n", Type("i32", ()))
    drawn = ops.node("random", counter, shape=shape, stream=stream, seed=seed)
    return evaluate.run(Graph((counter,), (("y", drawn),)), {"n": np.array(count, np.int32)})["y"]


def test_numbers_are_even_and_independent() -> None:
    """Means, spreads and tenths as those of even numbers; no correlation with neighbors, steps, streams or seeds."""
    base = numbers(5)
    assert base.min() >= 0 and base.max() < 1
    limit = 4 / np.sqrt(base.size)
    assert abs(base.mean() - 0.5) < limit / np.sqrt(12) and abs(base.std() * np.sqrt(12) - 1) < limit
    counts = np.histogram(base, 10, (0, 1))[0]
    assert ((counts - base.size / 10) ** 2 / (base.size / 10)).sum() < 28  # of 9 degrees: 1 in 1000 is above
    flat = base.ravel()
    others = [np.roll(flat, k) for k in (1, 2, 16, 500)]
    others += [numbers(6).ravel(), numbers(5, stream=1).ravel(), numbers(5, seed=1).ravel(), numbers(-5).ravel()]
    for other in others:
        assert abs(np.corrcoef(flat, other)[0, 1]) < limit
    assert np.array_equal(base, numbers(5))


def network(ratio: float | None = 0.25, mode: bool | None = None, opset: int = 17) -> onnx.ModelProto:
    """Two layers with a dropout of the input and one between them."""
    held = {"w1": floats(12, 40), "w2": floats(40, 3), "ratio": np.float32(0.5 if ratio is None else ratio)}
    more = [] if mode is None else ["mode"]
    if more:
        held["mode"] = np.array(mode)
    operands: Any = (lambda x: [x]) if ratio is None else (lambda x: [x, "ratio", *more])
    nodes = [
        node("Dropout", operands("x"), ["d"], "first"),
        node("MatMul", ["d", "w1"], ["p"], "product"),
        node("Relu", ["p"], ["r"], "relu"),
        node("Dropout", operands("r"), ["s", "mask"], "second"),
        node("MatMul", ["s", "w2"], ["y"], "answers"),
    ]
    initializers = [weights(n, np.asarray(v)) for n, v in held.items()]
    return model(nodes, [tensor_input("x", [6, 12])], ["y"], initializers, opset)


def built(folder: Path, proto: onnx.ModelProto, **given: Any) -> Path:
    return edgec.build(proto, folder / "out", **{"loss": "mse", "optimizer": "sgd:lr=0.1", **given}).folder


@pytest.mark.parametrize("mode", [None, False, True])
def test_right_and_only_in_the_step(mode: bool | None, tmp_path: Path) -> None:
    """Gradients and many losses beside the step's graph in numpy; answers without dropout."""
    proto = network(mode=mode)
    with Trainer(built(tmp_path, proto)) as net:
        assert check_training(net, vs=None, steps=20).ok
        x, target = floats(6, 12), floats(6, 3)
        w1, w2 = net.weights["w1"], net.weights["w2"]
        np.testing.assert_allclose(net(x), np.maximum(x @ w1, 0) @ w2, rtol=1e-5, atol=1e-6)
        losses = {net.step(x, target, learning_rate=0.0) for _ in range(8)}
        assert len(losses) == 8, "every step drops others"


@pytest.mark.parametrize("device", DEVICES, ids=["c", "cuda"])
def test_both_directions_drop_the_same(device: dict[str, Any], tmp_path: Path) -> None:
    """The step by hand: masks from the generator, gradients through them, scaled by what is kept."""
    with Trainer(built(tmp_path, network(), dropout="0.4,seed=9", **device)) as net:
        x, target = floats(6, 12), floats(6, 3)
        w1, w2 = (net.weights[n].astype(np.float64) for n in ("w1", "w2"))
        for count in range(3):
            first, second = (
                (numbers(count, k, 9, shape) >= np.float32(0.4)) / 0.6 for k, shape in enumerate([(6, 12), (6, 40)])
            )
            hidden = np.maximum((x * first) @ w1, 0) * second
            off = hidden @ w2 - target
            by = 2 * off / off.size
            slopes = (x * first).T @ ((by @ w2.T) * second * (hidden > 0)), hidden.T @ by
            loss = net.step(x, target)
            assert loss == pytest.approx((off**2).mean(), rel=1e-5)
            w1, w2 = w1 - 0.1 * slopes[0], w2 - 0.1 * slopes[1]
            np.testing.assert_allclose(net.weights["w1"], w1, rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(net.weights["w2"], w2, rtol=1e-5, atol=1e-6)
        assert net.state["dropout_steps"] == 3
        net.reset()
        assert net.state["dropout_steps"] == 0


def test_the_choice(tmp_path: Path) -> None:
    proto = network()
    folders = {text: built(tmp_path / str(k), proto, dropout=text) for k, text in enumerate(["model", "0", "0.25"])}
    x, target = floats(6, 12), floats(6, 3)
    losses = {}
    for text, folder in folders.items():
        with Trainer(folder) as net:
            losses[text] = net.step(x, target)
            assert ("dropout_steps" in net.state) == (text != "0")
    assert losses["model"] == losses["0.25"] != losses["0"]


@pytest.mark.parametrize("text", ["1", "1.5", "-0.1", "0.5,seed=x", "much", "", "0.5,", "nan"])
def test_wrong_choices(text: str) -> None:
    with pytest.raises(UsageError, match="is no part to drop"):
        dropping_of(text)


def test_texts() -> None:
    for text in ("model", "0.5", "0", "model,seed=3", "0.5,seed=12"):
        assert str(dropping_of(text)) == text


def test_ratios_of_models() -> None:
    def ratios(proto: onnx.ModelProto) -> list[float]:
        found, _ = with_dropout(read(proto), Dropping())
        return [a.f for n in found.proto.graph.node for a in n.attribute if a.name == "ratio"]

    assert ratios(network()) == [0.25, 0.25]
    assert ratios(network(None)) == [0.5, 0.5]
    assert ratios(network(0.0)) == []
    with pytest.raises(UsageError, match="a dropout of 1 of the elements"):
        with_dropout(read(network(1.0)), Dropping())
    proto = network()
    del proto.graph.initializer[2]
    proto.graph.input.append(onnx.helper.make_tensor_value_info("ratio", onnx.TensorProto.FLOAT, []))
    with pytest.raises(UsageError, match="is no constant"):
        with_dropout(read(proto), Dropping())
    assert with_dropout(read(proto), Dropping(0.5))[1] == "dropout_steps"

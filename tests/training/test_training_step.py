"""The graph of a training step: losses, optimizers, the choice of weights, and what a broken step leaves behind."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import pytest
from chance import RANDOM
from trained_models import convolutions, linear, rooted

from edgec.differentiate.losses import LOSSES
from edgec.differentiate.optimizers import Optimizer, optimizer_of
from edgec.differentiate.step import Choices, Step, training_step
from edgec.differentiate.update import trained, update_of
from edgec.frontend.onnx.importer import import_model
from edgec.frontend.onnx.model import read
from edgec.frontend.onnx.trainable import weights_of, with_inputs
from edgec.frontend.values import Value
from edgec.ir.evaluate import run
from edgec.ir.graph import Graph, placeholder
from edgec.ir.types import Type
from edgec.ir.verify import verify

Arrays = dict[str, np.ndarray]


def targets(loss: str, shape: tuple[int, ...]) -> np.ndarray:
    if LOSSES[loss].has_classes:
        return RANDOM.integers(0, shape[1], (shape[0], *shape[2:]))
    drawn = RANDOM.standard_normal(shape)
    if loss == "hinge":
        return np.sign(drawn)
    return (drawn > 0).astype(np.float64) if loss == "bce" else drawn


@pytest.mark.parametrize("shape", [(1, 1), (3, 4), (2, 5, 3)])
@pytest.mark.parametrize("loss", LOSSES)
def test_slopes_are_those_of_the_losses(loss: str, shape: tuple[int, ...]) -> None:
    """Central differences in fp64."""
    x = placeholder("x", Type("f64", shape))
    target = targets(loss, shape)
    t = placeholder("t", Type("i64" if LOSSES[loss].has_classes else "f64", target.shape))
    cost = LOSSES[loss].compute(Value(x), Value(t), 1)
    graph = Graph((x, t), (("loss", cost.loss.node), ("slope", cost.slope.node)))
    given = RANDOM.standard_normal(shape) * 2
    found = run(graph, {"x": given, "t": target})
    assert found["loss"].shape == ()
    for place in np.ndindex(shape):
        step = np.zeros(shape)
        step[place] = 1e-6
        high, low = (run(graph, {"x": given + sign * step, "t": target})["loss"] for sign in (1, -1))
        assert abs((high - low) / 2e-6 - found["slope"][place]) < 1e-7


def test_cross_entropy_of_large_answers() -> None:
    """Neither powers nor their sum overflow."""
    x, t = placeholder("x", Type("f32", (1, 3))), placeholder("t", Type("i64", (1,)))
    cost = LOSSES["cross_entropy"].compute(Value(x), Value(t), 1)
    graph = Graph((x, t), (("loss", cost.loss.node), ("slope", cost.slope.node)))
    found = run(graph, {"x": np.float32([[3e38, 0, -3e38]]), "t": np.array([1])})
    assert found["loss"] == np.float32(3e38) and np.array_equal(found["slope"], np.float32([[1, -1, 0]]))


def step_of(
    loss: str,
    optimizer: Optimizer,
    update: str = "all",
    model: onnx.ModelProto | None = None,
    accumulate: int = 1,
    at_once: bool = False,
) -> tuple[Step, Arrays]:
    """A step of a network, by default the linear one, and its states at the start."""
    parsed = read(linear() if model is None else model)
    chosen = trained(weights_of(parsed), update_of(update), "model")
    graph = import_model(with_inputs(parsed, chosen))
    names = tuple(w.name for w in chosen)
    step = training_step(graph, Choices(LOSSES[loss], optimizer, names, accumulate=accumulate, at_once=at_once))
    verify(step.graph)
    types = {str(n.attributes["name"]): n.type for n in step.graph.inputs}
    start = {name: np.zeros(types[name].shape, np.float32) for name in step.states}
    return step, {**start, **{w.name: w.value for w in chosen}}


class ByHand:
    """A linear layer under the mean squared error in fp64, with the formulas of PyTorch's documentation."""

    def __init__(self, states: Mapping[str, np.ndarray], o: Optimizer) -> None:
        self.o = o
        self.p = {name: states[name].astype(np.float64) for name in ("w", "b")}
        self.m = {name: np.zeros_like(p) for name, p in self.p.items()}
        self.v = {name: np.zeros_like(p) for name, p in self.p.items()}
        self.t = 0

    def step(self, x: np.ndarray, y: np.ndarray, rate: float) -> float:
        off = x @ self.p["w"] + self.p["b"] - y
        slope = 2 * off / off.size
        gradients = {"w": x.T @ slope, "b": slope.sum(0)}
        o, self.t = self.o, self.t + 1
        if o.clip:
            norm = np.sqrt(sum((g**2).sum() for g in gradients.values()))
            gradients = {n: g * min(1, o.clip / (norm + 1e-6)) for n, g in gradients.items()}
        for name, g in gradients.items():
            p = self.p[name]
            if o.name == "adamw":
                p = p - rate * o.weight_decay * p
            else:
                g = g + o.weight_decay * p
            if o.name == "sgd":
                self.m[name] = o.momentum * self.m[name] + g
                self.p[name] = p - rate * self.m[name]
                continue
            self.m[name] = o.beta1 * self.m[name] + (1 - o.beta1) * g
            self.v[name] = o.beta2 * self.v[name] + (1 - o.beta2) * g**2
            first, second = self.m[name] / (1 - o.beta1**self.t), self.v[name] / (1 - o.beta2**self.t)
            self.p[name] = p - rate * first / (np.sqrt(second) + o.eps)
        return float((off**2).mean())


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize(
    "text",
    ["sgd", "sgd:momentum=0.9", "sgd:momentum=0.5,weight_decay=0.1,clip=0.2", "adam", "adam:weight_decay=0.1,beta1=0.8",
     "adamw", "adamw:weight_decay=0.3,beta2=0.9,eps=1e-4,clip=100"],
)  # fmt: skip
def test_optimizers(text: str, at_once: bool) -> None:
    o = optimizer_of(text)
    step, states = step_of("mse", o, at_once=at_once)
    hand = ByHand(states, o)
    for k in range(6):
        x, y = RANDOM.standard_normal((5, 4)), RANDOM.standard_normal((5, 3))
        rate = 0.1 / (k + 1)
        given = {"x": x.astype(np.float32), "target": y.astype(np.float32), "learning_rate": np.float32(rate)}
        found = run(step.graph, {**given, **states})
        assert abs(found["loss"] - hand.step(x, y, rate)) < 1e-5
        states = {name: found[new] for name, new in step.states.items()}
    for name, p in hand.p.items():
        np.testing.assert_allclose(states[name], p, rtol=0, atol=2e-6)


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("broken", ["loss", "target"])
def test_a_broken_step_changes_nothing(broken: str, at_once: bool) -> None:
    step, states = step_of("cross_entropy", optimizer_of("adam"), at_once=at_once)
    states = {name: value + np.float32(0.125) for name, value in states.items()}
    x, target = RANDOM.standard_normal((5, 4)).astype(np.float32), RANDOM.integers(0, 3, 5)
    if broken == "loss":
        x[2, 1] = np.nan
    else:
        target[3] = RANDOM.choice([-1, 3])
    graph = Graph(step.graph.inputs, step.graph.outputs)  # without its assertion, which ends a run
    found = run(graph, {"x": x, "target": target, "learning_rate": np.float32(0.1), **states})
    for name, new in step.states.items():
        assert np.array_equal(found[new], states[name]), name


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "sgd:clip=1"])
def test_an_infinite_gradient_changes_nothing(optimizer: str) -> None:
    """The loss is finite, and one element of one gradient is not."""
    step, states = step_of("mse", optimizer_of(optimizer), model=rooted())
    states = {name: value + np.float32(0.125) for name, value in states.items()}
    given = {"target": np.zeros((1, 3), np.float32), "learning_rate": np.float32(0.1), **states}
    given["target"][0, 1] = 1
    found = run(step.graph, {**given, "x": RANDOM.standard_normal((1, 4)).astype(np.float32)})
    assert found["broken_gradients"] == 0 and any((found[new] != states[s]).any() for s, new in step.states.items())
    found = run(step.graph, {**given, "x": np.zeros((1, 4), np.float32)})
    assert np.isfinite(found["loss"]) and found["broken_gradients"] > 0
    for name, new in step.states.items():
        assert np.array_equal(found[new], states[name]), name


@pytest.mark.parametrize("optimizer", ["sgd:momentum=0.5", "adam", "adamw"])
def test_moments_at_once(optimizer: str) -> None:
    """An infinite gradient under a finite loss leaves weights as they are; moments that it breaks begin anew."""
    step, states = step_of("mse", optimizer_of(optimizer), model=rooted(), at_once=True)
    states = {name: value + np.float32(0.125) for name, value in states.items()}
    given = {"target": np.zeros((1, 3), np.float32), "learning_rate": np.float32(0.1)}
    given["target"][0, 1] = 1
    found = run(step.graph, {**given, **states, "x": np.zeros((1, 4), np.float32)})
    assert np.isfinite(found["loss"]) and found["broken_gradients"] > 0
    after = {name: found[new] for name, new in step.states.items()}
    moments = [name for name in states if name.endswith(("velocity", "first", "second"))]
    assert all(np.array_equal(after[name], states[name]) for name in set(states) - set(moments))
    assert not all(np.isfinite(after[name]).all() for name in moments)
    inputs = {**given, "x": RANDOM.standard_normal((1, 4)).astype(np.float32)}
    clean = {name: np.where(np.isfinite(a), a, 0) if name in moments else a for name, a in after.items()}
    found, wanted = run(step.graph, {**inputs, **after}), run(step.graph, {**inputs, **clean})
    assert found["broken_gradients"] == 0
    for new in step.states.values():
        assert np.isfinite(found[new]).all() and np.array_equal(found[new], wanted[new])


def test_updates_choose_weights() -> None:
    parsed = read(convolutions())
    known = weights_of(parsed)
    assert [(w.name, w.kind, w.layer) for w in known] == [
        ("w1", "weight", 0), ("scale", "norm", 0), ("shift", "norm", 0), ("w2", "weight", 1), ("b2", "bias", 1),
        ("w3", "weight", 2), ("b3", "bias", 2),
    ]  # fmt: skip

    def names(update: str) -> str:
        return " ".join(w.name for w in trained(known, update_of(update), "model"))

    assert names("all") == "w1 scale shift w2 b2 w3 b3"
    assert names("bias") == "b2 b3" and names("norm") == "scale shift"
    assert names("last:1") == "w3 b3" and names("last:2") == "w2 b2 w3 b3" and names("last:9") == names("all")
    assert names("first,classes") == "w1 w3 b3"


def test_updates_prune_the_graph() -> None:
    """No convolution goes backward where only the last layer learns, or biases behind the last convolution."""
    parsed = read(convolutions())
    counts = {}
    for update in ("all", "last:1", "bias"):
        chosen = trained(weights_of(parsed), update_of(update), "model")
        graph = import_model(with_inputs(parsed, chosen, ["g"]))
        choices = Choices(LOSSES["cross_entropy"], optimizer_of("sgd"), tuple(w.name for w in chosen))
        step = training_step(graph, choices)
        counts[update] = sum(n.op == "conv" for n in step.graph.operations())
    assert counts["last:1"] == counts["bias"] == 2
    assert counts["all"] > 4


@pytest.mark.parametrize("text", ["sgd:lr=0.1,momentum=0.9", "adam:lr=0.1,clip=0.5"])
def test_accumulated_gradients(text: str) -> None:
    """Three steps on five samples each are one on all fifteen; the steps between change no weight."""
    small = linear()
    big = onnx.ModelProto()
    big.CopyFrom(small)
    big.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 15
    parts, states = step_of("mse", optimizer_of(text), model=small, accumulate=3)
    whole, wanted = step_of("mse", optimizer_of(text), model=big)
    for _ in range(2):
        x = RANDOM.standard_normal((15, 4)).astype(np.float32)
        given = {"x": x, "target": RANDOM.standard_normal((15, 3)).astype(np.float32)}
        rate = {"learning_rate": np.float32(0.1)}
        found = run(whole.graph, {**given, **rate, **wanted})
        wanted = {name: found[new] for name, new in whole.states.items()}
        for k in range(3):
            before = states
            part = {name: array[5 * k : 5 * k + 5] for name, array in given.items()}
            found = run(parts.graph, {**part, **rate, **states})
            states = {name: found[new] for name, new in parts.states.items()}
            assert all(np.array_equal(states[n], before[n]) for n in ("w", "b")) == (k < 2)
    for name, value in wanted.items():
        np.testing.assert_allclose(states[name], value, rtol=0, atol=1e-6)
    assert states["accumulated"] == 0 and not states["w_gradient"].any()


def test_a_broken_step_between_counts_for_nothing() -> None:
    step, states = step_of("mse", optimizer_of("sgd:momentum=0.9"), accumulate=2)
    given = {"x": np.full((5, 4), np.nan, np.float32), "target": np.zeros((5, 3), np.float32)}
    found = run(step.graph, {**given, "learning_rate": np.float32(0.1), **states})
    for name, new in step.states.items():
        assert np.array_equal(found[new], states[name]), name

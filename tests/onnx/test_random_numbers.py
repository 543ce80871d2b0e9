"""Random numbers: distributions, seeds, streams, and the state that makes every run another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import edgec
from edgec.errors import ModelError
from edgec.frontend.onnx import import_model
from edgec.frontend.states import states
from edgec.ir import evaluate

F = TensorProto.FLOAT
NOTHING: Mapping[str, Any] = {}


def network(nodes: list[Any], inputs: Mapping[str, Any] = NOTHING, opset: int = 20) -> Any:
    names = [name for n in nodes for name in n.output]
    made = helper.make_model(
        helper.make_graph(
            nodes, "net",
            [helper.make_tensor_value_info(n, F, np.shape(a)) for n, a in inputs.items()],
            [helper.make_empty_tensor_value_info(n) for n in names],
            [helper.make_tensor("yes", TensorProto.BOOL, [], [True]), helper.make_tensor("r", F, [], [0.25])],
        ),
        opset_imports=[helper.make_opsetid("", opset)],
    )  # fmt: skip
    made.ir_version = 8
    return made


def run(nodes: list[Any], inputs: Mapping[str, Any] = NOTHING, step: int = 0, opset: int = 20) -> dict[str, np.ndarray]:
    given = {n: np.asarray(a, np.float32) for n, a in inputs.items()}
    graph = import_model(network(nodes, given, opset))
    return dict(evaluate.run(graph, {**given, "random_step": np.array(step, np.int32)}))


def test_distributions() -> None:
    scores = np.log(np.array([[0.2, 0.3, 0.5], [0.9, 0.1, 0.0001]]))
    found = run(
        [
            helper.make_node("RandomUniform", [], ["u"], shape=[100, 100], low=-1.0, high=3.0),
            helper.make_node(
                "RandomNormal", [], ["n"], shape=[100, 100], mean=2.0, scale=3.0, dtype=TensorProto.DOUBLE
            ),
            helper.make_node("Bernoulli", ["p"], ["b"], dtype=TensorProto.INT32),
            helper.make_node("Multinomial", ["s"], ["m"], sample_size=5000),
        ],
        {"p": np.repeat([0.0, 0.3, 1.0], 3000), "s": scores},
    )
    u, n, b = found["u"], found["n"], found["b"].reshape(3, 3000)
    assert u.min() >= -1 and u.max() <= 3 and abs(u.mean() - 1) < 0.05 and abs(u.std() - 4 / 12**0.5) < 0.05
    assert n.dtype == np.float64 and abs(n.mean() - 2) < 0.15 and abs(n.std() - 3) < 0.1
    assert abs((np.abs(n - 2) < 3).mean() - 0.683) < 0.02
    assert b.dtype == np.int32 and not b[0].any() and b[2].all() and abs(b[1].mean() - 0.3) < 0.04
    shares = [np.bincount(row, minlength=3) / 5000 for row in found["m"]]
    assert np.allclose(shares, np.exp(scores), atol=0.03)


def test_seeds_and_streams() -> None:
    def node(name: str, **seed: float) -> Any:
        return helper.make_node("RandomUniform", [], [name], shape=[50], **seed)

    nodes = [node("a"), node("b"), node("c", seed=1.0), node("d", seed=1.0), node("e", seed=2.0)]
    found, later = run(nodes), run(nodes, step=1)
    assert found["random_step_out"] == 1
    assert np.array_equal(found["c"], found["d"])
    different = [found[k] for k in "abce"] + [later[k] for k in "abce"]
    assert len({a.tobytes() for a in different}) == 8
    assert all(np.array_equal(run(nodes)[k], found[k]) for k in "abcde")


@pytest.mark.parametrize("opset", [6, 13])
def test_dropout_in_training(opset: int) -> None:
    x = np.linspace(1, 2, 4000)
    old = {"ratio": 0.25} if opset < 12 else {}
    operands = ["x"] if opset < 12 else ["x", "r", "yes"]
    found = run([helper.make_node("Dropout", operands, ["y", "m"], **old)], {"x": x}, opset=opset)
    kept = found["m"].astype(bool)
    assert abs(kept.mean() - 0.75) < 0.03
    assert np.allclose(found["y"], np.where(kept, x / 0.75, 0))


def test_a_ratio_of_one_is_refused() -> None:
    model = network([helper.make_node("Dropout", ["x", "one", "yes"], ["y"])], {"x": np.zeros(3)})
    model.graph.initializer.append(helper.make_tensor("one", F, [], [1.0]))
    with pytest.raises(ModelError, match="a dropout of 1"):
        import_model(model)


def test_code_draws_the_same_and_goes_on() -> None:
    nodes = [helper.make_node("RandomNormalLike", ["x"], ["y"])]
    x = np.zeros((4, 5), np.float32)
    network_ = edgec.build(network(nodes, {"x": x}))
    step = np.array(0, np.int32)
    for k in range(3):
        found = network_.run({"x": x, "random_step": step})
        assert np.allclose(found["y"], run(nodes, {"x": x}, k)["y"], atol=1e-5)
        step = found["random_step_out"]


def test_the_step_is_a_state_whatever_the_model_calls_its_tensors() -> None:
    nodes = [helper.make_node("RandomNormalLike", ["random_step"], ["random_step__out"])]
    graph = import_model(network(nodes, {"random_step": np.zeros(3)}))
    (loop,) = states(graph)
    assert loop.input not in ("random_step", "random_step_") and loop.initial == 0


def test_nodes_of_one_name_draw_different_numbers() -> None:
    """Names of nodes need not differ, nor those of calls of one function."""
    same = [helper.make_node("RandomUniform", [], [y], "r", shape=[9]) for y in "ab"]
    found = run(same)
    assert not np.array_equal(found["a"], found["b"])
    body = [helper.make_node("RandomUniformLike", ["x"], ["y"], "r")]
    function = helper.make_function("own", "Drawn", ["x"], ["y"], body, [helper.make_opsetid("", 20)])
    model = network([helper.make_node("Drawn", ["x"], [y], "n", domain="own") for y in "ab"], {"x": np.zeros(9)})
    model.functions.append(function)
    model.opset_import.append(helper.make_opsetid("own", 1))
    given = {"x": np.zeros(9, np.float32), "random_step": np.array(0, np.int32)}
    found = dict(evaluate.run(import_model(model), given))
    assert not np.array_equal(found["a"], found["b"])

"""The reference's own error excuses what is no farther off, where each step of the import is the reference's."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from chance import RANDOM
from onnx import TensorProto, helper, numpy_helper

import edgec
from edgec.check import bisect, network, reference_error
from edgec.check.compare import TOLERANCE
from edgec.check.judge import MOST_ROUNDING, UNSURE, Judge, OwnError
from edgec.check.reference_error import own_error, steps_agree
from edgec.execute.executor import run_graph
from edgec.execute.samples import random_inputs
from edgec.ir.graph import Graph, constant, placeholder
from edgec.ir.types import Type
from edgec.ops import node

FLOATS = np.float32


def near_half_steps(in_integers: bool) -> onnx.ModelProto:
    """A quantized product half of whose sums lie half a step from an integer, and a product in floats behind it.

    What stands in front of it cancels, so that floats go to either side, and double precision to one.
    """
    random = np.random.default_rng(0)
    weights = random.integers(-3, 4, (32, 24)).astype(np.int8)
    arrays = {
        "big": FLOATS(3000), "xs": FLOATS(0.07), "zero": np.int8(0), "w": weights, "ws": FLOATS(0.11),
        "ys": FLOATS(0.0154), "last": (0.05 * random.standard_normal((24, 16))).astype(FLOATS),
    }  # fmt: skip
    product = (
        [helper.make_node("QLinearMatMul", ["xq", "xs", "zero", "w", "ws", "zero", "ys", "zero"], ["yq"])]
        if in_integers
        else [
            helper.make_node("DequantizeLinear", ["xq", "xs", "zero"], ["xf"]),
            helper.make_node("DequantizeLinear", ["w", "ws", "zero"], ["wf"]),
            helper.make_node("MatMul", ["xf", "wf"], ["yf"]),
            helper.make_node("QuantizeLinear", ["yf", "ys", "zero"], ["yq"]),
        ]
    )
    nodes = [
        helper.make_node("Add", ["x", "big"], ["x1"]), helper.make_node("Sub", ["x1", "big"], ["x2"]),
        helper.make_node("QuantizeLinear", ["x2", "xs", "zero"], ["xq"]), *product,
        helper.make_node("DequantizeLinear", ["yq", "ys", "zero"], ["yd"]),
        helper.make_node("MatMul", ["yd", "last"], ["z"]), helper.make_node("Tanh", ["z"], ["y"]),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes, "ties", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 32])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in arrays.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("in_integers", [True, False])
def test_ties_that_the_reference_rounds_otherwise_are_no_failure(in_integers: bool) -> None:
    pytest.importorskip("onnxruntime")
    built = edgec.build(near_half_steps(in_integers))
    checked = edgec.check(built)
    (d,) = checked.outputs
    assert d.max_rel > MOST_ROUNDING  # more than rounding is taken for alone
    assert checked.verdict == "proves nothing" and checked.unproven["y"].startswith(UNSURE)
    assert str(checked).count(UNSURE) == 1


def test_an_import_that_is_wrong_has_no_excuse(monkeypatch: pytest.MonkeyPatch) -> None:
    """The graph of another network in the place of the import: another factor of the weights, ties as before."""
    pytest.importorskip("onnxruntime")
    built = edgec.build(near_half_steps(False))
    inputs = random_inputs(built.stages.graph, 0)
    _, reference = network.reference_for(built, [])
    assert own_error(built, inputs, reference(inputs)) is not None
    other = near_half_steps(False)
    factor = next(t for t in other.graph.initializer if t.name == "ws")
    factor.raw_data = FLOATS(0.1105).tobytes()
    wrong = bisect.traced(edgec.build(other))
    monkeypatch.setattr(reference_error, "traced", lambda _: wrong)
    assert own_error(built, inputs, reference(inputs)) is None


def one_step(factor: float) -> tuple[Graph, dict[str, object]]:
    x = placeholder("x", Type("f32", (4, 40)))
    middle = node("mul", x, constant(np.full((), factor, FLOATS)))
    rounded = node("round", node("mul", middle, constant(np.full((), 4, FLOATS))))
    clamped = node("max", node("min", rounded, constant(np.full((), 127, FLOATS))), constant(np.full((), -128, FLOATS)))
    code = node("cast", clamped, to="i8")
    return Graph((x,), (("m", middle), ("q", code))), {"x": x, "m": middle, "q": code}


def test_every_step_has_to_agree() -> None:
    graph, named = one_step(1.0)
    x = RANDOM.uniform(-9, 9, (4, 40)).astype(FLOATS)
    x[0, :20] = RANDOM.integers(-9, 9, 20) + FLOATS(0.125)  # half a step
    right = {"x": x, **run_graph(graph, {"x": x})}
    assert steps_agree(graph, named, right)
    ties = {**right, "q": right["q"] + np.isclose(4 * x % 1, 0.5).astype(np.int8)}
    assert (ties["q"] != right["q"]).sum() >= 20 and steps_agree(graph, named, ties)
    for k in (1, 2, 9):  # of 160 others one may be a step off, and none two
        others = right["q"].copy()
        others[1, :k] += 1
        assert steps_agree(graph, named, {**right, "q": others}) == (k == 1)
    far = right["q"].copy()
    far[1, 0] += 2
    assert not steps_agree(graph, named, {**right, "q": far})
    assert not steps_agree(*one_step(1.001), {k: right[k] for k in ("x", "m")})
    assert steps_agree(*one_step(1.00001), {k: right[k] for k in ("x", "m")})


def judged(
    got: np.ndarray, want: np.ndarray, exact: np.ndarray, rounded: np.ndarray | None = None, **options: object
) -> tuple[bool, str]:
    x = placeholder("x", Type("f32", want.shape))
    graph = Graph((x,), (("y", x),))
    own = OwnError({"y": exact}, {"y": want}, ({"y": want if rounded is None else rounded},))
    judge = Judge(graph, TOLERANCE, own_error=lambda *_: own, **options)  # type: ignore[arg-type]
    (d,) = judge.differences({"y": got}, {"y": want}, {"x": want})
    return judge.within(d), d.excused


def test_floats_may_be_twice_as_far_as_the_reference() -> None:
    exact = RANDOM.uniform(-1, 1, (4, 30))
    exact[0, 0] = 1.0
    signs = RANDOM.choice([-1, 1], exact.shape)
    want = (exact + 1e-3 * signs).astype(FLOATS)
    for off, passes in ((0.0, True), (1.9e-3, True), (2.2e-3, False)):
        assert judged((exact - off * signs).astype(FLOATS), want, exact)[0] == passes
    far = exact.copy()
    far[2] *= 1.01  # a row is off by more of its own largest value
    assert not judged(far.astype(FLOATS), want, exact)[0]
    assert judged(exact.astype(FLOATS), (exact + 0.02 * signs).astype(FLOATS), exact)[1].startswith(UNSURE)
    assert not judged(exact.astype(FLOATS), want, exact, is_usual=False)[0]


def test_rounded_numbers_may_be_as_many_and_as_far_as_the_references() -> None:
    exact = RANDOM.integers(-90, 90, (1, 400)).astype(np.int8)
    want = exact.copy()
    want[0, :10] += 3
    for count, far, passes in ((0, 0, True), (20, 6, True), (21, 3, False), (2, 7, False)):
        got = exact.copy()
        got[0, 100 : 100 + count] += np.int8(far)
        assert judged(got, want, exact, steps={"y": 1.0})[0] == passes, (count, far)


def test_a_reference_that_rounding_does_not_explain_is_no_excuse() -> None:
    exact = RANDOM.uniform(0.5, 1, (4, 30))
    signs = RANDOM.choice([-1, 1], exact.shape)
    want, got = (exact + 1e-3 * signs).astype(FLOATS), exact.astype(FLOATS)
    for far, passes in ((1e-3 / 7, True), (1e-3 / 9, False)):
        assert judged(got, want, exact, exact + far * signs)[0] == passes


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_results_that_are_no_numbers_excuse_nothing(number: float) -> None:
    want = np.linspace(0.5, 1, 40).astype(FLOATS)
    exact = want.astype(np.float64)
    others = exact.copy()
    others[0] = number
    assert not judged(100 * want, want, others)[0]
    assert not judged(100 * want, want, exact, others)[0]


def behind_a_factor(factor: float) -> onnx.ModelProto:
    """A product whose result, times a factor near 1, a sine behind it amplifies."""
    arrays = {"w": np.random.default_rng(0).standard_normal((32, 16)), "one": np.array(factor), "many": np.array(100)}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Mul", ["a", "one"], ["b"]),
        helper.make_node("Mul", ["b", "many"], ["c"]), helper.make_node("Sin", ["c"], ["y"]),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes, "amplified", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 32])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(a.astype(FLOATS), n) for n, a in arrays.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("factor", [1 + 5e-6, 1 + 5e-5])
def test_a_small_mistake_of_a_step_that_others_amplify_is_found(monkeypatch: pytest.MonkeyPatch, factor: float) -> None:
    """No step is as far off as the tolerance, and all results are what the wrong import makes."""
    pytest.importorskip("onnxruntime")
    right, wrong = edgec.build(behind_a_factor(1.0)), edgec.build(behind_a_factor(factor))
    reference = network.reference_for(right, [])
    monkeypatch.setattr(network, "reference_for", lambda *_: reference)
    monkeypatch.setattr(network, "unoptimized", lambda _: reference[1])
    monkeypatch.setattr(reference_error, "tensors_of", lambda _, inputs: bisect.tensors_of(right, inputs))
    checked = edgec.check(wrong)
    assert not checked.ok and checked.outputs[0].max_rel > 10 * TOLERANCE
    assert edgec.check(right).ok

"""Verdicts that an error in a small channel, or an output that says nothing, do not slip through."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from chance import RANDOM

import edgec
from edgec.check import network
from edgec.check.compare import TOLERANCE, TOLERANCES, tolerance_of
from edgec.check.float64 import exact_results
from edgec.check.judge import Judge, says_nothing
from edgec.check.narrow import narrow_of
from edgec.check.reference import Reference
from edgec.device.load import load_device
from edgec.execute.executor import run_graph
from edgec.frontend.language.facts import LanguageModel
from edgec.frontend.states import describe
from edgec.ir.graph import Graph, constant, placeholder
from edgec.ir.types import Type
from edgec.ops import node
from edgec.resources import data_folder

DIGITS = data_folder("apps") / "digits" / "digits.onnx"
FLOATS = np.float32


def f32(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(FLOATS)


def identity(*shape: int) -> Graph:
    x = placeholder("x", Type("f32", shape))
    return Graph((x,), (("y", node("mul", x, constant(np.ones((), FLOATS)))),))


def judged(got: np.ndarray, want: np.ndarray, **options: Any) -> bool:
    """The verdict on a network that returns its input, which is the reference's result."""
    judge = Judge(identity(*want.shape), TOLERANCE, **options)
    return all(map(judge.within, judge.differences({"y": got}, {"y": want}, {"x": want})))


@pytest.mark.parametrize("axis", [1, 2])
def test_scores_beside_boxes(axis: int) -> None:
    """Four coordinates of up to 640 pixels and scores up to 1, along any axis."""
    boxes, scores = np.abs(f32(1, 4, 50)) * 200, RANDOM.random((1, 6, 50)).astype(FLOATS)
    want = np.concatenate([boxes, scores], 1)
    wrong = want.copy()
    wrong[0, 5] += 0.03
    want, wrong = (np.ascontiguousarray(np.moveaxis(a, 1, axis)) for a in (want, wrong))
    assert np.abs(wrong - want).max() <= TOLERANCE * np.abs(want).max() * 10
    assert not judged(wrong, want)
    assert judged(want + FLOATS(1e-6) * np.abs(want), want)


def test_a_channel_that_cancels_is_no_alarm() -> None:
    want = f32(1, 8, 30)
    want[0, 3] *= 1e-7  # what is left of large terms
    got = want.copy()
    got[0, 3] += 1e-7
    assert judged(got, want)
    got[0, 3] += 1e-3
    assert not judged(got, want)


def test_single_values_and_long_axes_are_held_against_the_whole() -> None:
    want = f32(1, 10)
    want[0, 4] = 1e-6
    got = want.copy()
    got[0, 4] = 3e-6
    assert judged(got, want)


def test_a_network_that_amplifies_rounding_may_differ_as_much() -> None:
    """Differences of nearly equal numbers: floats are 1e-3 off, and so may two of them be from one another."""
    x = placeholder("x", Type("f32", (1, 64)))
    large = constant(np.full((), 3e4, FLOATS))
    graph = Graph((x,), (("y", node("sub", node("add", x, large), large)),))
    inputs = {"x": f32(1, 64)}
    exact = exact_results(graph, inputs)["y"]
    want = (inputs["x"] + FLOATS(3e4)) - FLOATS(3e4)
    own = np.abs(want - exact).max() / np.abs(exact).max()
    assert TOLERANCE < own < 1e-2 / 3
    judge = Judge(graph, TOLERANCE)
    near = (want + 2 * own * np.abs(exact).max() * RANDOM.choice([-1, 1], exact.shape)).astype(FLOATS)
    (d,) = judge.differences({"y": near}, {"y": want}, inputs)
    assert judge.within(d) and "from double precision" in d.excused
    far = (exact * 1.05).astype(FLOATS)
    assert not judge.within(judge.differences({"y": far}, {"y": want}, inputs)[0])
    strict = Judge(graph, TOLERANCE, is_usual=False)
    assert not strict.within(strict.differences({"y": near}, {"y": want}, inputs)[0])


def test_a_channel_of_rounding_alone_proves_nothing() -> None:
    """The last channel is what rounding leaves of a difference of equal numbers: no two orders of sums agree there."""
    x = placeholder("x", Type("f32", (8, 64)))
    third = node("mul", x, constant(np.full((), 1 / 3, FLOATS)))
    rest = node("sub", x, node("add", node("add", third, third), third))
    graph = Graph((x,), (("y", node("concat", x, rest, axis=0)),))
    inputs = {"x": f32(8, 64) * FLOATS(1000)}
    want = run_graph(graph, inputs)["y"]
    noise = np.abs(want[8:]).max()
    assert noise
    got = want.copy()
    got[8:] += noise
    judge = Judge(graph, 1e-8)
    (d,) = judge.differences({"y": got}, {"y": want}, inputs)
    assert d.group_rel > 0.1 and d.excused
    got[8:] += 20 * noise
    assert not judge.within(judge.differences({"y": got}, {"y": want}, inputs)[0])


def test_a_network_in_16_bits_may_differ_as_much_as_it_rounds() -> None:
    """A reference in fp32 of a graph that cancels in fp16: 2 % off, beyond the tolerance of its type."""
    x = placeholder("x", Type("f32", (1, 64)))
    large = constant(np.full((), 40.0, np.float16))
    h = node("sub", node("add", node("cast", x, to="f16"), large), large)
    graph = Graph((x,), (("y", node("cast", h, to="f32")),))
    inputs = {"x": np.clip(f32(1, 64), -0.6, 0.6)}
    rounded = ((inputs["x"].astype(np.float16) + np.float16(40)) - np.float16(40)).astype(FLOATS)
    judge = Judge(graph, tolerance_of(graph, "fp32"))
    (d,) = judge.differences({"y": rounded}, {"y": inputs["x"]}, inputs)
    assert d.max_rel > judge.tolerance and judge.within(d) and "from double precision" in d.excused
    (far,) = judge.differences({"y": inputs["x"] + FLOATS(0.06)}, {"y": inputs["x"]}, inputs)
    assert not judge.within(far)


def test_what_a_language_model_remembers_may_be_twice_as_far_off() -> None:
    """The same graph, whose output is a cache or not."""
    x = placeholder("x", Type("f32", (1, 64)))
    large = constant(np.full((), 40.0, np.float16))
    h = node("sub", node("add", node("cast", x, to="f16"), large), large)
    graph = Graph((x,), (("y", node("cast", h, to="f32")),))
    facts = LanguageModel(8, 1, 8).described()
    remembers = replace(graph, metadata={**facts, **describe({"x": ("y", np.zeros(1, FLOATS))})})
    inputs = {"x": np.clip(f32(1, 64), -0.6, 0.6)}
    for off, passes in ((0.055, True), (0.12, False)):
        for one, ok in ((graph, False), (replace(graph, metadata=facts), False), (remembers, passes)):
            judge = Judge(one, tolerance_of(one, "fp32"))
            (d,) = judge.differences({"y": inputs["x"] + FLOATS(off)}, {"y": inputs["x"]}, inputs)
            assert judge.within(d) == ok, (off, one.metadata)


def test_a_graph_that_means_something_else_is_not_excused() -> None:
    """What the graph computes exactly is no excuse: the import may be what is wrong."""
    x = placeholder("x", Type("f32", (1, 40)))
    wrong = Graph((x,), (("y", node("mul", x, constant(np.full((), 1.001, FLOATS)))),))
    inputs = {"x": f32(1, 40)}
    judge = Judge(wrong, TOLERANCE)
    (d,) = judge.differences({"y": inputs["x"] * FLOATS(1.001)}, {"y": inputs["x"]}, inputs)
    assert not judge.within(d)


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (np.full((2, 3), np.nan, FLOATS), "not a number anywhere"),
        (np.zeros((0, 4), FLOATS), "no element"),
        (np.full((5,), np.inf, FLOATS), "infinite everywhere"),
        (np.full((5,), 0.25, FLOATS), "0.25 everywhere"),
        (np.eye(4, dtype=FLOATS), "saturated"),
        (np.array([0.1, 0.9], FLOATS), ""),
        (f32(4) * FLOATS(1e-8), ""),  # an untrained network's: held against its own largest value
        (np.array([1e-9, 0, 3e-8, 0], FLOATS), ""),
        (np.array([1, 0, 1, 1], np.int64), ""),
        (np.array([np.nan, 1.0, 2.0], FLOATS), ""),
    ],
)
def test_outputs_that_say_nothing(result: np.ndarray, reason: str) -> None:
    assert reason in says_nothing([result, result]) and bool(reason) == bool(says_nothing([result]))


def test_a_saturated_network_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    built = edgec.build(DIGITS)
    gray = {"image": np.full((1, 1, 8, 8), 0.05, FLOATS)}
    usual = edgec.check(built, inputs=gray)
    assert usual.verdict == "ok" and not usual.unproven
    noise = (100 * np.random.default_rng(1).standard_normal((1, 1, 8, 8))).astype(FLOATS)
    checked = edgec.check(built, inputs={"image": noise})
    assert checked.ok and checked.verdict == "proves nothing" and checked.unproven["probabilities"]
    monkeypatch.setattr(network, "runs_here", lambda *_: False)
    assert edgec.check(built, inputs=gray).verdict == "not run"


@pytest.mark.parametrize("dtype", ["i8", "f32"])
def test_a_quantized_output_may_be_a_step_off_in_few_elements(dtype: str) -> None:
    """Integers and the real numbers that they stand for; a bias moves all of them one step.

    More of them where the reference itself is not what the formulas give: ``beside`` of its elements are a step off.
    """
    x = placeholder("x", Type(dtype, (1, 100)))
    graph = Graph((x,), (("y", x),))
    step = 1.0 if dtype == "i8" else 0.25
    want = (RANDOM.integers(-100, 100, (1, 100)) * step).astype(np.int8 if dtype == "i8" else FLOATS)
    judge = Judge(graph, TOLERANCE, steps={"y": step})

    def passes(count: int, beside: int = 0) -> bool:
        got, reference = want.copy(), want.copy()
        got[0, :count] += np.asarray(step).astype(want.dtype)
        reference[0, 100 - beside :] += np.asarray(step).astype(want.dtype)
        (d,) = judge.differences({"y": got}, {"y": reference}, {"x": want})
        assert not d.note or d.note == f"{count + beside} of 100 are a step off"
        return judge.within(d)

    assert passes(0) and passes(1)
    assert not passes(2) and not passes(5) and not passes(100)
    assert passes(0, beside=40) and passes(1, beside=40)  # the formulas themselves are as far off
    assert passes(4, beside=1) and passes(5, beside=9) and not passes(6, beside=1)
    loose = Judge(graph, TOLERANCE, steps={"y": step}, is_usual=False)
    (d,) = loose.differences({"y": want + np.asarray(step).astype(want.dtype)}, {"y": want}, {"x": want})
    assert loose.within(d)


def test_steps_that_rounding_moves_pass() -> None:
    """Numbers near half a step: a float of the graph rounds to another step than double precision says."""
    x = placeholder("x", Type("f32", (1, 64)))
    large = constant(np.full((), 3e4, FLOATS))
    rounded = node("round", node("sub", node("add", x, large), large))
    graph = Graph((x,), (("y", node("cast", node("max", node("min", rounded, f(127)), f(-128)), to="i8")),))
    inputs = {"x": (RANDOM.integers(-9, 9, (1, 64)) + 0.4999).astype(FLOATS)}
    judge = Judge(graph, TOLERANCE, steps={"y": 1.0})
    want = run_graph(graph, inputs)["y"]
    got = exact_results(graph, inputs)["y"].astype(np.int8)
    off = int((got != want).sum())
    assert off > 4
    assert all(map(judge.within, judge.differences({"y": got}, {"y": want}, inputs)))


def f(value: float) -> Any:
    return constant(np.full((), value, FLOATS))


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_a_build_in_16_bits_may_differ_as_much_as_its_network_rounds(precision: Any) -> None:
    """Beyond what always passes, four times the rounding of every value; a network that rounds little, no more."""
    x = placeholder("x", Type("f32", (1, 64)))
    fine = Graph((x,), (("y", node("mul", x, f(3))),))
    large = node("sub", node("add", x, f(12)), f(12))
    amplifies = Graph((x,), (("y", large),))
    device = replace(load_device("host"), precision=precision)
    inputs = {"x": RANDOM.uniform(-1, 1, (1, 64)).astype(FLOATS)}
    for graph, passes in ((fine, False), (amplifies, True)):
        narrow = narrow_of(graph, device, TOLERANCES[precision])
        assert narrow is not None and narrow.most == TOLERANCES[precision]
        judge = Judge(graph, narrow.least, narrow=narrow)
        want = exact_results(graph, inputs)["y"].astype(FLOATS)
        largest = np.abs(want).max()
        for off, ok in ((0.5 * narrow.least, True), (1.5 * narrow.least, passes), (1.1 * narrow.most, False)):
            got = want + (RANDOM.choice([-1, 1], want.shape) * off * largest).astype(FLOATS)
            (d,) = judge.differences({"y": got}, {"y": want}, inputs)
            assert judge.within(d) == ok
            assert ("rounding to" in d.excused) == (ok and off > narrow.least)
    assert (
        narrow_of(fine, replace(load_device("pixel_8"), precision="fp16"), TOLERANCES["fp16"]) is None
    )  # its sums are of fp16
    assert narrow_of(fine, load_device("host"), TOLERANCES["fp32"]) is None


def test_a_network_that_16_bits_are_too_few_for_fails_and_says_so() -> None:
    x = placeholder("x", Type("f32", (1, 64)))
    graph = Graph((x,), (("y", node("sub", node("add", x, f(300)), f(300))),))
    narrow = narrow_of(graph, replace(load_device("host"), precision="bf16"), TOLERANCES["bf16"])
    assert narrow is not None
    inputs = {"x": RANDOM.uniform(-1, 1, (1, 64)).astype(FLOATS)}
    want, got = run_graph(graph, inputs), run_graph(narrow.rounded(graph), inputs)
    judge = Judge(graph, narrow.least, narrow=narrow)
    (d,) = judge.differences(got, want, inputs)
    assert not judge.within(d) and "rounding to bf16 alone" in d.note
    (d,) = judge.differences({"y": want["y"] * 100}, want, inputs)
    assert not judge.within(d) and not d.note


@pytest.mark.parametrize("dtype", ["i64", "bool"])
def test_a_decision_that_no_sample_changes_proves_nothing(dtype: str) -> None:
    same = [np.array([1], dtype.replace("i64", "int64")) for _ in range(3)]
    assert "the same in every sample" in says_nothing(same)
    assert not says_nothing(same[:1]) and not says_nothing([*same, 1 - same[0]])


def test_what_the_reference_gives_without_its_optimizations_is_right() -> None:
    """Optimizations of the reference may round otherwise; what agrees with neither of its results is wrong."""
    want, x = f32(3, 5), f32(3, 5)
    plain, wrong = want * FLOATS(1.02), want * FLOATS(1.05)
    judge = Judge(identity(3, 5), TOLERANCE, plain=lambda inputs: {"y": plain})
    for got, passes in ((want, True), (plain, True), (wrong, False)):
        (d,) = judge.differences({"y": got}, {"y": want}, {"x": x})
        assert judge.within(d) == passes
        assert bool(d.excused) == (got is plain)


def test_numbers_below_all_normal_floats_do_not_differ() -> None:
    """A product of many small factors: kernels make nothing of what no normal float is."""
    want = np.full((3, 5), 7e-39, FLOATS)
    assert judged(np.zeros((3, 5), FLOATS), want)
    assert not judged(want, np.full((3, 5), 2e-37, FLOATS))


def test_check_asks_the_reference_without_its_optimizations(monkeypatch: pytest.MonkeyPatch) -> None:
    def off(self: Reference, inputs: Any, outputs: Any = None) -> Any:
        factor = FLOATS(1.05 if self.optimizes or both else 1.0)
        return {n: a * factor if a.dtype == FLOATS else a for n, a in usual(self, inputs, outputs).items()}

    usual, both = Reference.run, False
    monkeypatch.setattr(Reference, "run", off)
    found = edgec.check(DIGITS, samples=1)
    assert found.ok and any("optimizations" in o.excused for o in found.outputs)
    assert edgec.bench(DIGITS, vs="onnxruntime", seconds=0.02, rounds=1).ratio
    both = True
    assert not edgec.check(DIGITS, samples=1).ok

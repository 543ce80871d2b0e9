"""Kernels beside their formulas: what outputs hide is found, and a right network raises no alarm."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest
from small_models import model, node, tensor_input, weights

import edgec
from edgec.build import Built
from edgec.check.compare import compare
from edgec.check.lively import _flat, _lively, _passes, _wrong
from edgec.execute.kernels import Kernels, library_of


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """A network that gives the number of a class, of which no unit but one is ever more than zero on noise."""
    folder = tmp_path_factory.mktemp("decides")
    random = np.random.default_rng(3)
    bias = np.array([8, *[-9] * 7], np.float32)
    nodes = [
        node("MatMul", ["x", "w"], ["a"]), node("Add", ["a", "b"], ["c"]), node("Relu", ["c"], ["d"]),
        node("MatMul", ["d", "v"], ["e"]), node("ArgMax", ["e"], ["y"], axis=1, keepdims=0),
    ]  # fmt: skip
    constants = [("w", random.standard_normal((6, 8)) / 4), ("b", bias), ("v", random.standard_normal((8, 5)))]
    made = model(nodes, [tensor_input("x", [1, 6])], ["y"], [weights(n, a.astype(np.float32)) for n, a in constants])
    onnx.save(made, folder / "net.onnx")
    return edgec.build(folder / "net.onnx", folder / "built")


def test_a_right_network_raises_no_alarm(built: Built) -> None:
    checked = edgec.check(built)
    assert checked.ok and not any("formula" in note for note in checked.notes)


def test_weights_of_units_that_no_sample_reaches(built: Built) -> None:
    """Each sign that is turned is one weight of sixty; of most the outputs of the samples show nothing."""
    path: Path = next(built.folder.glob("*_weights.bin"))
    content = path.read_bytes()
    values = np.frombuffer(content, np.float32).copy()
    large = np.flatnonzero((np.abs(values) > 0.1) & (np.abs(values) < 2))
    found = 0
    try:
        for k in large[:: len(large) // 8]:
            wrong = values.copy()
            wrong[k] = -wrong[k]
            path.write_bytes(wrong.tobytes())
            checked = edgec.check(built)
            hidden = all(d.mismatches == 0 for d in checked.outputs)
            found += hidden and not checked.ok and "off its formula" in " ".join(checked.notes)
    finally:
        path.write_bytes(content)
    assert found >= 2


def test_noise_on_large_values_warns_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed in range(4):
            assert _lively(np.full(8, 3e38, np.float32), np.random.default_rng(seed)).shape == (8,)


@pytest.mark.parametrize("threads", [1, 4])
def test_a_softmax_of_many_raises_no_alarm(threads: int, tmp_path: Path) -> None:
    """A maximum that is moved up leaves exponentials that no kernel tells from zero, and sums of them."""
    nodes = [node("Flatten", ["x"], ["flat"]), node("Softmax", ["flat"], ["y"], axis=1)]
    made = model(nodes, [tensor_input("x", [1, 64, 56, 56])], ["y"])
    onnx.save(made, tmp_path / "net.onnx")
    notes = edgec.check(edgec.build(tmp_path / "net.onnx", tmp_path / "built", threads=threads)).notes
    assert not any("formula" in note for note in notes), notes


def test_quotients_by_exponentials_that_underflow_raise_no_alarm(tmp_path: Path) -> None:
    """As a recurrent attention divides by: 7e-39 is no normal float, and as good as nothing to a kernel."""
    nodes = [node("Exp", ["x"], ["e"]), node("Add", ["e", "c"], ["d"]), node("Div", ["a", "d"], ["y"])]
    made = model(nodes, [tensor_input(name, [32]) for name in "xca"], ["y"])
    onnx.save(made, tmp_path / "net.onnx")
    built = edgec.build(tmp_path / "net.onnx", tmp_path / "built")
    x, c, a = (np.full(32, v, np.float32) for v in (-87.86, 3.57e-40, 0.075))
    kernels = Kernels(built.program, library_of(built), built.options.name, built.options.templates)
    random = np.random.default_rng(0)
    assert not [*_wrong(built, kernels, {"x": x, "c": c, "a": a}, 1e-4, random)]


@pytest.mark.parametrize("size", [1e-9, 1e-3])
def test_weights_too_small_for_16_bits_raise_no_alarm(size: float, tmp_path: Path) -> None:
    """As those that a transform and its inverse leave of what cancels."""
    small = np.random.default_rng(1).standard_normal((40, 24)).astype(np.float32) * np.float32(size)
    nodes = [node("MatMul", ["x", "w"], ["a"]), node("Concat", ["a", "x"], ["y"], axis=1)]
    made = model(nodes, [tensor_input("x", [1, 40])], ["y"], [weights("w", small)])
    onnx.save(made, tmp_path / "net.onnx")
    built = edgec.build(tmp_path / "net.onnx", tmp_path / "built", precision="fp16")
    checked = edgec.check(built, samples=1)
    assert checked.ok and not any("formula" in note for note in checked.notes)


def test_kernels_are_those_of_the_last_build(tmp_path: Path) -> None:
    """The system's loader goes by names: a library that is built again is loaded by another."""
    for width in (6, 40):
        w = weights("w", np.random.default_rng(width).standard_normal((6, width)).astype(np.float32))
        made = model([node("MatMul", ["x", "w"], ["y"])], [tensor_input("x", [3, 6])], ["y"], [w])
        onnx.save(made, tmp_path / "net.onnx")
        checked = edgec.check(edgec.build(tmp_path / "net.onnx", tmp_path / "built"), blocks=True)
        assert checked.ok and checked.blocks and all(b.ok for b in checked.blocks)
        assert not any("formula" in note for note in checked.notes)


@pytest.mark.parametrize(("steps", "count", "passes"), [(1, 5, True), (1, 50, False), (129, 1, False), (16, 1, True)])
def test_rounded_integers_far_off_are_wrong_however_few(steps: int, count: int, passes: bool) -> None:
    """A bound that is not kept shows in the elements that reach it: 255 becomes 126."""
    want = np.full(1000, 140, np.uint8)
    got = want.copy()
    got[:count] -= steps
    assert _passes(compare("min", got, want), got, want, 1.0, 1e-4) == passes


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_small_integers_are_flat_and_reach_their_ends(dtype: type[np.number]) -> None:
    random = np.random.default_rng(5)
    drawn = [_flat(np.zeros((4, 5, 6), dtype), random) for _ in range(12)]
    along = [tuple(bool((x != x.take([0], d)).any()) for d in range(3)) for x in drawn]
    assert max(map(sum, along)) == 1 and len({*along}) >= 3
    ends = np.iinfo(dtype)
    assert all(x.dtype == dtype for x in drawn)
    assert sum(ends.min in x for x in drawn) > 3 and sum(ends.max in x for x in drawn) > 3


@pytest.mark.parametrize(
    ("dtype", "count", "passes"), [(np.int16, 40, True), (np.int16, 500, False), (np.uint8, 40, False)]
)
def test_steps_as_fine_as_rounding_may_differ_in_more_elements(dtype: type, count: int, passes: bool) -> None:
    """A step of 16 bits is 3e-5 of the largest number; what is cut off is off in half of them."""
    want = np.full(1000, np.iinfo(dtype).max - 1, dtype)
    got = want.copy()
    got[:count] += 1
    assert _passes(compare("min", got, want), got, want, 1.0, 1e-4) == passes

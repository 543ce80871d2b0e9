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
from edgec.check.lively import _lively


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

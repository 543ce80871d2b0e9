"""The demo network of digits learns from random weights."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

APP = Path(__file__).resolve().parents[2] / "apps" / "digits" / "train.py"


@pytest.fixture
def train(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module."""
    pytest.importorskip("sklearn")
    spec = importlib.util.spec_from_file_location("train", APP)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "train", module)
    spec.loader.exec_module(module)
    return module


def test_from_random_weights(train: ModuleType) -> None:
    seen, unseen, seen_labels, unseen_labels = train.data()
    rng = np.random.default_rng(3)
    begun = train.digits_network(rng)
    assert train.accuracy(begun, unseen, unseen_labels) < 0.3
    made = train.trained(begun, seen, seen_labels, rng, epochs=12)
    assert train.accuracy(train.of_one(made), unseen, unseen_labels) > 0.95


def test_it_is_the_network_that_is_here(train: ModuleType) -> None:
    made, here = train.of_one(train.digits_network(np.random.default_rng(0))), onnx.load(APP.parent / "digits.onnx")
    assert [n.op_type for n in made.graph.node] == [n.op_type for n in here.graph.node]
    shapes = [[numpy_helper.to_array(t).shape for t in m.graph.initializer] for m in (made, here)]
    assert shapes[0] == shapes[1]

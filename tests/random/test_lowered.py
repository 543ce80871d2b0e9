"""Graphs that ONNX operators become, for options drawn by their recipes, as lines of ``lowered.txt``.

That results are right is tested in ``test_operators_alone``; that a lowering computes them in another way than before
shows here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import onnx_recipes  # noqa: F401
import pytest
from kept_graphs import hold, line, same_draws
from onnx_graphs import RECIPES, Maker, alone

from edgec.errors import EdgecError
from edgec.frontend.onnx import import_model
from edgec.ir.graph import Graph

#: Operators of ONNX's own domains: those of others have cases that another seed of all tests changes.
KEYS = [key for key in sorted(RECIPES) if key[0] != "com.microsoft"]
#: Draws of each operator, and the first of them: others than those that are compared with onnxruntime.
COUNT, FIRST = 20, 1000


def graphs(key: tuple[str, str]) -> Iterator[Graph]:
    for number in range(FIRST, FIRST + COUNT):
        model = alone(key, number)
        if model is not None:
            yield import_model(model.proto())


def opened(key: tuple[str, str]) -> Iterator[Graph]:
    """Of models with a dimension that the caller chooses, where one may be another."""
    for number in range(FIRST, FIRST + COUNT // 2):
        model = alone(key, number)
        if model is None:
            continue
        found = Maker(np.random.default_rng([number, 1])).opened(model)
        if found.open:
            with suppress(EdgecError):  # some operators have no such result
                yield import_model(found.proto(), dims=dict(found.ranges))


@pytest.mark.parametrize("key", KEYS, ids=lambda key: " ".join(filter(None, key)))
def test_lowered(key: tuple[str, str], update_golden: bool) -> None:
    same_draws()
    hold(Path(__file__).with_name("lowered.txt"), [line(" ".join(filter(None, key)), graphs(key))], update_golden)


@pytest.mark.parametrize("key", KEYS, ids=lambda key: " ".join(filter(None, key)))
def test_lowered_with_an_open_dimension(key: tuple[str, str], update_golden: bool) -> None:
    same_draws()
    found = line(f"{' '.join(filter(None, key))} open", opened(key))
    hold(Path(__file__).with_name("lowered.txt"), [found], update_golden)

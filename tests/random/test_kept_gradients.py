"""Gradients of drawn graphs as graphs, as lines of ``gradients.txt``: slopes are tested elsewhere; a derivative that is
computed in another way shows here. ``pytest tests/random --update-golden`` writes the lines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kept_graphs import hold, line, same_draws
from test_kept_graphs import LARGE, drawn

from edgec.differentiate import gradients
from edgec.ir.graph import Graph

KEPT = Path(__file__).with_name("gradients.txt")
EACH, TESTS = 20, 20


def backward(graph: Graph) -> Iterator[Graph]:
    """The gradients of its last result of floats by all inputs, weighted by the result."""
    real = [n for _, n in graph.outputs if n.type.dtype == "f32" and n.type.is_fixed]
    by = [n for n in graph.inputs if n.type.dtype == "f32"]
    if real:
        found = gradients(real[-1], by, seed=real[-1])
        yield Graph(graph.inputs, tuple((n.attributes["name"], g) for n, g in zip(by, found) if g is not None))


@pytest.mark.parametrize("first", range(0, EACH * TESTS, EACH))
def test_kept_gradients(first: int, update_golden: bool) -> None:
    lines = []
    for number in range(first, first + EACH):
        same_draws()
        seed = number if number % 4 else LARGE + number  # some of them as large as those of networks
        lines.append(line(str(number), backward(drawn(seed))))
    hold(KEPT, lines, update_golden)

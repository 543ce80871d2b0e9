"""Truth values that are reduced along what is contiguous: no lanes hold their partial results."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from chance import RANDOM
from compiled import Compiled, compile_graphs
from small_graphs import graph, total, value

from edgec.execute.executor import run_graph
from edgec.ir.graph import Graph

SHAPES = {"rows": ((7, 64), (1,)), "two dimensions": ((2, 5, 40), (1, 2)), "all": ((300,), (0,))}


def test_any_and_all(tmp_path: Path) -> None:
    cases: dict[str, Graph] = {
        f"{name} {combine}": graph(total(value("x", *shape, dtype="bool"), *axes, combine=combine))
        for name, (shape, axes) in SHAPES.items() for combine in ("max", "min")
    }  # fmt: skip
    compiled = compile_graphs(cases, tmp_path)
    seen = set()
    for name, g in cases.items():
        run = compiled[name]
        assert isinstance(run, Compiled)
        for part in (0.0, 0.02, 0.98, 1.0):
            x = RANDOM.random(g.inputs[0].type.shape) < part
            want = run_graph(g, {"x": x})["y0"]
            np.testing.assert_array_equal(run({"x": x})["y0"], want)
            seen |= set(np.unique(want).tolist())
    assert seen == {True, False}

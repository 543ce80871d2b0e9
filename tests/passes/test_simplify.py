"""Behavior of simplification, one a file: a graph before and after."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgec.ir.evaluate import run
from edgec.ir.text import parse, show
from edgec.ir.types import DTYPES
from edgec.ir.verify import verify
from edgec.rewrite import simplify

FILES = sorted((Path(__file__).parent / "simplify").glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_simplify(path: Path) -> None:
    before, after = path.read_text(encoding="utf-8").split("# becomes\n")
    graph = parse(before)
    result, _ = simplify(graph)
    verify(result)
    assert show(result) == after
    random = np.random.default_rng(1)
    given = {
        n.attributes["name"]: random.uniform(0.5, 4, n.type.shape).astype(DTYPES[n.type.dtype]) for n in graph.inputs
    }
    expected, got = run(graph, given), run(result, given)
    for name in expected:
        np.testing.assert_allclose(got[name], expected[name], rtol=1e-5, atol=1e-5)


def test_there_are_pairs() -> None:
    assert len(FILES) >= 20

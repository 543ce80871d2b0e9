"""Loops of a sum that compilers are asked to unroll."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import small_graphs as g
from compiled import write_graphs

from edgec.device.load import load_device


@pytest.mark.parametrize(("columns", "is_asked"), [(16, False), (32, True)])
def test_tall_tiles_of_one_vector_stay_loops(columns: int, is_asked: bool, tmp_path: Path) -> None:
    """GCC takes many seconds for sums of thirty rows of one vector whose broadcasts have one use each."""
    x = g.relu(g.conv(g.value("x", 1, 8, 1, 4092), g.weights(16, 8, 1, 1)))
    graph = g.graph(g.relu(g.conv(x, g.weights(columns, 16, 1, 5, scale=0.1), dilation=3)))
    write_graphs({"net": graph}, tmp_path, device=load_device("x86_64_avx512"))
    text = "".join(p.read_text() for p in tmp_path.rglob("*.c"))
    assert f"N={columns} K=80" in text
    assert bool(re.search(r"#pragma GCC unroll 16\n *for \(ec_int k", text)) == is_asked

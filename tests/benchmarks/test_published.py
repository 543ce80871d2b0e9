"""The networks that DNNFusion and SmartMem counted, small: their plans compute what onnxruntime computes."""

from __future__ import annotations

import pytest

from benchmarks.fusion.counts import measure, page
from benchmarks.published.figures import NETWORKS


@pytest.mark.parametrize("name", NETWORKS)
def test_against_onnxruntime(name: str) -> None:
    row = measure(name, "generic", small=True, check=True)
    assert row.error is not None and row.is_right, (row.error, row.spread)
    assert row.kernels < row.operators
    assert f"| {name} |" in page([row], "command", "generic")

"""Ten networks of torchvision and transformers, by `from_torch` and by torch.compile: results are the module's."""

from __future__ import annotations

from argparse import Namespace

import pytest

for _package in ("torch", "onnxscript", "torchvision", "transformers"):
    pytest.importorskip(_package, reason="pip install torch onnxscript torchvision transformers")

from benchmarks.pytorch.networks import measured, networks  # noqa: E402

NETWORKS = networks()


@pytest.mark.parametrize("name", NETWORKS)
def test_right_by_both_ways(name: str) -> None:
    row = measured(name, NETWORKS[name], Namespace(threads=1, seconds=0.0, inductor=False))
    assert row.ok, row

"""Results of compiled graphs beside double precision, and their bits on several threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from compiled import compile_graphs
from small_graphs import doubled

from edgec.device.device import Device
from edgec.ir import evaluate
from edgec.ir.graph import Graph


def hold_on_threads(
    cases: Mapping[str, Graph], folder: Path, threads: Sequence[int] = (2,), device: Device | None = None
) -> None:
    """Each graph is right within 3e-6 of its largest result, and has the same bits on every number of ``threads``."""
    random = np.random.default_rng(4)
    for name, compiled in compile_graphs(cases, folder, device=device, threads=max(threads)).items():
        assert not isinstance(compiled, Exception)
        given = {
            str(n.attributes["name"]): random.uniform(-1, 1, n.type.shape).astype(np.float32)
            for n in cases[name].inputs
        }
        exact = evaluate.run(doubled(cases[name]), {k: v.astype(np.float64) for k, v in given.items()})
        got = compiled(given)
        for key, want in exact.items():
            assert np.abs(got[key] - want).max() < 3e-6 * np.abs(want).max(), name
        for count in threads:
            several = compiled(given, threads=count)
            assert all(np.array_equal(several[key], got[key]) for key in got), (name, count)

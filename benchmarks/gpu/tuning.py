"""Gain of tuning on a GPU: networks with the model's tiles, and with those that `edgec tune` found fastest.

    python -m benchmarks.gpu.tuning [--device host_pocl] [--precision fp16] [--seconds 60] [NAME ...]

Each network is tuned with a database of its own, which is empty; then both builds take turns. Milliseconds are those of
a run among many in a row, the least of all rounds; ``changed`` counts products that go another way than the model's, of
all. The differences of both from onnxruntime are there so that nobody times wrong results.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import edgec
from benchmarks.gpu.opencl import made
from edgec.schedule.variants import Variants


def milliseconds(network: Any, runs: int) -> float:
    """Of one run among so many; OpenCL's modules tell the time of enqueueing too."""
    took = network._net.milliseconds(runs)
    return float(took[0] if isinstance(took, tuple) else took)


def difference(network: edgec.Network, inputs: dict[str, np.ndarray], want: dict[str, np.ndarray]) -> float:
    """The largest, relative to the largest value of an output."""
    got = network.run(inputs)
    return max(float(np.abs(got[n].astype(np.float64) - w).max() / np.abs(w).max()) for n, w in want.items())


def compared(name: str, models: Path, folder: Path, o: argparse.Namespace) -> str:
    """A line of the table."""
    path = str(made(name, models))
    inputs, want = (dict(np.load(models / f"{name}.{what}.npz")) for what in ("in", "ref"))
    settings: dict[str, Any] = {"device": o.device, "precision": o.precision}
    os.environ["EDGEC_PROFILES"] = str(folder / f"{name}.sqlite")
    done = edgec.tune(path, o.seconds, **settings)
    plain, tuned = edgec.build(path, profiles=False, **settings), edgec.build(path, **settings)
    ways = {s: w for s, w in tuned.program.choices.items() if s.startswith("product ")}
    first = edgec.build(path, compile=False, variants={}, **settings).stages.context.variants
    assert isinstance(first, Variants)
    changed = sum(ways.get(key, product.usual) != product.usual for key, product in first.seen.items())
    networks = [edgec.Network(built.folder) for built in (plain, tuned)]
    worst = [difference(n, inputs, want) for n in networks]
    best = [float("inf")] * 2
    for _ in range(o.rounds):
        best = [min(b, milliseconds(n, o.runs)) for b, n in zip(best, networks)]
    left = f" ({done.skipped} skipped)" * (done.skipped > 0)
    return (
        f"| {name} | {changed} of {len(first.seen)} | {done.measured}{left} | {done.seconds:.0f} | {best[0]:.3f} | "
        f"{best[1]:.3f} | {best[1] / best[0]:.2f} | {worst[0]:.1e}, {worst[1]:.1e} |"
    )


def main() -> int:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("names", nargs="*", metavar="NAME", default=["dscnn_kws", "mobilenetv2_224"])
    p.add_argument("--device", default="host_pocl")
    p.add_argument("--precision", default="fp32")
    p.add_argument("--seconds", type=float, default=60.0, help="seconds a tuning may take")
    p.add_argument("--runs", type=int, default=10, help="of a network, in a row")
    p.add_argument("--rounds", type=int, default=10)
    p.add_argument("--made", type=Path, help="where networks are, or are made")
    o = p.parse_args()
    print("| network | changed | ways | tuning, s | untuned ms | tuned ms | ratio | errors |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="edgec-tuning-") as folder:
        for name in o.names:
            print(compared(name, o.made or Path(folder), Path(folder), o), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

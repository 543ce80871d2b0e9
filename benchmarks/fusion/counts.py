"""Kernels and intermediate bytes of the networks that DNNFusion and SmartMem counted, compared with their figures.

    python -m benchmarks.fusion.counts [--only NAME ...] [--small] [--check] [--write docs/results/fusion-counts.md]

The networks are written down in ``published/`` as plain ONNX with random weights, at the size the papers measured; no
other package is needed. ``--small`` takes the same graphs with fewer channels and smaller pictures, ``--check`` runs
them and compares with onnxruntime. The exit code is 1 where there are more kernels than the paper has, where the
intermediate bytes shrink by less than the bound in geometric mean, or where a result is wrong.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from math import prod
from pathlib import Path

import numpy as np
import onnx

from benchmarks.published.figures import NETWORKS, Published
from benchmarks.published.layers import Net
from benchmarks.table import geometric_mean, markdown
from edgec.execute.executor import run_program
from edgec.options import resolve
from edgec.pipeline import run
from edgec.pipeline.context import Context
from edgec.schedule.program import Program

#: Intermediate bytes shrink at least so much, in geometric mean.
BOUND = 2.9
#: Largest difference to onnxruntime over the largest value of an output, where onnxruntime agrees with itself.
TOLERANCE = 1e-4
NEWLINE = "\n"


@dataclass(frozen=True)
class Row:
    """One network: operators of its file, kernels, bytes of intermediate results before and after, planning time."""

    name: str
    published: Published
    operators: int
    kernels: int
    before: int
    after: int
    seconds: float
    #: Kernels of a build for two threads.
    kernels_on_two: int = 0
    error: float | None = None
    #: How far onnxruntime's results with and without its optimizations are apart on the same inputs: detectors with
    #: random weights make large differences of small ones.
    spread: float = 0.0

    @property
    def is_right(self) -> bool:
        return self.error is None or self.error <= max(TOLERANCE, 2 * self.spread)

    @property
    def is_met(self) -> bool:
        return self.kernels <= self.published.kernels and self.is_right

    @property
    def shrinks(self) -> float:
        return self.before / self.after

    @property
    def over_theirs(self) -> float | None:
        """Bytes after fusion over those that the paper prints; None where it prints none."""
        megabytes = self.published.megabytes
        return None if megabytes is None else self.after / 1e6 / megabytes[1]


def intermediate_bytes(net: Net) -> int:
    """Bytes that the operators of the file would write, except for the results of the network."""
    wide = (onnx.TensorProto.INT64, onnx.TensorProto.DOUBLE)
    made = {o for n in net.nodes for o in n.output} - set(net.outputs)
    return sum(prod(net.shapes[o]) * (8 if net.kinds.get(o) in wide else 4) for o in made)


def written_bytes(program: Program) -> int:
    """Bytes that kernels write for other kernels."""
    inside = [k for k in program.kernels if k.writes.space == "arena" and k.block is not None]
    return sum(k.block.output.type.bytes for k in inside if k.block is not None)


def measure(name: str, device: str = "host", small: bool = False, check: bool = False) -> Row:
    options, on_two = (resolve({"device": device, "threads": threads}) for threads in (1, 2))
    published = NETWORKS[name]
    net = published.make(**(published.small if small else {}))
    model = net.finished("".join(c if c.isalnum() else "_" for c in name)).SerializeToString()
    begun = time.perf_counter()
    program: Program = run(model, Context(options), until="schedule")["schedule"]
    seconds = time.perf_counter() - begun
    second: Program = run(model, Context(on_two), until="schedule")["schedule"]
    error, spread = differences(model, program) if check else (None, 0.0)
    before, after = intermediate_bytes(net), written_bytes(program)
    counts = len(net.nodes), len(program.kernels), before, after, seconds, len(second.kernels)
    return Row(name, published, *counts, error, spread)


def differences(model: bytes, program: Program) -> tuple[float, float]:
    """Of the planned kernels' formulas, and of optimized onnxruntime, from onnxruntime without optimizations."""
    import onnxruntime

    plain = onnxruntime.SessionOptions()
    plain.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    ways = [
        onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        for options in (plain, onnxruntime.SessionOptions())
    ]
    random = np.random.default_rng(7)
    given = {
        i.name: random.standard_normal(i.shape, np.float32)
        if i.type == "tensor(float)"
        else random.integers(0, 2, i.shape)
        for i in ways[0].get_inputs()
    }
    names = [o.name for o in ways[0].get_outputs()]
    want, again = (dict(zip(names, session.run(None, given))) for session in ways)
    got = run_program(program, given)
    return max(_off(got[n], want[n]) for n in names), max(_off(again[n], want[n]) for n in names)


def _off(got: np.ndarray, want: np.ndarray) -> float:
    if got.shape != want.shape:
        return np.inf
    if want.dtype.kind != "f":
        return float(not np.array_equal(got, want))
    return float(np.abs(got - want).max(initial=0) / np.abs(want).max(initial=np.finfo(np.float32).tiny))


def page(rows: Sequence[Row], command: str, device: str) -> str:
    heads = (
        "network", "paper", "operators", "paper's", "kernels", "on two threads", "paper's", "MB before", "MB after",
        "shrinks", "paper's MB", "MB after, over the paper's",
    )  # fmt: skip
    lines = [
        (
            row.name, row.published.paper, str(row.operators), str(row.published.operators),
            f"{row.kernels}{'' if row.is_met else ' (more)'}", str(row.kernels_on_two), str(row.published.kernels),
            f"{row.before / 1e6:.0f}", f"{row.after / 1e6:.0f}", f"{row.shrinks:.1f}x", _theirs(row.published),
            "" if row.over_theirs is None else f"{row.over_theirs:.2f}",
        )
        for row in rows
    ]  # fmt: skip
    met = sum(row.is_met for row in rows)
    more = [f"{r.name} ({r.kernels_on_two} for {r.published.kernels})" for r in rows
            if r.kernels_on_two > r.published.kernels]  # fmt: skip
    on_two = f"On two threads {', '.join(more) or 'none'} {'has' if len(more) < 2 else 'have'} more."
    known = [row.over_theirs for row in rows if row.over_theirs is not None]
    bytes_more = sum(ratio > 1 for ratio in known)
    mean = geometric_mean([row.shrinks for row in rows])
    operators = geometric_mean([row.operators / row.kernels for row in rows])
    notes = [f"* {row.name}: {row.published.note}." for row in rows if row.published.note]
    return f"""# Kernels and intermediate bytes compared with DNNFusion and SmartMem

Written by `{command}` for the device {device}.

At most the paper's number of kernels on {met} of {len(rows)} networks on one thread. {on_two} In geometric mean,
{operators:.1f} times fewer kernels than operators, and {mean:.1f} times fewer bytes of intermediate results than before
fusion. These are {geometric_mean(known):.2f} of the paper's own bytes after fusion in geometric mean, and more than
theirs on {bytes_more} of the {len(known)} networks for which they are printed: the papers count graphs of other
exporters, which differ before fusion, too.

{markdown(heads, lines, 2)}

Operators are the nodes of our files, without constants and shape arithmetic; kernels are calls of the generated code.
Before fusion every operator's result counts as written, including reshapes, as in the papers; after fusion, the values
that kernels write for other kernels. The networks are the published ones at the papers' sizes with random weights.

{NEWLINE.join(notes)}
"""


def _theirs(published: Published) -> str:
    if published.megabytes is None:
        return ""
    before, after = published.megabytes
    return f"{before} to {after}"


def main() -> int:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--only", nargs="*", default=[], metavar="NAME", help=f"of {', '.join(NETWORKS)}")
    p.add_argument("--device", default="host")
    p.add_argument("--small", action="store_true", help="the same graphs with fewer channels and smaller inputs")
    p.add_argument("--check", action="store_true", help="compare results with onnxruntime")
    p.add_argument("--write", type=Path, help="write the table to this file")
    given = p.parse_args()
    names = [n for n in NETWORKS if not given.only or any(fnmatch(n.lower(), o.lower()) for o in given.only)]
    rows = []
    for name in names:
        row = measure(name, given.device, given.small, given.check)
        rows.append(row)
        error = "" if row.error is None else f", error {row.error:.1e} (onnxruntime's own {row.spread:.1e})"
        counts = f"{row.operators} operators, {row.kernels} kernels (paper {row.published.kernels})"
        megabytes = f"{row.before / 1e6:.1f} to {row.after / 1e6:.1f} MB"
        print(f"{name}: {counts}, {megabytes}, {row.seconds:.1f} s{error}", flush=True)
    if given.write:
        words = ["python -m benchmarks.fusion.counts", *(["--small"] if given.small else [])]
        words += [f"--write {given.write}"]
        given.write.write_text(page(rows, " ".join(words), given.device), encoding="utf-8")
    shrinks = geometric_mean([row.shrinks for row in rows])
    print(f"{sum(r.is_met for r in rows)} of {len(rows)} met; intermediate bytes shrink by {shrinks:.2f}")
    return int(not all(r.is_met for r in rows) or shrinks < BOUND)


if __name__ == "__main__":
    sys.exit(main())

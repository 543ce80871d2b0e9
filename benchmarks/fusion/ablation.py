"""Gain of fusion: every network unfused, with fixed patterns, planned, and planned after rewriting, interleaved.

    python -m benchmarks.fusion.ablation build --folder DIR
    python -m benchmarks.fusion.ablation time --folder DIR
    python -m benchmarks.fusion.ablation write --write docs/results/ablation.md

Builds and times are kept in ``--cache``, so that a run can be cut into pieces. `write` exits with 1 where the planner
is less than 1.9 times as fast as unfused kernels in geometric mean, or on any network more than 3 % slower than fixed
patterns.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import sys
import time
from collections.abc import Collection, Iterable
from pathlib import Path

import numpy as np

import edgec
from benchmarks.cpu.kernels import instrument, times
from benchmarks.measure import Ours, on_cores, take_turns
from benchmarks.networks import catalog as networks
from benchmarks.networks.catalog import Network
from edgec import pipeline
from edgec.artifact.folder import read_lock
from edgec.errors import EdgecError
from edgec.execute.samples import random_inputs
from edgec.options import resolve
from edgec.pipeline.context import Context
from edgec.rewrite import simplify

#: What is compared, in the order of the columns: the mode of the planner, and whether rules rewrite first.
VARIANTS = {
    "unfused": ("none", False),
    "operators": ("operators", False),
    "fixed": ("fixed", False),
    "planner": ("planner", False),
    "planner + rules": ("planner", True),
}
#: Kernels that nothing is summed in, and runs that their share of the time is taken from.
MOVING, RUNS = ("map", "border"), 20
#: What is asked of the planner: over unfused in geometric mean, and over fixed patterns on every network.
LEAST, MOST = 1.9, 1.03


def build(network: Network, cache: Path, fresh: bool, variants: Collection[str] = tuple(VARIANTS)) -> None:
    """Every variant of a network as an artefact in the cache."""
    shapes = {**network.shapes, **{name: a.shape for name, a in given(network).items()}}
    imported = None
    for variant in variants:
        mode, rules = VARIANTS[variant]
        folder = cache / network.name / variant.replace(" + ", "_")
        if (folder / "edgec.lock").is_file() and not fresh:
            continue
        if imported is None:
            imported = pipeline.import_(str(network.path), Context(resolve({"shapes": shapes})))
        graph = simplify(imported)[0] if rules else imported
        begun = time.perf_counter()
        built = edgec.build(graph, folder, start="compress", fuse=mode, threads=2)
        seconds = time.perf_counter() - begun
        print(f"{network.name}: {variant}, {built.kernels} kernels, {seconds:.0f} s", flush=True)
    if fresh or not _clocked(cache, network.name).is_dir():
        clocked(cache / network.name / "unfused", _clocked(cache, network.name))


def clocked(folder: Path, into: Path) -> None:
    """The unfused build once more, with a clock at every kernel."""
    shutil.rmtree(into, ignore_errors=True)
    lock = read_lock(folder)
    built = shutil.ignore_patterns("*.so")
    shutil.copytree(folder, into, copy_function=os.link, ignore=built)
    instrument(into, lock["kernels"])


def reducing(folder: Path, arrays: dict[str, np.ndarray]) -> float:
    """The share of a run's time that kernels with a sum or a maximum take, of a build with clocks on one thread.

    Everything else could be fused into those, so that fusing them all would gain one over this at most, but for what
    the cache keeps of values that are never stored.
    """
    (source,) = (s for s in folder.glob("*.c") if "EC_KERNEL(0)" in s.read_text(encoding="utf-8"))
    kinds = re.findall(r"EC_KERNEL\((\d+)\);.*?_\d+_([a-z_]+)\(", source.read_text(encoding="utf-8"), re.DOTALL)
    with on_cores(1):
        ms = times(folder, arrays, 1, RUNS)
    return float(sum(ms[int(k)] for k, kind in kinds if kind not in MOVING) / ms.sum())


def given(network: Network) -> dict[str, np.ndarray]:
    if network.inputs is None:
        return {}
    with np.load(network.inputs, allow_pickle=False) as data:
        return dict(data)


def timed(network: Network, cache: Path, threads: Iterable[int], seconds: float) -> dict[str, dict[str, float]]:
    """Milliseconds of the quickest call of every variant, by number of threads."""
    folders = {v: cache / network.name / v.replace(" + ", "_") for v in VARIANTS}
    found: dict[str, dict[str, float]] = {}
    if _clocked(cache, network.name).is_dir():
        share = reducing(_clocked(cache, network.name), given(network) or _random(network))
        found["reducing"] = {"share": share}
    for count in threads:
        with on_cores(count):
            nets = {v: Ours(folder, count) for v, folder in folders.items()}
            arrays = given(network) or _random(network)
            calls = tuple(net.bind(arrays, net.results()) for net in nets.values())
            times = take_turns(calls, seconds)
            found[str(count)] = {v: min(t) * 1e3 for v, t in zip(nets, times)}
            for net in nets.values():
                net.close()
    return found


def _random(network: Network) -> dict[str, np.ndarray]:
    return random_inputs(pipeline.import_(str(network.path), Context(resolve({"shapes": network.shapes}))), 0)


def page(cache: Path, names: Iterable[str]) -> tuple[str, bool]:
    """The table in Markdown, and whether the planner is worth what is asked of it."""
    results = {
        n: json.loads(_results(cache, n).read_text(encoding="utf-8")) for n in names if _results(cache, n).is_file()
    }
    kernels = {n: [len(_kernels(cache / n / v.replace(" + ", "_"))) for v in VARIANTS] for n in results}
    lines = ["# Effect of fusion on latency", "", _INTRODUCTION]
    ok = True
    for threads in sorted({t for r in results.values() for t in r if t.isdigit()}):
        lines += ["", f"## {threads} thread{'s' * (threads != '1')}", ""]
        columns = (*(f"{v}, ms" for v in VARIANTS), "over unfused", "all but sums free", "over fixed")
        lines += [f"| network | kernels | {' | '.join(columns)} |", "|---" * (len(columns) + 2) + "|"]
        rows: list[list[float]] = []
        free: list[float] = []
        for name, result in sorted(results.items()):
            if threads not in result:
                continue
            ms = [result[threads][v] for v in VARIANTS]
            rows.append(ms)
            same = len({read_lock(cache / name / v)["files_sha256"] for v in ("fixed", "planner")}) == 1
            behind = ms[3] > ms[2] * MOST and not same
            ok = ok and not behind
            mark = " **behind fixed**" if behind else " (same code)" if same else ""
            counts = " ".join(map(str, kernels[name]))
            cells = " | ".join(f"{x:.3g}" for x in ms)
            over_unfused, over_fixed = (f"{ms[b] / ms[3]:.2f}, {ms[b] / ms[4]:.2f}" for b in (0, 2))
            free += [1 / share for share in result.get("reducing", {}).values()]
            most = f"{free[-1]:.2f}" if "reducing" in result else ""
            lines.append(f"| {name} | {counts} | {cells} | {over_unfused} | {most} | {over_fixed}{mark} |")
        lines += ["", f"Geometric means over {len(rows)} networks:", ""]
        if len(free) == len(rows):
            lines.append(f"* sums alone, everything else free: {statistics.geometric_mean(free):.3f} over unfused")
        for k, ours in list(enumerate(VARIANTS))[3:]:
            gains = [statistics.geometric_mean(ms[b] / ms[k] for ms in rows) for b in range(3)]
            told = ", ".join(f"{gain:.3f} over {base}" for gain, base in zip(gains, VARIANTS))
            lines.append(f"* {ours}: {told}")
            ok = ok and gains[0] >= LEAST
    return "\n".join(lines) + "\n", ok


_INTRODUCTION = """\
Made by `python -m benchmarks.fusion.ablation`: one back end, the same kernel templates, five ways of dividing a network
into kernels ([fusion.md](../design/fusion.md)). *Unfused* is a kernel for every core operator (`--no-fuse`).
*Operators* is a kernel for every operator of the model: a softmax is one, padding is part of its convolution, as in a
library without fusion. *Fixed* adds the patterns of frameworks, *planner* is the default; all these without rewriting.
*Planner + rules* is the default of `edgec build`. Times are minima of many calls, interleaved. "Over" gives the planner
without and with rules; "same code": fixed patterns and the planner gave the same files to the byte, and the times
differ by measurement noise.

*All but sums free* is an upper bound on the gain: the time of the unfused build over that of its reducing kernels
(convolutions, matmuls, pooling, rows), on one thread. A planner that eliminated everything else, and left these
unchanged, would gain this much. The reducing kernels are the same in all five columns, and where they are near the
machine's peak, little else is left."""


def _clocked(cache: Path, name: str) -> Path:
    return cache / name / "clocked"


def _quickest(a: dict[str, float], b: dict[str, float]) -> dict[str, float]:
    return {v: min(x, b[v]) for v, x in a.items()}


def _results(cache: Path, name: str) -> Path:
    return cache / name / "times.json"


def _kernels(folder: Path) -> range:
    return range(int(read_lock(folder)["kernels"]))


def main(arguments: list[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("what", choices=("build", "time", "write"))
    p.add_argument("--folder", type=Path, action="append", default=[], help="networks: DIR/NAME.onnx, NAME.in.npz")
    p.add_argument("--only", action="append", default=[], metavar="PATTERN", help="names; may be repeated")
    p.add_argument("--variant", action="append", choices=tuple(VARIANTS), help="build this one only; may be repeated")
    p.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    p.add_argument("--seconds", type=float, default=3.0, help="of timing, for each network and number of threads")
    p.add_argument("--cache", type=Path, default=Path("ablation"), help="where builds and times are kept")
    p.add_argument("--fresh", action="store_true", help="build or time again what is there")
    p.add_argument("--more", action="store_true", help="time again and keep the quickest calls of all runs")
    p.add_argument("--write", type=Path, metavar="FILE", help="write the tables as Markdown")
    o = p.parse_args(arguments)
    found, missing = networks.find(o.folder, o.only, download=False)
    for entry in missing:
        print(f"left out: {entry.name}: {entry.reason}", flush=True)
    for network in found if o.what != "write" else ():
        try:
            if o.what == "build":
                build(network, o.cache, o.fresh, o.variant or tuple(VARIANTS))
            elif o.fresh or o.more or not _results(o.cache, network.name).is_file():
                result = timed(network, o.cache, o.threads, o.seconds)
                if _results(o.cache, network.name).is_file() and o.more:
                    earlier = json.loads(_results(o.cache, network.name).read_text(encoding="utf-8"))
                    result = {**earlier, **{t: _quickest(r, earlier.get(t, r)) for t, r in result.items()}}
                _results(o.cache, network.name).write_text(json.dumps(result), encoding="utf-8")
                told = "; ".join(f"{t}: " + ", ".join(f"{v} {x:.3g}" for v, x in r.items()) for t, r in result.items())
                print(f"{network.name}: {told}", flush=True)
        except EdgecError as error:
            print(f"left out: {network.name}: {error}", flush=True)
    if o.what != "write":
        return 0
    text, ok = page(o.cache, [n.name for n in found])
    print(text)
    if o.write:
        o.write.write_text(text, encoding="utf-8")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())

"""Effect of rules on latency: every network compiled to C without rules and with all, timed interleaved.

    python -m benchmarks.rules.latency --folder networks --built BUILT                    # build what is not built yet
    python -m benchmarks.rules.latency --built BUILT --seconds 3 --write docs/design/rewriting.md

Builds and timing are apart, so that nothing else need run beside the timing. Every time is kept in BUILT beside its
network, so a run may time some (`--only PATTERN`), and the page shows all that are there. One thread, blocks by turns;
figures are medians, and the ratio is that of neighboring blocks, with its 10th and 90th percentile.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import edgec
from benchmarks.measure import BLOCK, PAUSE, Ours, on_cores
from benchmarks.networks import catalog as networks
from benchmarks.networks.catalog import Network
from benchmarks.table import markdown
from edgec.check.compare import compare_all, worst
from edgec.errors import EdgecError
from edgec.execute.samples import random_inputs
from edgec.frontend.onnx import import_model

BEGIN, END = "<!-- rules in time -->", "<!-- end of rules in time -->"
#: Turns each one gets at least.
LEAST = 7


def build(network: Network, folder: Path) -> str:
    """Both versions of a network in ``folder``, with one input; what they are, in a line."""
    shapes: dict[str, Any] = dict(network.shapes)
    if network.inputs is not None:
        with np.load(network.inputs) as arrays:
            shapes.update({name: arrays[name].shape for name in arrays.files})
    graph = import_model(network.path, shapes)
    begun = time.perf_counter()
    without = edgec.build(graph, folder / "without", start="compress")
    with_laws = edgec.build(graph, folder / "with", start="simplify")
    arrays = random_inputs(graph, seed=0)
    np.savez(folder / "inputs.npz", **arrays)
    facts = {"kernels": [without.kernels, with_laws.kernels], "arena": [without.arena_bytes, with_laws.arena_bytes]}
    (folder / "facts.json").write_text(json.dumps(facts) + "\n", encoding="utf-8")
    return f"{without.kernels} -> {with_laws.kernels} kernels, {time.perf_counter() - begun:.0f} s"


def measure(folder: Path, seconds: float) -> dict[str, Any]:
    """Milliseconds of both in turns, the ratio (with / without) of neighbors, and how far their results are apart."""
    with np.load(folder / "inputs.npz") as data:
        arrays = dict(data)
    with on_cores(1):
        nets = [Ours(folder / which, 1) for which in ("without", "with")]
        error = worst(compare_all(*(net.run(arrays) for net in reversed(nets)))).max_rel
        calls = [net.bind(arrays, net.results()) for net in nets]
        times: tuple[list[float], list[float]] = ([], [])
        for pair in _turns(calls, seconds):
            for kept, taken in zip(times, pair):
                kept.append(taken)
        for net in nets:
            net.close()
    ratios = [after / before for before, after in zip(*times)]
    tenths = statistics.quantiles(ratios, n=10)
    return {
        "ms": [statistics.median(t) * 1e3 for t in times],
        "ratio": [statistics.median(ratios), tenths[0], tenths[-1]],
        "error": error,
    }


def _turns(calls: list[Callable[[], None]], seconds: float) -> Iterator[list[float]]:
    """The least time of a call in a block of each, turn by turn; who begins changes."""
    for call in calls:
        call()
    end = time.perf_counter() + seconds
    rounds = 0
    while rounds < LEAST or time.perf_counter() < end:
        taken = [0.0] * len(calls)
        for k in range(len(calls)) if rounds % 2 == 0 else reversed(range(len(calls))):
            time.sleep(PAUSE)
            taken[k] = _least(calls[k])
        yield taken
        rounds += 1


def _least(call: Callable[[], None]) -> float:
    clock, least = time.perf_counter, float("inf")
    call()
    end = clock() + BLOCK
    while clock() < end:
        begun = clock()
        call()
        least = min(least, clock() - begun)
    return least if least < float("inf") else _once(call)


def _once(call: Callable[[], None]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def section(measured: Mapping[str, Mapping[str, Any]]) -> str:
    """The table, and what it amounts to."""
    rows = []
    for name, m in measured.items():
        ratio, low, high = m["ratio"]
        kernels, ms = m["kernels"], m["ms"]
        cells = [
            str(kernels[0]),
            str(kernels[1]),
            f"{ms[0]:.3g}",
            f"{ms[1]:.3g}",
            f"{ratio:.2f} ({low:.2f}-{high:.2f})",
        ]
        rows.append([name, *cells])
    mean = statistics.geometric_mean(m["ratio"][0] for m in measured.values())
    heads = ["network", "kernels without", "with", "ms without", "with", "time with / without"]
    closing = f"Geometric mean over {len(rows)} networks: {mean:.3f}."
    return f"{markdown(heads, rows)}\n\n{closing}"


def write(page: Path, text: str) -> None:
    whole = page.read_text(encoding="utf-8")
    before, begin, rest = whole.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"there is no {BEGIN} ... {END} in {page}")
    page.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")


def main() -> int:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--built", type=Path, required=True, help="where both versions of every network are kept")
    p.add_argument("--folder", type=Path, action="append", default=[], help="networks to build: every .onnx in it")
    p.add_argument("--only", action="append", default=[], metavar="PATTERN", help="networks by name")
    p.add_argument("--no-download", action="store_true", help="take the wheels that are there")
    p.add_argument("--cache", type=Path, help="where wheels and what is made of them are kept")
    p.add_argument("--seconds", type=float, default=0.0, help="of timing a network; 0 builds")
    p.add_argument("--write", type=Path, metavar="FILE", help="put the table between the markers of this page")
    options = p.parse_args()
    failed = False
    if not options.seconds and not options.write:
        trained = (*networks.TRAINED, *networks.QUANTIZED)
        found, _ = networks.find(options.folder, options.only, not options.no_download, options.cache, trained)
        for network in found:
            folder = options.built / network.name
            if not (folder / "facts.json").is_file():
                try:
                    print(f"{network.name}: {build(network, folder)}", flush=True)
                except EdgecError as error:
                    failed = True
                    print(f"{network.name}: {error}", flush=True)
    for folder in sorted(options.built.iterdir()) if options.seconds else ():
        if networks.wanted(folder.name, options.only) and (folder / "facts.json").is_file():
            with ProcessPoolExecutor(1, get_context("spawn")) as pool:
                result = pool.submit(measure, folder, options.seconds).result()
            (folder / "times.json").write_text(json.dumps(result) + "\n", encoding="utf-8")
            ms, (ratio, low, high) = result["ms"], result["ratio"]
            figures = f"{ms[0]:.4g} -> {ms[1]:.4g} ms, {ratio:.3f} ({low:.2f}-{high:.2f}), error {result['error']:.1e}"
            print(f"{folder.name}: {figures}", flush=True)
    if options.write:
        write(options.write, section(_kept(options.built)))
    return int(failed)


def _kept(built: Path) -> dict[str, dict[str, Any]]:
    """Records of all timed networks, by name."""
    found = {}
    for times in sorted(built.glob("*/times.json")):
        facts = json.loads(times.with_name("facts.json").read_text(encoding="utf-8"))
        found[times.parent.name] = {**facts, **json.loads(times.read_text(encoding="utf-8"))}
    return found


if __name__ == "__main__":
    sys.exit(main())

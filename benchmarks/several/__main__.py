"""Networks over two processes of this machine, each on one core, beside one process on one core.

    python -m benchmarks.several [--only NETWORK[:LINK[:SPLIT]] ...] [--seconds 2] [--folder FOLDER]
        [--rows ROWS.jsonl] [--again] [--write docs/results/several-devices.md]

Links are loopback, or those of network namespaces, kept at 1 Gbit (1G) and 100 Mbit (100M) a second by the kernel
(needs root). A row is written as soon as it is measured, and those that are there are kept: a run that was ended goes
on where it was. All rows take about 25 minutes on two idle cores; the machine has to do nothing else.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

import numpy as np

import edgec
from benchmarks.alone import Row, append_row, read_rows
from benchmarks.several import page
from benchmarks.several.cases import LINKS, Case, cases
from benchmarks.several.networks import NETWORKS, STATES, written
from benchmarks.several.throttle import PAYLOAD, Namespace, throttled
from edgec.artifact.folder import read_lock
from edgec.bench.built import bench_built
from edgec.distribute.bench import drawn_inputs, measure
from edgec.distribute.coordinator import Several
from edgec.distribute.manifest import Manifest, read_manifest
from edgec.distribute.start import start
from edgec.errors import EdgecError
from edgec.progress import silent

SECRET = "a secret of this benchmark"
#: Runs of the whole network and of the divided one whose outputs are compared: states differ from the second on.
COMPARED = 3
#: Turns of networks that are measured beside one another.
TURNS = 3


def measured(case: Case, folder: Path, seconds: float) -> Row:
    """One row: a network built for a link, and measured over it."""
    begun = time.perf_counter()
    path, one = written(case.network, folder), folder / f"{case.network}_one"
    states = STATES.get(case.network, {})
    if not one.is_dir():
        edgec.build(path, one, progress=silent, states=states)
    bits = LINKS[case.link]
    over = folder / case.name.replace(":", "_")

    def divided(out: Path, overlap: bool) -> Manifest:
        return edgec.build_over(
            path, out, over=["host@local"] * 2, split=case.split, goal=case.goal, force=case.split != "auto",
            link_speed=f"{bits * PAYLOAD:.0f}/0.05" if bits else None, memory=case.memory, overlap=overlap,
            progress=silent, states=states,
        ).manifest  # fmt: skip

    manifest = divided(over, True)
    waiting = None
    if case.split == "pipeline":
        with opened(over, manifest, bits, overlaps=False) as network:
            waiting = measure(network, seconds).frames_per_second
    with opened(over, manifest, bits) as network:
        inputs = drawn_inputs(network)
        error = difference(network, edgec.Network(one), inputs, states)
        alone = bench_built(one, threads=1, seconds=0.4, rounds=2, progress=silent)
        found = measure(network, seconds, inputs)
    panels = None
    if manifest.panels:
        whole = over.with_name(f"{over.name}_whole")
        panels = {
            "count": max(map(len, manifest.panels.values())), "ms_predicted": manifest.latency_s * 1e3,
            "ms_whole_predicted": divided(whole, False).latency_s * 1e3,
            **in_turns({"ms": over, "ms_whole": whole}, bits, seconds),
        }  # fmt: skip
    lock = read_lock(one)
    kept = [
        sum(p.weights_bytes + p.arena_bytes for p in manifest.parts if p.worker == k) for k in range(len(found.memory))
    ]
    return {
        "name": case.name, "network": case.network, "link": case.link, "split": case.split, "goal": case.goal,
        "memory": case.memory, "taken": manifest.split, "workers": len(manifest.workers), "verdict": manifest.verdict,
        "ms": found.timing.median_ms, "ms_predicted": manifest.latency_s * 1e3,
        "per_s": found.frames_per_second, "per_s_waiting": waiting, "per_s_predicted": 1 / manifest.period_s,
        "alone_ms": alone.timing.median_ms, "one": [lock["weights_bytes"] + lock["arena_bytes"]],
        "bytes": found.bytes_a_frame, "resident": found.memory, "kept": kept, "error": error,
        "panels": panels,
        "took_s": round(time.perf_counter() - begun, 1),
    }  # fmt: skip


def in_turns(folders: dict[str, Path], bits: float, seconds: float) -> dict[str, float]:
    """The median milliseconds of a frame alone through divided networks, which take turns; whose bits are equal."""
    times: dict[str, list[float]] = {name: [] for name in folders}
    outputs: dict[str, dict[str, np.ndarray]] = {}
    for _ in range(TURNS):
        for name, folder in folders.items():
            with opened(folder, read_manifest(folder), bits) as network:
                inputs = drawn_inputs(network)
                outputs[name] = network.run(inputs)
                times[name].append(measure(network, seconds, inputs).timing.median_ms)
    first, *others = outputs.values()
    if any(not np.array_equal(first[n], other[n]) for other in others for n in first):
        raise SystemExit(f"{' and '.join(map(str, folders.values()))} give other bits")
    return {name: median(own) for name, own in times.items()}


@contextmanager
def opened(folder: Path, manifest: Manifest, bits: float, overlaps: bool = True) -> Iterator[Several]:
    """A divided network at work, each worker on a core, over links of so many bits a second (0: loopback)."""
    with ExitStack() as stack:
        addresses = []
        for k in range(len(manifest.workers)):
            parts = [folder / p.folder for p in manifest.parts if p.worker == k]
            at = stack.enter_context(throttled(k, bits)) if bits else Namespace((), "127.0.0.1")
            worker = start(parts, SECRET.encode(), 1, k, f"worker {k}", at.address, at.within, overlaps)
            stack.callback(worker.end)
            addresses.append(worker.address)
        yield stack.enter_context(Several(folder, addresses=addresses, secret=SECRET))


def difference(network: Several, whole: edgec.Network, inputs: dict[str, np.ndarray], states: dict[str, str]) -> float:
    """The largest difference from the undivided network over the largest value, of all outputs of several runs."""
    held = {p.onnx_name: np.zeros([int(n) for n in p.shape], np.float32) for p in whole.inputs if p.onnx_name in states}
    error = 0.0
    network.reset()
    for k in range(COMPARED):
        given = {n: a if a.dtype.kind == "f" else np.full_like(a, k) for n, a in inputs.items()}
        got, want = network.run(given), whole.run({**given, **held})
        held = {old: want[new] for old, new in states.items()}
        error = max([error, *(float(np.abs(got[n] - want[n]).max() / np.abs(want[n]).max()) for n in got)])
    return error


def told(row: Row) -> str:
    """A row in a line."""
    if "refused" in row:
        return f"{row['name']}: {row['refused']}"
    return (
        f"{row['name']}: {row['taken']} on {row['workers']}, {row['ms']:.3g} ms (predicted {row['ms_predicted']:.3g}), "
        f"{row['per_s']:.4g}/s (predicted {row['per_s_predicted']:.4g}), {row['alone_ms']:.3g} ms alone, "
        f"error {row['error']:.1e}, {row['took_s']:.0f} s"
    )


def main() -> None:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument(
        "--only", nargs="+", default=[], metavar="NETWORK[:LINK[:SPLIT]]", help=f"networks: {', '.join(NETWORKS)}"
    )
    p.add_argument("--seconds", type=float, default=2.0, help="that each row is measured for (default: 2)")
    p.add_argument("--folder", type=Path, help="keep networks and builds there")
    p.add_argument("--rows", type=Path, metavar="FILE", help="JSON lines (default: beside the page, or none)")
    p.add_argument("--again", action="store_true", help="measure rows that are there again")
    p.add_argument("--write", type=Path, metavar="PAGE")
    options = p.parse_args()
    kept = options.rows or (options.write.with_suffix(".jsonl") if options.write is not None else None)
    rows = read_rows(kept) if kept is not None else {}
    with tempfile.TemporaryDirectory() as work:
        folder = options.folder or Path(work)
        folder.mkdir(parents=True, exist_ok=True)
        for case in cases(options.only):
            if case.name in rows and not options.again:
                continue
            try:
                row = measured(case, folder, options.seconds)
            except EdgecError as error:
                row = {"name": case.name, "network": case.network, "refused": str(error)}
            rows[case.name] = row | {"seconds": options.seconds}
            if kept is not None:
                append_row(kept, rows[case.name])
            print(told(row), flush=True)
    if options.write is not None:
        there = [rows[c.name] for c in cases() if c.name in rows]
        options.write.write_text(page.text(there, f"python -m benchmarks.several {shlex.join(sys.argv[1:])}"), "utf-8")


if __name__ == "__main__":
    main()

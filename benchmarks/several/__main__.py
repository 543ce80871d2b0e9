"""Networks over two processes of this machine, each on one core, beside one process on one core.

    python -m benchmarks.several [--seconds 2] [--folder FOLDER] [--write docs/results/several-devices.md] [NAME ...]

Links are loopback, or those of network namespaces, kept at 1 Gbit and 100 Mbit a second by the kernel (needs root).
"""

from __future__ import annotations

import argparse
import tempfile
from contextlib import ExitStack
from pathlib import Path

import numpy as np

import edgec
from benchmarks.several.networks import NETWORKS, written
from benchmarks.several.throttle import Namespace, throttled
from benchmarks.table import markdown
from edgec.bench.built import bench_built
from edgec.distribute.bench import drawn_inputs, measure
from edgec.distribute.coordinator import Several
from edgec.distribute.start import start
from edgec.progress import silent

LINKS = {"loopback": 0.0, "1 Gbit": 1e9, "100 Mbit": 1e8}
SPLITS = (("pipeline", "throughput"), ("rows", "latency"), ("tensor", "latency"), ("auto", "throughput"))
COLUMNS = [
    "network", "link", "asked for", "taken", "ms a frame", "predicted", "frames/s", "predicted", "x of one",
    "KiB a frame", "MiB a worker", "error",
]  # fmt: skip
PAGE = """# Several devices

Written by `python -m benchmarks.several --write docs/results/several-devices.md`, on two cores of one machine.

Two workers are processes of this machine, each kept on one core; the coordinator runs on the same two cores. Slower
links are those of network namespaces, kept at their speed by the kernel (token buckets). "x of one" is frames a second
over those of one process on one core. The error is the largest difference from that process, over the largest value.
Weights are drawn. `pipeline`, `rows` and `tensor` are forced, so rows where they lose are among them; `auto` takes one
device where it predicts no gain. That device too gets its frames from the coordinator, over the link: a slow link makes
it slower than a process that has the frames. [Boards](several-devices-simulated.md) have a page of their own. Each line
is one run of {seconds:g} s.

{table}
"""


def row(path: Path, name: str, link: str, split: str, goal: str, folder: Path, seconds: float) -> list[str]:
    """One line of the table: a network built for a link, and measured over it."""
    speed = {"link_speed": f"{LINKS[link]:.0f}/0.05"} if LINKS[link] else {}
    over = folder / f"{name}_{split}_{link.replace(' ', '_')}"
    built = edgec.build_over(
        path, over, over=["host@local"] * 2, split=split, goal=goal, force=split != "auto", progress=silent, **speed
    )
    secret = "a secret of this benchmark"
    manifest = built.manifest
    with ExitStack() as stack:
        addresses = []
        for k in range(len(manifest.workers)):
            parts = [over / p.folder for p in manifest.parts if p.worker == k]
            at = stack.enter_context(throttled(k, LINKS[link])) if LINKS[link] else Namespace((), "127.0.0.1")
            worker = start(parts, secret.encode(), 1, k, f"worker {k}", at.address, at.within)
            stack.callback(worker.end)
            addresses.append(worker.address)
        network = stack.enter_context(Several(over, addresses=addresses, secret=secret))
        inputs = drawn_inputs(network)
        whole = edgec.Network(folder / f"{name}_one")
        want, got = whole.run(inputs), network.run(inputs)
        error = max(float(np.abs(got[n] - want[n]).max() / np.abs(want[n]).max()) for n in want)
        alone = bench_built(folder / f"{name}_one", threads=1, seconds=0.5, rounds=2, progress=silent)
        found = measure(network, seconds, inputs)
    return [
        name, link, f"{split}, {goal}", f"{manifest.split} on {len(manifest.workers)}", f"{found.timing.median_ms:.3g}",
        f"{manifest.latency_s * 1e3:.3g}", f"{found.frames_per_second:.4g}", f"{1 / manifest.period_s:.4g}",
        f"{found.frames_per_second * alone.timing.median_ms * 1e-3:.2f}", f"{found.bytes_a_frame / 1024:.0f}",
        " + ".join(f"{n / (1 << 20):.0f}" for n in found.memory), f"{error:.1e}",
    ]  # fmt: skip


def main() -> None:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NETWORKS)}; all when none is given")
    p.add_argument("--seconds", type=float, default=2.0)
    p.add_argument("--folder", type=Path, help="keep networks and builds there")
    p.add_argument("--write", type=Path, metavar="FILE")
    options = p.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as work:
        folder = options.folder or Path(work)
        folder.mkdir(parents=True, exist_ok=True)
        for name in options.names or NETWORKS:
            path = written(name, folder)
            edgec.build(path, folder / f"{name}_one", progress=silent)
            for link in LINKS:
                for split, goal in SPLITS:
                    rows.append(row(path, name, link, split, goal, folder, options.seconds))
                    print(" | ".join(rows[-1]), flush=True)
    if options.write is not None:
        page = PAGE.format(seconds=options.seconds, table=markdown(COLUMNS, rows, 4))
        options.write.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()

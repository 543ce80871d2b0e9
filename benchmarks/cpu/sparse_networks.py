"""Whole networks with zero vectors, compared with their dense builds on one thread.

    python -m benchmarks.cpu.sparse_networks resnet50_224 bert_base_128 --sparsity 0.8

Weights are pruned by magnitude: what is measured is time, and the networks of make_networks.py are not trained.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from statistics import median

import edgec
from benchmarks.cpu.sparse import _guarded
from benchmarks.cpu.sparse_page import put
from benchmarks.networks import catalog as networks
from benchmarks.table import markdown
from edgec.execute.samples import random_inputs


def main(arguments: list[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("networks", nargs="*", metavar="NAME", default=["resnet50_224", "bert_base_128"])
    p.add_argument("--folder", type=Path, help="of NAME.onnx; by default where networks are kept")
    p.add_argument("--prune", default="vector")
    p.add_argument("--sparsity", type=float, default=0.8)
    p.add_argument("--turns", type=int, default=15)
    p.add_argument("--write", type=Path, help="put the table between its marks in a page")
    p.add_argument("--guard", help="a command that prints a line when the machine is ours, ended when timing is done")
    given = p.parse_args(arguments)
    rows = []
    for name in given.networks:
        found = networks.in_folder(given.folder) if given.folder else networks.find([name])
        network = next(n for n in found if n.name == name)
        dense = edgec.build(network.path, shapes=network.shapes)
        pruning = {"prune": given.prune, "sparsity": given.sparsity, "prune_by": "magnitude"}
        sparse = edgec.build(network.path, shapes=network.shapes, **pruning)  # type: ignore[arg-type]
        inputs = random_inputs(dense.stages.graph, 0)
        runs = {"dense": dense.network, "sparse": sparse.network}
        times: dict[str, list[float]] = {k: [] for k in runs}
        with _guarded(given.guard):
            for _ in range(given.turns):
                for k, run in runs.items():
                    begun = time.perf_counter()
                    run.run(inputs)
                    times[k].append(time.perf_counter() - begun)
        kernels = sum(k.template == "sparse" for k in sparse.program.kernels)
        least, ratio = {k: min(t) for k, t in times.items()}, median(a / b for a, b in zip(*times.values()))
        sizes = [f"{b.weights_bytes / 1e6:.1f}" for b in (dense, sparse)]
        cells = [f"{1e3 * least[k]:.1f}" for k in runs]
        rows.append([name, *cells, f"{least['dense'] / least['sparse']:.2f}", f"{ratio:.2f}", str(kernels), *sizes])
    heads = ["network", "dense, ms", "sparse, ms", "gain", "median gain", "sparse kernels", "weights, MB", "sparse, MB"]
    text = (
        f"`{given.prune}` at {given.sparsity:g}; the least of {given.turns} turns, and the median of their ratios.\n\n"
    )
    text += markdown(heads, rows, 1)
    print(text)
    if given.write:
        put(given.write, "networks", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Time of tuning with an empty profile database, with its own times in it, and with another network's.

    python -m benchmarks.fusion.tuning --folder DIR --only 'bert*' --only 'tinybert*' --only 'selfie*'

One line a network: seconds to tune with an empty database and again with a full one, seconds of planning with a full
one, how many blocks were measured, and how many of them networks before it had measured already. The user's own
database is left alone.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from benchmarks.networks import catalog as networks
from benchmarks.networks.catalog import Network
from edgec import pipeline
from edgec.compress import Compressed
from edgec.ir.graph import Graph
from edgec.options import Options, resolve
from edgec.pipeline.context import Context
from edgec.tune.local import Tuned, tune


@contextmanager
def database(path: Path) -> Iterator[None]:
    """Use this profile database."""
    before = os.environ.get("EDGEC_PROFILES")
    os.environ["EDGEC_PROFILES"] = str(path)
    try:
        yield
    finally:
        os.environ.pop("EDGEC_PROFILES")
        if before is not None:
            os.environ["EDGEC_PROFILES"] = before


def simplified(network: Network, options: Options) -> Graph:
    shapes = dict(network.shapes)
    if network.inputs is not None:
        with np.load(network.inputs, allow_pickle=False) as data:
            shapes |= {name: data[name].shape for name in data.files}
    context = Context(resolve({"shapes": shapes, "device": options.device}))
    return pipeline.simplify(pipeline.import_(str(network.path), context), context).graph


def planning(graph: Graph, options: Options) -> tuple[float, int]:
    """Seconds to plan, opening the database included, and how many choices that meant."""
    begun = time.perf_counter()
    plan = pipeline.fuse(Compressed(graph), Context(options))
    return time.perf_counter() - begun, len(plan.decisions.choices)


def main(arguments: list[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--folder", type=Path, action="append", default=[], help="networks: DIR/NAME.onnx, NAME.in.npz")
    p.add_argument("--only", action="append", default=[], metavar="PATTERN", help="names; may be repeated")
    p.add_argument("--seconds", type=float, default=300.0, help="seconds a tuning may take")
    p.add_argument("--device", default="host")
    o = p.parse_args(arguments)
    options = resolve({"device": o.device})
    found, _ = networks.find(o.folder, o.only, download=False)
    print("| network | empty, s | full, s | planning, s | choices | measured | known from others |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="edgec-tuning-") as folder:
        for number, network in enumerate(found):
            graph = simplified(network, options)
            with database(Path(folder, f"{number}.sqlite")):
                empty: Tuned = tune(graph, options, o.seconds)
                full = tune(graph, options, o.seconds)
                seconds, choices = planning(graph, options)
            with database(Path(folder, "shared.sqlite")):
                shared = tune(graph, options, o.seconds)
            cells = (
                f"{empty.seconds:.2f}",
                f"{full.seconds:.2f}",
                f"{seconds:.2f}",
                choices,
                empty.measured,
                shared.known,
            )
            print(f"| {network.name} | {' | '.join(map(str, cells))} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Time of planning with a warm profile database, on the published networks that have bounds.

    python -m benchmarks.fusion.planning [--only NAME ...]

Planning is what the fuse stage does: opening the database, siblings, blocks, choices, aliases. The database knows
every block that choices are about, which is what warm means; its times are the model's, since how long a look-up takes
does not depend on what is found. The exit code is 1 where a bound is exceeded.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.fusion.tuning import database, planning
from benchmarks.published.figures import NETWORKS
from edgec import pipeline
from edgec.compress import Compressed
from edgec.fuse.choice import BlockCosts
from edgec.fuse.cost_model import CostModel
from edgec.ir.graph import Graph
from edgec.options import Options, resolve
from edgec.pipeline.context import Context
from edgec.tune.database import Measured, Profiles
from edgec.tune.known import target

#: Seconds that planning may take.
BOUNDS = {"BERT-base": 5.0, "Mask R-CNN": 30.0}


def warm(graph: Graph, options: Options) -> int:
    """Put all blocks that planning asks for into the database, and tell how many there are."""
    known: dict[str, float] = {}
    while True:
        prices = BlockCosts(CostModel(options.device), known.get)
        pipeline.fuse(Compressed(graph), Context(options, prices=prices))
        if not prices.unknown:
            break
        known |= {f: prices.model(block) for f, block in prices.unknown.items()}
    where = target(options)
    Profiles().put([Measured(f, where, seconds, "by the model") for f, seconds in known.items()])
    return len(known)


def main() -> int:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--only", nargs="*", default=[], metavar="NAME", help=f"of {', '.join(NETWORKS)}")
    names = p.parse_args().only or list(BOUNDS)
    options = resolve({"device": "host"})
    print("| network | operators | import and rules, s | planning, warm, s | bound, s | choices | blocks known |")
    print("|---|---|---|---|---|---|---|")
    ok = True
    for name in names:
        net = NETWORKS[name].make()
        model = net.finished("net").SerializeToString()
        begun = time.perf_counter()
        context = Context(options)
        graph = pipeline.simplify(pipeline.import_(model, context), context).graph
        before = time.perf_counter() - begun
        with tempfile.TemporaryDirectory(prefix="edgec-planning-") as folder, database(Path(folder, "warm.sqlite")):
            known = warm(graph, options)
            seconds, choices = planning(graph, options)
        bound = BOUNDS.get(name)
        ok = ok and (bound is None or seconds <= bound)
        print(f"| {name} | {len(net.nodes)} | {before:.2f} | {seconds:.2f} | {bound or ''} | {choices} | {known} |")
    return int(not ok)


if __name__ == "__main__":
    sys.exit(main())

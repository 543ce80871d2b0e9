"""CPU seconds from import to C of models that grow: `python -m benchmarks.robustness.growth "FAMILY" SIZE...`."""

from __future__ import annotations

import argparse
import time

from benchmarks.robustness.families import EXPANDED, FAMILIES
from edgec import pipeline
from edgec.errors import EdgecError
from edgec.options import resolve
from edgec.pipeline.context import Context


def row(name: str, size: int) -> str:
    """One row of the table: family, size, nodes after expansion, CPU seconds, kernels (or the error)."""
    source, begun = FAMILIES[name](size), time.process_time()
    try:
        program = pipeline.run(source, Context(resolve({"profiles": False})))["schedule"]
        ended = f"{len(program.kernels):,}"
    except EdgecError as error:
        ended = error.message
    nodes = EXPANDED.get(name, lambda n: n)(size)
    return f"| {name} | {size:,} | {nodes:,} | {time.process_time() - begun:.2f} | {ended} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("family", choices=FAMILIES)
    parser.add_argument("sizes", type=int, nargs="+")
    given = parser.parse_args()
    for size in given.sizes:
        print(row(given.family, size), flush=True)


if __name__ == "__main__":
    main()

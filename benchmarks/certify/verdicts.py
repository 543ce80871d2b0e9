"""Verdicts on the properties of VNN-COMP: how many are decided, in how much time, with each violation run again.

`python -m benchmarks.certify.verdicts FOLDER --seconds 116 --json acasxu.json` decides the instances that a folder of
VNN-COMP lists in NAME_instances.csv (network, property, time limit); `--part 1/2` takes each second one, `--only` those
with such names. A violation counts only where the compiled code, asked once more, meets a forbidden condition inside
the box.
`python -m benchmarks.certify.verdicts --write docs/results/certify.md FILE.json...` writes the page.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from benchmarks import ROOT
from edgec import build, files
from edgec.build import Built
from edgec.certify import vnnlib
from edgec.certify.attack import inside
from edgec.certify.emitted import network_of
from edgec.certify.network import Network
from edgec.certify.properties import first_met
from edgec.certify.search import decide
from edgec.progress import silent


@dataclass(frozen=True)
class Decided:
    """The verdict on one instance; ``parts`` were bounded."""

    family: str
    network: str
    property: str
    verdict: str
    seconds: float
    parts: int
    limit: float


def instances(folder: Path) -> list[tuple[Path, Path]]:
    """Networks and properties of a folder."""
    (listed,) = folder.glob("*_instances.csv")
    with listed.open(newline="") as rows:
        return [(folder / row[0], folder / row[1]) for row in csv.reader(rows) if row]


def run(folder: Path, network: Path, property: Path, made: tuple[Network, Built], seconds: float) -> Decided:
    """The verdict on one instance: of several boxes that of the first that is violated, or else not decided."""
    net, built = made
    begun, parts, verdict = time.perf_counter(), 0, "holds"
    types = ({k: n.type for k, n in net.inputs.items()}, {k: n.type for k, n in net.outputs.items()})
    for case in vnnlib.read(property, *types):
        left = max(0.0, seconds - (time.perf_counter() - begun))
        found = decide(net, case, built.run, left, silent)
        parts += found.parts
        if found.inputs is not None:
            assert inside(case, found.inputs) and first_met(case.clauses, built.run(found.inputs)) is not None
            verdict = "violated"
            break
        verdict = found.status if verdict == "holds" else verdict
    took = time.perf_counter() - begun
    return Decided(folder.name, network.name, property.name, verdict, took, parts, seconds)


def page(rows: Sequence[Decided], facts: str) -> str:
    """The page: decided instances by family and property; ``facts`` are a sentence about the machine."""
    count = {v: sum(r.verdict == v for r in rows) for v in ("holds", "violated", "unknown")}
    given = sorted({(r.family, r.limit) for r in rows})
    commands = ", ".join(f"`python -m benchmarks.certify.verdicts {f} --processor --seconds {s:g}`" for f, s in given)
    text = f"""# Certificates

Written by `python -m benchmarks.certify.verdicts --write` from the verdicts of {commands}. The networks and properties
are those of VNN-COMP 2021 (github.com/stanleybak/vnncomp2021). Each instance had the seconds of the column `limit`; the
competition gives 116 and more. {facts}

A verdict is of the compiled code: "holds" counts the rounding of fp32 with sums in any order, and each violation was
run in the code. "Parts" are boxes or combinations of choices that were bounded.

{len(rows)} instances: {count["holds"]} hold, {count["violated"]} are violated, {count["unknown"]} are not decided.

| family | property | limit | instances | hold | violated | unknown | median seconds | most seconds | most parts |
|---|---|---:|---:|---:|---:|---:|---:|---:|---:|
"""
    groups: dict[tuple[str, str], list[Decided]] = {}
    for r in rows:
        distance = re.search(r"eps_?([\d.]+\d)", r.property)
        last = distance[1] if distance else r.property.rsplit("_", 1)[-1]
        key = r.property if r.family == "acasxu" else f"{Path(r.network).stem}, {last}"
        groups.setdefault((r.family, key.removesuffix(".vnnlib")), []).append(r)
    for (family, name), group in sorted(groups.items(), key=lambda item: _natural(item[0])):
        each = " | ".join(str(sum(r.verdict == v for r in group)) for v in ("holds", "violated", "unknown"))
        seconds = [r.seconds for r in group]
        limit = " or ".join(f"{s:g}" for s in sorted({r.limit for r in group}))
        text += f"| {family} | {name} | {limit} | {len(group)} | {each} | {median(seconds):.1f} | {max(seconds):.1f} "
        text += f"| {max(r.parts for r in group):,} |\n"
    return text


def _natural(key: tuple[str, str]) -> list[object]:
    return [(0, int(t)) if t.isdigit() else (1, t) for t in re.split(r"(\d+)", " ".join(key)) if t]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("given", nargs="+", type=Path, help="folders of VNN-COMP; with --write, files of --json")
    parser.add_argument("--seconds", type=float, default=116.0)
    parser.add_argument("--part", default="1/1", help="K/N: each N-th instance from the K-th on")
    parser.add_argument("--only", default="", help="a regular expression that NETWORK PROPERTY is searched for")
    parser.add_argument("--processor", action="store_true", help="seconds are those of the processor, not of a clock")
    parser.add_argument("--json", type=Path, help="the file of verdicts")
    parser.add_argument("--facts", default="", help="with --write, a sentence about the machine")
    parser.add_argument("--write", type=Path, help="the page, from files of verdicts")
    asked = parser.parse_args()
    if asked.write is not None:
        rows = [Decided(**row) for path in asked.given for row in json.loads(path.read_text())]
        files.replace(ROOT / asked.write, page(rows, asked.facts))
        return
    if asked.processor:  # for a machine with other work on it; numpy is to have one thread
        time.perf_counter = time.process_time
    first, step = map(int, asked.part.split("/"))
    made: dict[Path, tuple[Network, Built]] = {}
    rows = []
    for folder in asked.given:
        listed = [pair for pair in instances(folder) if re.search(asked.only, " ".join(p.name for p in pair))]
        for network, property in listed[first - 1 :: step]:
            if network not in made:
                built = build(network)
                made = {network: (network_of(built.stages.plan, built.program, built.options, any_order=True), built)}
            rows.append(run(folder, network, property, made[network], asked.seconds))
            r = rows[-1]
            print(f"{r.network} {r.property} {r.verdict} {r.seconds:.1f} s, {r.parts:,} parts", flush=True)
            if asked.json is not None:
                files.replace(asked.json, json.dumps([asdict(row) for row in rows]))


if __name__ == "__main__":
    main()

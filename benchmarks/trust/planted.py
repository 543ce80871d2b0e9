"""Planted faults: which of them does `edgec check` find?

    python -m benchmarks.trust.planted [--each 10] [--seed 1] [--only PATTERN] [--again]

Every network of `cases.py` is built and checked as it is, where any alarm is a false one. Then faults are planted in
copies of it, one at a time, by `faults.py`: each copy is compiled and checked in a process of its own. A fault that
leaves all results what they were, on inputs that the check does not draw, is no fault and is drawn anew. What was found
is a line of planted.jsonl in the cache folder, and a run goes on after the last line.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import shutil
import sys
import tempfile
import zlib
from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import edgec
from benchmarks.alone import Row, append_row, read_rows, write
from benchmarks.networks.catalog import models_folder
from benchmarks.networks.real_inputs import real_input
from benchmarks.networks.wheels import Unreachable
from benchmarks.trust.cases import CASES, Case
from benchmarks.trust.covering import default_folder
from benchmarks.trust.faults import KINDS, plan
from edgec.artifact.compile import compile_library
from edgec.artifact.network import Network
from edgec.build import Built
from edgec.check.compare import quantized_outputs
from edgec.device import toolchain
from edgec.device.toolchain import pick_compiler
from edgec.errors import ToolchainError
from edgec.execute.samples import random_inputs

ROWS = "planted.jsonl"
#: Draws of a fault that changes something, and seconds of one.
DRAWS, PATIENCE = 3, 300.0
#: Verdicts on what is no fault after all.
NO_FAULTS = ("no fault", "does not compile", "does not apply")
#: Inputs on which a fault has to show, the seed of the first, and their factors.
INPUTS, SEED = 6, 1000
FACTORS = (1.0, 0.1)
#: The part of the largest value of an output that shows, by the precision; of integers, the part of them all.
SHOWS: Mapping[str, float] = {"fp32": 2e-4, "bf16": 0.03}
SHOWS_IN = 0.01

Arrays = dict[str, np.ndarray]


def trial(built: Built, case: Case, kind: str | None, random: Random, row: Row, target: Path) -> None:
    """Plant one fault in a copy of the built folder, and write what the check says of it; run in a process alone."""
    toolchain.WARNING_FLAGS = ()  # type: ignore[assignment]  # faults leave variables unused
    toolchain.LANGUAGE_FLAGS = tuple("-O1" if f == "-O3" else f for f in toolchain.LANGUAGE_FLAGS)  # type: ignore[assignment]
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "built"
        shutil.copytree(built.folder, copy)
        faulty = replace(built, folder=copy)
        if kind is not None:
            row["fault"] = KINDS[kind](copy, random)
            if row["fault"] is None:
                write({**row, "verdict": "does not apply"}, target)
                return
            try:
                compile_library(copy, built.options.device, pick_compiler(built.options.device), jobs=1)
            except ToolchainError:
                write({**row, "verdict": "does not compile"}, target)
                return
            write({**row, "verdict": "found", "by": "a crash"}, target)
            row["shows"] = shows(built, copy, case)
            if not row["shows"]:
                write({**row, "verdict": "no fault"}, target)
                return
        checked = edgec.check(faulty)
        row["said"] = checked.verdict
        row["largest"] = max((max(d.max_rel, d.group_rel) for d in checked.outputs), default=0.0)
        found = "found" if not checked.ok else "proves nothing" if checked.verdict == "proves nothing" else "missed"
        if kind is None:
            found = {"found": "false alarm", "missed": "passes"}.get(found, found)
        write({**row, "verdict": found}, target)


def shows(built: Built, copy: Path, case: Case) -> float:
    """Distance of an output with a fault, on inputs that a check does not draw; 0 where it is within rounding."""
    graph = built.stages.graph
    steps = quantized_outputs(graph)
    worst, least = 0.0, SHOWS[built.options.device.precision]
    with Network(built.folder) as right, Network(copy) as wrong:
        right_run, wrong_run = right.executor(), wrong.executor()
        for arrays in _inputs(built, case):
            for name, want in right_run(arrays).items():
                worst = max(worst, _shown(wrong_run(arrays)[name], want, least, name in steps))
    return worst


def _shown(got: np.ndarray, want: np.ndarray, least: float, quantized: bool) -> float:
    if got.shape != want.shape:
        return 1.0
    if want.dtype.kind not in "f":
        part = float(np.mean(got != want)) if want.size else 0.0
        return part if part >= (SHOWS_IN if quantized else 1e-9) or _far(got, want) else 0.0
    a, b = got.astype(np.float64), want.astype(np.float64)
    if (np.isfinite(a) != np.isfinite(b)).any():
        return 1.0
    far = np.abs(a - b)[np.isfinite(b)].max(initial=0.0)
    relative = float(far / (np.abs(b[np.isfinite(b)]).max(initial=0.0) or 1.0))
    return relative if relative > least else 0.0


def _far(got: np.ndarray, want: np.ndarray) -> bool:
    return bool(want.size and np.abs(got.astype(np.float64) - want.astype(np.float64)).max() > 1)


def _inputs(built: Built, case: Case) -> list[Arrays]:
    graph = built.stages.graph
    drawn = [random_inputs(graph, SEED + k) for k in range(INPUTS)]
    sets = [
        {n: np.asarray(a * f, a.dtype) if a.dtype.kind == "f" else a for n, a in arrays.items()}
        for k, arrays in enumerate(drawn) for f in FACTORS[k % len(FACTORS) :][:1]
    ]  # fmt: skip
    try:
        real = real_input(Path(case.source).stem, models_folder())
    except OSError:
        real = {}
    fits = {n.attributes["name"]: n.type.shape for n in graph.inputs}
    return [real, *sets] if real and {n: a.shape for n, a in real.items()} == fits else sets


def alone(built: Built, case: Case, kind: str | None, random: Random, row: Row) -> Row:
    """The row of a trial in a copy of this process."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "row.json"
        process = multiprocessing.get_context("fork").Process(
            target=trial, args=(built, case, kind, random, row, target)
        )
        process.start()
        process.join(PATIENCE)
        if process.is_alive():
            process.kill()
            process.join()
        if process.exitcode == 1:  # an exception, which is told there: the fault of this program, not of the copy
            raise SystemExit(1)
        found: Row = json.loads(target.read_text(encoding="utf-8")) if target.is_file() else {}
    return found or {**row, "verdict": "found", "by": f"exit code {process.exitcode}"}


def planted(built: Built, case: Case, kind: str, number: int, seed: int) -> Row:
    """One fault that shows, and what became of it; ``no fault`` where none of several draws did."""
    row: Row = {"name": f"{case.name}: {kind} {number}", "network": case.name, "kind": kind}
    kinds = list(KINDS)
    first = kinds.index(kind)
    found = row
    for other in kinds[first:] + kinds[:first]:  # the next kind, where this one changes nothing in this network
        for draw in range(DRAWS):
            random = Random(zlib.crc32(f"{row['name']} {other} {seed} {draw}".encode()))
            found = alone(built, case, other, random, {**row, "kind": other})
            if found["verdict"] not in NO_FAULTS:
                return found
            if found["verdict"] == "does not apply":
                break
    return found


def main(arguments: list[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--cache", type=Path, default=default_folder())
    p.add_argument("--each", type=int, default=10, help="faults of a network")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--only", default="*", metavar="PATTERN", help="names of networks")
    p.add_argument("--kind", default="*", metavar="PATTERN", help="kinds of faults")
    p.add_argument("--again", action="store_true", help="plant those again that were not found")
    options = p.parse_args(arguments)
    options.cache.mkdir(parents=True, exist_ok=True)
    rows = options.cache / ROWS
    known: Mapping[str, Row] = read_rows(rows)
    todo = plan([c.name for c in CASES], options.each)
    for case in (c for c in CASES if fnmatch(c.name, options.only)):
        mine = [(kind, n) for network, kind, n in todo if network == case.name and fnmatch(kind, options.kind)]
        waiting = [(k, n) for k, n in mine if _waits(known.get(f"{case.name}: {k} {n}"), options.again)]
        as_it_is = _waits(known.get(case.name), options.again)
        if not waiting and not as_it_is:
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                built = edgec.build(case.path(), out=Path(folder) / "built", **case.settings)
            except Unreachable as reason:
                print(f"{case.name}: {reason}")
                continue
            if as_it_is:
                _told(alone(built, case, None, Random(0), {"name": case.name, "network": case.name}), rows)
            for kind, number in waiting:
                _told(planted(built, case, kind, number, options.seed), rows)
    return 0


def _waits(row: Row | None, again: bool) -> bool:
    return row is None or row["verdict"] in NO_FAULTS or (again and row["verdict"] in ("missed", "proves nothing"))


def _told(row: Mapping[str, Any], rows: Path) -> None:
    append_row(rows, dict(row))
    shown = f" (shows {row['shows']:.1e}, check {row.get('largest', 0):.1e})" if row.get("shows") else ""
    print(f"{row['name']}: {row['verdict']}{shown}; {str(row.get('fault', ''))[:100]}", flush=True)


if __name__ == "__main__":
    sys.exit(main())

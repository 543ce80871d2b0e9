"""Rows of the zoo: lines of JSON, one a network."""

from __future__ import annotations

import argparse
import time
from datetime import date
from pathlib import Path

from benchmarks.alone import Row, alone, append_row, read_rows
from benchmarks.zoo import packages
from benchmarks.zoo.entries import Entry
from benchmarks.zoo.making import Maker, NotMade


def read(cache: Path, emulated: bool = False) -> dict[str, Row]:
    """The last row of every network, by name: on this CPU, or on CUDA in emulation."""
    return read_rows(_file(cache, emulated))


def append(cache: Path, row: Row, emulated: bool = False) -> None:
    append_row(_file(cache, emulated), row)


def _file(cache: Path, emulated: bool) -> Path:
    return cache / ("emulated.jsonl" if emulated else "zoo.jsonl")


def measured(entry: Entry, maker: Maker, options: argparse.Namespace) -> Row:
    row: Row = {
        "name": entry.name, "source": entry.source, "family": entry.family, "exporter": entry.exporter,
        "opset": entry.opset, "variant": entry.variant, "date": date.today().isoformat(),
    }  # fmt: skip
    begun = time.perf_counter()
    try:
        path = maker.file_of(entry)
    except (NotMade, packages.Missing) as problem:
        return {**row, "not_made": str(problem)}
    row["making_seconds"] = round(time.perf_counter() - begun, 1)
    row["file_mb"] = round(path.stat().st_size / 1e6, 2)
    job = {
        "path": str(path), "shapes": entry.settings.get("shapes", {}), "values": entry.settings.get("values", {}),
        "seconds": options.seconds, "threads": options.threads, "memory": int(options.memory * 1e9),
    }  # fmt: skip
    if options.emulated:
        job["most_macs"] = options.most_macs
    found = alone(f"benchmarks.zoo.{'emulated' if options.emulated else 'single'}", job, options.patience)
    if not options.keep and entry.exporter != "package":
        path.unlink()
    return {**row, **found}


def sentence(row: Row) -> str:
    """One line about a row."""
    for key in ("not_made", "refused", "error"):
        if key in row:
            return f"{row['name']}: {key.replace('_', ' ')} ({row.get('step', 'make')}): {row[key][:160]}"
    if "left_out" in row:
        return f"{row['name']}: {row['left_out']}; {row['kernels']} kernels, predicted {row['predicted_ms']:.3g} ms"
    times = ", ".join(f"{row[f'ratio_{n}']:.2f} on {n}" for n in (1, 2) if f"ratio_{n}" in row)
    times = times or (f"predicted {row['predicted_ms']:.3g} ms" if "predicted_ms" in row else "not timed")
    right = "right" if row["right"] else f"WRONG by {row['error_plain']:.1e} ({row['own_disagreement']:.0e} own)"
    return (
        f"{row['name']}: {right}; {times}; {row['kernels']} kernels, {row['build_seconds']:.0f} s, {row['build_mb']} MB"
    )

"""Rows of the zoo: lines of JSON, one a network, and the process that finds one."""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks import environment
from benchmarks.zoo import packages
from benchmarks.zoo.entries import Entry
from benchmarks.zoo.making import NotMade, file_of

Row = dict[str, Any]


def read(cache: Path) -> dict[str, Row]:
    """The last row of every network, by name."""
    path = cache / "zoo.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return {row["name"]: row for row in map(json.loads, lines)}


def append(cache: Path, row: Row) -> None:
    with (cache / "zoo.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def measured(entry: Entry, options: argparse.Namespace) -> Row:
    row: Row = {
        "name": entry.name, "source": entry.source, "family": entry.family, "exporter": entry.exporter,
        "opset": entry.opset, "variant": entry.variant, "date": date.today().isoformat(),
    }  # fmt: skip
    try:
        path = file_of(entry, options.cache, options.python, options.patience)
    except (NotMade, packages.Missing) as problem:
        return {**row, "not_made": str(problem)}
    row["file_mb"] = round(path.stat().st_size / 1e6, 2)
    job = {
        "path": str(path), "shapes": entry.settings.get("shapes", {}), "values": entry.settings.get("values", {}),
        "seconds": options.seconds, "memory": int(options.memory * 1e9),
    }  # fmt: skip
    found = _alone(job, options.patience)
    if not options.keep and entry.exporter != "package":
        path.unlink()
    return {**row, **found}


def _alone(job: dict[str, Any], patience: float) -> Row:
    """The row of one network, found in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="edgec-zoo-") as folder:
        asked, answer = Path(folder) / "job.json", Path(folder) / "row.json"
        asked.write_text(json.dumps(job), encoding="utf-8")
        command = [sys.executable, "-m", "benchmarks.zoo.single", str(asked), str(answer)]
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace",
            env={**environment(), "TMPDIR": folder}, start_new_session=True,
        )  # fmt: skip
        try:
            _, said = process.communicate(timeout=patience)
            ended = "" if not process.returncode else _death(process.returncode, said)
        except subprocess.TimeoutExpired:
            _end(process)
            ended = f"it took more than {patience:.0f} s"
        row: Row = json.loads(answer.read_text(encoding="utf-8")) if answer.is_file() else {"step": "start"}
    return {**row, "error": ended} if ended else row


def _end(process: subprocess.Popen[str]) -> None:
    """Kill the process and those that it started, which share its group."""
    import os

    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _death(code: int, said: str) -> str:
    lines = said.strip().splitlines()
    return (
        f"killed by {signal.Signals(-code).name}" if code < 0 else (lines[-1][:300] if lines else f"exit code {code}")
    )


def sentence(row: Row) -> str:
    """One line about a row."""
    for key in ("not_made", "refused", "error"):
        if key in row:
            return f"{row['name']}: {key.replace('_', ' ')} ({row.get('step', 'make')}): {row[key][:160]}"
    times = ", ".join(f"{row[f'ratio_{n}']:.2f} on {n}" for n in (1, 2) if f"ratio_{n}" in row)
    right = "right" if row["right"] else f"WRONG by {row['error_plain']:.1e} ({row['own_disagreement']:.0e} own)"
    return (
        f"{row['name']}: {right}; {times}; {row['kernels']} kernels, {row['build_seconds']:.0f} s, {row['build_mb']} MB"
    )

"""A job in a process of its own, with limits of time, whose row survives a crash.

The module that does the job is called with two paths: the job, and the row that it writes after every step.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks import environment

Row = dict[str, Any]


def alone(module: str, job: Mapping[str, Any], patience: float) -> Row:
    """The row of one job; ``error`` says how the process ended where it did not end well."""
    with tempfile.TemporaryDirectory(prefix="edgec-job-") as folder:
        asked, answer = Path(folder) / "job.json", Path(folder) / "row.json"
        asked.write_text(json.dumps(job), encoding="utf-8")
        command = [sys.executable, "-m", module, str(asked), str(answer)]
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


def serve(run: Callable[[Mapping[str, Any], Path], None], document: str | None) -> None:
    """The other side of `alone`: do the job of the command line with ``run``, in as much ``memory`` as the job says."""
    p = argparse.ArgumentParser(description=(document or "").partition("\n")[0])
    p.add_argument("job", type=Path)
    p.add_argument("row", type=Path)
    options = p.parse_args()
    job = json.loads(options.job.read_text(encoding="utf-8"))
    resource.setrlimit(resource.RLIMIT_AS, (job["memory"], job["memory"]))
    run(job, options.row)


def write(row: Row, target: Path) -> None:
    """Write the row in one step: whatever ends this process, a row that is there is whole."""
    part = target.with_suffix(".part")
    part.write_text(json.dumps(row), encoding="utf-8")
    part.replace(target)


def _end(process: subprocess.Popen[str]) -> None:
    """Kill the process and those that it started, which share its group."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _death(code: int, said: str) -> str:
    lines = said.strip().splitlines()
    return (
        f"killed by {signal.Signals(-code).name}" if code < 0 else (lines[-1][:300] if lines else f"exit code {code}")
    )


def read_rows(path: Path) -> dict[str, Row]:
    """The last row of every name in a file of JSON lines."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return {row["name"]: row for row in map(json.loads, lines)}


def append_row(path: Path, row: Row) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")

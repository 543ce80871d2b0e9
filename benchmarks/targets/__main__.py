"""The walk of every device x app x {fp32, int8} x {fixed, open} that edgec offers.

    python -m benchmarks.targets [--cells N --seed S] [--only PATTERN] [--write docs/results/targets.md]

Each cell is built and judged in a process of its own; what was found is a line of ``--rows``, and a walk goes on after
the last line. ``--only`` may be repeated: each pattern must fit the cell's name, or its device, app, arithmetic or
shapes. The exit code is 1 where a cell is wrong or ends in an error.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from datetime import date
from pathlib import Path

from benchmarks.alone import Row, append_row, read_rows
from benchmarks.networks.wheels import default_cache
from benchmarks.targets import page, single
from benchmarks.targets.cells import Cell, cells, drawn

_COMMIT = ("rev-parse", "--short", "HEAD")


def main(arguments: list[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--rows", type=Path, default=default_cache().with_name("targets") / "targets.jsonl")
    p.add_argument("--cells", type=int, help="so many cells at random; all of them in order, if not given")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--only", action="append", default=[], metavar="PATTERN", help="cells, or parts of them")
    p.add_argument("--patience", type=float, default=300, help="seconds that a cell may take")
    p.add_argument("--again", action="store_true", help="try cells that have a row already")
    p.add_argument("--write", type=Path, metavar="PAGE", help="write the page of all rows so far")
    options = p.parse_args(arguments)
    options.rows.parent.mkdir(parents=True, exist_ok=True)
    wanted = drawn(cells(options.only), options.cells, options.seed)
    known = {} if options.again else read_rows(options.rows)
    todo = [c for c in wanted if c.name not in known]
    made = {"date": date.today().isoformat(), "commit": _told("git", "-C", str(Path(__file__).parent), *_COMMIT)}
    emulator = _told("qemu-aarch64", "--version").partition("\n")[0]
    for number, cell in enumerate(todo):
        row = {"name": cell.name, **made, "emulator": emulator, **judged(cell, options.patience)}
        append_row(options.rows, row)
        told = row.get("how") or row.get("error")
        print(f"{number + 1}/{len(todo)} {cell.name}: {row['verdict']}: {told}", flush=True)
    rows = read_rows(options.rows)
    if options.write:
        options.write.write_text(page.text(rows.values()), encoding="utf-8")
    return int(any(rows[c.name]["verdict"] in page.BROKEN for c in wanted))


def _told(*command: str) -> str:
    """The output of a program; nothing where it is not there or fails."""
    with suppress(OSError):
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return ""


def judged(cell: Cell, patience: float) -> Row:
    """The row of a cell, from a child of this process, which has edgec loaded already."""
    with tempfile.TemporaryDirectory(prefix="edgec-cell-") as folder:
        target = Path(folder) / "row.json"
        child = multiprocessing.get_context("fork").Process(target=_alone, args=(cell, Path(folder), target))
        child.start()
        child.join(patience)
        ended = "" if child.exitcode == 0 else f"exit code {child.exitcode}"
        if child.is_alive():
            ended = f"it took more than {patience:.0f} s"
        with suppress(ProcessLookupError):
            os.killpg(child.pid or 0, signal.SIGKILL)  # with what it started
        child.join()
        row: Row = json.loads(target.read_text(encoding="utf-8")) if target.is_file() else {}
    return {**row, "verdict": "error", "error": ended} if ended else row


def _alone(cell: Cell, folder: Path, target: Path) -> None:
    os.setsid()
    tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
    job = {"device": cell.device, "app": cell.app, "arithmetic": cell.arithmetic, "shapes": cell.shapes}
    single.run({**job, "folder": str(folder)}, target)


if __name__ == "__main__":
    sys.exit(main())

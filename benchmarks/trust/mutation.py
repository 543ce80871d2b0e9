"""Mutation testing: which small mistakes in the package do the tests find?

    python -m benchmarks.trust.mutation [--count 200] [--seed 4] [--seconds 20] [--only PATTERN]... [--retry]

Mutants are drawn from all of edgec/ and rewrite_rules/, or from the files that ``--only`` names. Each is put into a
copy of the project, and tests are run, none of which begins after ``--seconds`` of the processor: those that execute
its line, where `benchmarks.trust.covering` recorded them before, and of other test files the nearest, by words and
imports (`near`). A test that finds a mutant has to pass without it. What was found is a line of mutants.jsonl in the
cache folder, and a run goes on after the last line. ``--retry`` tries those again that lived, or that no test executed,
with the tests as they are now.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import pkgutil
import shutil
import signal
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx.backend.test.case import node

from benchmarks import ROOT
from benchmarks.alone import Row, append_row, read_rows
from benchmarks.trust import covering
from benchmarks.trust.mutants import Mutant, everywhere
from benchmarks.trust.near import alike, named_for, near, spoken
from benchmarks.trust.warm import Warm

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS = "mutants.jsonl"
#: The sample of the page: another one each time that tests were written for mutants of the last.
SEED = 4
#: Tests that pass without a mutant, and those that do not, as far as any found one.
SOUND = "sound.json"
KILLED, LIVED, UNREACHED = "killed", "lived", "unreached"
#: Test files that are run because they share words with a mutant's function.
ALIKE = 2
#: The exit code of pytest where no test was run.
NONE_RAN = 5
#: Seconds that a run of tests may take, by the clock: some times what it should, and for the last test that begins.
TIMES, LEAST = 12.0, 300.0


def chosen(mutant: Mutant, covered: covering.Covering, copy: Path, seconds: float) -> list[str]:
    """The tests to run: some that execute the line, some that execute anything of the file, or the nearest files.

    A line of no function runs where its file is imported first, whatever the test: any test of the file may mind it.
    Of files that have no record two come first that share words with the function, and those last that are named for
    the module, or import it; the nearest too, where the recorded tests are quick.
    """
    recorded = {test.partition("::")[0] for test in covered.seconds}
    words = [f for f in alike(copy, mutant.file, mutant.line) if f not in recorded][:ALIKE]
    named = [f for f in named_for(copy, mutant.file) if f not in recorded]
    seconds = seconds / 2 if words or named else seconds
    is_module_level = mutant.line not in _lines_of_functions(copy / mutant.file)
    if is_module_level:
        of_file = {t for tests in covered.lines.get(mutant.file, {}).values() for t in tests}
        found = covered.some(of_file, seconds)
    else:
        lines = range(mutant.line, mutant.last_line + 1)
        found = next(filter(None, (covered.tests(mutant.file, line, seconds) for line in lines)), [])
    if sum(covered.seconds[test] for test in found) < seconds / 2:  # there is time for others
        found = [*found, *(f for f in near(copy, mutant.file) if not found or f not in recorded)]
    return list(dict.fromkeys([*words, *found, *named]))


def _lines_of_functions(path: Path) -> set[int]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.Lambda))]
    return {line for f in functions for line in range(f.lineno + 1, (f.end_lineno or f.lineno) + 1)}


class Judge:
    """Runs tests on mutants in a copy of the project; those that ``passed`` when they were recorded are sound."""

    def __init__(self, copy: Path, cache: Path, seconds: float, passed: Collection[str] = ()) -> None:
        self.copy, self.seconds, self.known, self.passed = copy, seconds, cache / SOUND, passed
        self.warm = Warm(copy, covering.environment(copy), node_tests())
        self.sound: dict[str, bool] = {}
        if self.known.is_file():
            self.sound = json.loads(self.known.read_text(encoding="utf-8"))

    def verdict(self, mutant: Mutant, tests: list[str]) -> Mapping[str, Any]:
        """The verdict on a mutant, and the test that found it."""
        if not tests:
            return {"verdict": UNREACHED}
        begun = time.monotonic()
        words = spoken(self.copy, mutant.file, mutant.line)
        unsound = [test for test, is_sound in self.sound.items() if not is_sound]
        while True:
            with planted(mutant, self.copy):
                by = self.failed(tests, unsound, words)
            if by is None or self.is_sound(by, tests, unsound, words):
                break
            unsound.append(by)
        found = {"tests": tests[:4], "seconds": round(time.monotonic() - begun, 1)}
        return {"verdict": LIVED, **found} if by is None else {"verdict": KILLED, "by": by, **found}

    def failed(self, tests: list[str], without: Sequence[str] = (), words: Sequence[str] = ()) -> str | None:
        """The first test that fails, or how the run ended else; None where it ends well.

        Tests that are named with the ``words`` come first.
        """
        left_out = [f"--deselect={test}" for test in without]
        options = ["-x", "--tb=no", "-rfE", "-n", "0", *covering.limit(self.seconds), "--words", " ".join(words)]
        command = covering.pytest_arguments(*options, *left_out, *tests)
        code, said = self.warm.run(command, LEAST + TIMES * self.seconds)
        if code is None:
            return "time"
        if code in (0, NONE_RAN):
            return None
        lines = [line for line in said.splitlines() if line.startswith(("FAILED ", "ERROR "))]
        return lines[0].partition(" - ")[0].partition(" ")[2] if lines else f"exit code {code}"

    def is_sound(self, test: str, tests: list[str], without: Sequence[str], words: Sequence[str]) -> bool:
        """Does it pass among the same tests where no mutant is? What is no test (a crash, a limit of time) is taken to.

        Among them, as a test may fail because of one before it.
        """
        if "tests/" not in test or test in self.passed:
            return True
        if test not in self.sound:
            self.sound[test] = self.failed(tests, without, words) != test
            self.known.write_text(json.dumps(self.sound, indent=0), encoding="utf-8")
        return self.sound[test]


def node_tests() -> list[str]:
    """The modules of the ONNX project's tests of operators, which take seconds to import."""
    return [m.name for m in pkgutil.iter_modules(node.__path__, f"{node.__name__}.")]


@contextmanager
def planted(mutant: Mutant, copy: Path) -> Iterator[None]:
    """The copy has the mutant; afterwards it is as before, times of files included (compiled files go by them)."""
    path = copy / mutant.file
    text, times = path.read_text(encoding="utf-8"), path.stat()
    try:
        path.write_text(mutant.applied(text), encoding="utf-8")
        yield
    finally:
        path.write_text(text, encoding="utf-8")
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def main(arguments: list[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--cache", type=Path, default=covering.default_folder())
    p.add_argument("--count", type=int, default=200, help="mutants of the sample")
    p.add_argument("--seed", type=int, default=SEED)
    p.add_argument("--seconds", type=float, default=20.0, help="seconds of tests for one mutant")
    p.add_argument(
        "--only", action="append", metavar="PATTERN", help="draw from these files, relative to the project, alone"
    )
    p.add_argument("--retry", action="store_true", help="try those again that lived, in a fresh copy of the project")
    options = p.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that no mutant stays in the copy
    copy, rows = covering.tree(options.cache), options.cache / ROWS
    found = read_rows(rows)
    covered = covering.read(options.cache)
    drawn = (m for m in everywhere(copy, options.seed) if any(fnmatch(m.file, p) for p in options.only or ["*"]))
    sample = list(islice(drawn, options.count))
    if options.retry:
        refresh(copy)
    judge = Judge(copy, options.cache, options.seconds, covered.seconds)
    for k, mutant in enumerate(sample, 1):
        before: Row | None = found.get(mutant.name)
        if before is not None and (before["verdict"] == KILLED or not options.retry):
            continue
        tests = chosen(mutant, covered, copy, options.seconds)
        row = {"name": mutant.name, "file": mutant.file, "kind": mutant.kind, "line": mutant.line}
        row |= judge.verdict(mutant, tests)
        append_row(rows, row)
        print(f"{k}/{len(sample)} {row['verdict']}: {mutant.name[:150]}", flush=True)
    return 0


def refresh(copy: Path) -> None:
    """Tests as they are now in the copy, whose package stays: mutants keep their places."""
    shutil.copytree(ROOT / "tests", copy / "tests", ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)


if __name__ == "__main__":
    sys.exit(main())

"""Mutation testing: which small mistakes in the package do the tests find?

    python -m benchmarks.trust.covering
    python -m benchmarks.trust.mutation [--count 200] [--seed 1] [--seconds 20] [--only PATTERN]... [--retry]

Mutants are drawn from all of edgec/ and rewrite_rules/, or from the files that ``--only`` names. Each is put into the
copy of the project that the first command made, and tests that execute its line are run, up to ``--seconds`` of them.
What was found is a line of mutants.jsonl in the cache folder, and a run goes on after the last line. ``--retry`` tries
those again that lived, or that no test executed, in a fresh copy: after tests were added.
"""

from __future__ import annotations

import argparse
import ast
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import contextmanager
from fnmatch import fnmatch
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import ROOT
from benchmarks.alone import Row, append_row, read_rows
from benchmarks.trust import covering
from benchmarks.trust.mutants import Mutant, everywhere

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS = "mutants.jsonl"
KILLED, LIVED, UNREACHED = "killed", "lived", "unreached"
#: Seconds of a run of tests beyond some times what they took before.
LEAST, TIMES = 60.0, 6.0


def chosen(mutant: Mutant, covered: covering.Covering, copy: Path, seconds: float) -> list[str]:
    """The tests to run: some that execute the line, else those that execute anything of the file."""
    for line in range(mutant.line, mutant.last_line + 1):
        if found := covered.tests(mutant.file, line, seconds):
            return found
    of_file = {t for tests in covered.lines.get(mutant.file, {}).values() for t in tests}
    is_module_level = mutant.line not in _lines_of_functions(copy / mutant.file)
    return covered.some(of_file, seconds) if is_module_level else []


def _lines_of_functions(path: Path) -> set[int]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.Lambda))]
    return {line for f in functions for line in range(f.lineno + 1, (f.end_lineno or f.lineno) + 1)}


def tried(mutant: Mutant, tests: list[str], copy: Path, predicted: float) -> Mapping[str, Any]:
    """The verdict on a mutant, and the test that found it."""
    if not tests:
        return {"verdict": UNREACHED}
    begun = time.monotonic()
    with planted(mutant, copy):
        command = covering.pytest_command("-x", "--tb=no", "-rfE", *tests)
        process = subprocess.Popen(
            command, cwd=copy, env=covering.environment(copy), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", start_new_session=True,
        )  # fmt: skip
        try:
            said, _ = process.communicate(timeout=LEAST + TIMES * predicted)
            code = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            said, code = "", -1
    seconds = round(time.monotonic() - begun, 1)
    if code == 0:
        return {"verdict": LIVED, "tests": len(tests), "seconds": seconds}
    failed = [line for line in said.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    by = failed[0].partition(" - ")[0].partition(" ")[2] if failed else "time" if code < 0 else f"exit code {code}"
    return {"verdict": KILLED, "by": by, "tests": len(tests), "seconds": seconds}


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
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--seconds", type=float, default=20.0, help="seconds of tests for one mutant")
    p.add_argument(
        "--only", action="append", metavar="PATTERN", help="draw from these files, relative to the project, alone"
    )
    p.add_argument("--retry", action="store_true", help="try those again that lived, in a fresh copy of the project")
    options = p.parse_args(arguments)
    copy, rows = covering.tree(options.cache), options.cache / ROWS
    found = read_rows(rows)
    covered = covering.read(options.cache)
    drawn = (m for m in everywhere(copy, options.seed) if any(fnmatch(m.file, p) for p in options.only or ["*"]))
    sample = list(islice(drawn, options.count))
    if options.retry:
        refresh(copy)
    for k, mutant in enumerate(sample, 1):
        before: Row | None = found.get(mutant.name)
        if before is not None and (before["verdict"] == KILLED or not options.retry):
            continue
        tests = chosen(mutant, covered, copy, options.seconds)
        row = {"name": mutant.name, "file": mutant.file, "kind": mutant.kind, "line": mutant.line}
        row |= tried(mutant, tests, copy, sum(covered.seconds[t] for t in tests))
        append_row(rows, row)
        print(f"{k}/{len(sample)} {row['verdict']}: {mutant.name[:150]}", flush=True)
    return 0


def refresh(copy: Path) -> None:
    """Tests as they are now in the copy, whose package stays: mutants keep their places."""
    shutil.copytree(ROOT / "tests", copy / "tests", ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)


if __name__ == "__main__":
    sys.exit(main())

"""Processes that make networks ready side by side, and then take turns in being timed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from benchmarks import environment
from benchmarks.alone import Row

#: Seconds that a process is told to be ready before it is ended.
GRACE = 15
#: Workers of each process: there are as many processes as cores.
FEW = {"TORCHINDUCTOR_COMPILE_THREADS": "2", "OMP_NUM_THREADS": "1"}


class Turn(Protocol):
    """A row that is made ready and then timed; both fill ``row``."""

    row: Row

    def prepare(self) -> None: ...
    def time(self) -> None: ...


def take(make: Callable[[], Turn]) -> None:
    """The other side of `Turns`, in the process of one row: it gets ready, says so, waits, is timed, and is printed."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # exporters and compilers print there
    turn = make()
    try:
        turn.prepare()
        print("ready", file=answers, flush=True)
        sys.stdin.readline()
        turn.time()
    except Exception as problem:
        turn.row["error_message"] = f"{type(problem).__name__}: {' '.join(str(problem).split())[:300]}"
    print(json.dumps(turn.row), file=answers, flush=True)


class Turns:
    """``module`` runs one network as a process: it says "ready", waits for a line, and answers with a row.

    Networks are told by name; what each process is given beside the folder is ``entry``, as JSON.

    ``jobs`` processes get ready at once. Those that are not ready at ``until`` (epoch) are ended; timing ends at
    ``end``.
    """

    def __init__(self, module: str, jobs: int, until: float, end: float) -> None:
        self.module, self.until, self.end = module, until, end
        self.free = threading.Semaphore(jobs)
        self.ready: dict[str, subprocess.Popen[str]] = {}
        self.found: dict[str, Row] = {}

    def rows(self, entries: Mapping[str, Mapping[str, Any]], is_dry: bool) -> Iterator[Row]:
        with tempfile.TemporaryDirectory(prefix="edgec-zoo-", ignore_cleanup_errors=True) as folder:
            places = [Path(folder) / str(k) for k in range(len(entries))]
            threads = [
                threading.Thread(target=self._prepare, args=(name, entry, where, is_dry), daemon=True)
                for (name, entry), where in zip(entries.items(), places)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            for name in entries:
                yield self.found.get(name) or self._timed(name)

    def _prepare(self, name: str, entry: Mapping[str, Any], where: Path, is_dry: bool) -> None:
        with self.free:
            left = self.until - time.time()
            if left <= 0:
                self.found[name] = {"name": name, "late": "there was no time for it"}
                return
            where.mkdir()
            job = {"entry": entry, "folder": str(where), "is_dry": is_dry, "until": self.until - GRACE}
            said = (where / "said").open("w")
            process = subprocess.Popen(
                [sys.executable, "-m", self.module, "--one", json.dumps(job)], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=said, text=True, env={**environment(), **FEW}, start_new_session=True,
            )  # fmt: skip
            late = threading.Timer(left, _end, (process,))
            late.start()
            assert process.stdout is not None
            line = process.stdout.readline()
            late.cancel()
            if line.strip() == "ready":
                self.ready[name] = process
            elif line:
                self.found[name] = json.loads(line)
            else:
                self.found[name] = {"name": name, "late": f"it was not ready in time, or ended{_at(where)}"}

    def _timed(self, name: str) -> Row:
        process = self.ready[name]
        late = threading.Timer(max(self.end - time.time(), 0), _end, (process,))
        late.start()
        line, _ = process.communicate("go\n")
        late.cancel()
        return json.loads(line) if line else {"name": name, "late": "it was not timed in time"}


def _at(where: Path) -> str:
    """The step that a process has last written to its folder, in words."""
    step = where / "step"
    return f", at '{step.read_text(encoding='utf-8')}'" if step.is_file() else ""


def _end(process: subprocess.Popen[str]) -> None:
    """Kill a process and those that it started, which share its group."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)

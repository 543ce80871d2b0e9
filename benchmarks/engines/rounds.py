"""Interleaved engines on one network: each in a process of its own, pinned to the same cores (A B C, C B A, ...).

    python -m benchmarks.engines.rounds JOB.json RESULT.json

The job says which engines run on which files. The result holds, for every engine, what starting it took, its error
against the reference, and the times of its blocks in order, so that blocks of one round can be compared.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import environment
from benchmarks.cpu import peak

#: Times every engine is started afresh, rounds at least, and seconds before a block in which other threads calm down.
STARTS, ROUNDS, PAUSE = 3, 5, 0.03
WORKER = ("-m", "benchmarks.engines.worker")


@dataclass
class Turn:
    """One engine of a job: its process, and what is known of it so far."""

    label: str
    command: list[str]
    process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        self.process = subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment(),
        )

    def ask(self, command: str) -> dict[str, Any]:
        assert self.process and self.process.stdin and self.process.stdout
        try:
            self.process.stdin.write(f"{command}\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        return json.loads(answer) if answer else {"failed": f"the process died ({self.process.wait()})"}  # type: ignore[no-any-return]

    def stop(self) -> None:
        if self.process and self.process.stdin:
            self.process.stdin.close()
            self.process.wait()


def measure(job: dict[str, Any]) -> dict[str, Any]:
    """``job``: engines (label, engine, python, model, threads), threads, inputs, reference, seconds, peak (programs).

    The peak of this machine is measured before and after, since clocks change with what else the machine does.
    """
    if hasattr(os, "sched_setaffinity"):  # the last cores: the first ones serve interrupts
        os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[-job["threads"] :]))
    peaks = [peak.run(program, job["threads"]) for program in job["peak"]]
    files = [job["inputs"], job["reference"]]
    turns = [
        Turn(e["label"], [e["python"], *WORKER, e["engine"], e["model"], str(e["threads"]), *files])
        for e in job["engines"]
    ]
    found: dict[str, dict[str, Any]] = {turn.label: {"starts": [], "blocks": []} for turn in turns}
    for k in range(STARTS):
        for turn in turns:
            if "failed" in found[turn.label]:
                continue
            turn.stop()
            turn.start()
            answer = turn.ask("load")
            if k == STARTS - 1 and "failed" not in answer:
                answer |= turn.ask("check")
            if "failed" in answer:
                found[turn.label]["failed"] = answer["failed"]
                turn.stop()
            else:
                found[turn.label]["starts"].append(answer)
    alive = [turn for turn in turns if "failed" not in found[turn.label]]
    _rounds(alive, found, job["seconds"])
    for turn in alive:
        turn.stop()
    peaks += [peak.run(program, job["threads"]) for program in job["peak"]]
    return {"peak_gflops": max(peaks), "engines": {label: _summary(entry) for label, entry in found.items()}}


def _rounds(turns: list[Turn], found: dict[str, dict[str, Any]], seconds: float) -> None:
    end = time.monotonic() + seconds
    count = 0
    while turns and (count < ROUNDS or time.monotonic() < end):
        for turn in turns if count % 2 == 0 else reversed(turns):
            time.sleep(PAUSE)
            answer = turn.ask("block")
            if "failed" in answer:
                found[turn.label]["failed"] = answer["failed"]
                return
            found[turn.label]["blocks"].append(answer)
        count += 1


def _summary(entry: dict[str, Any]) -> dict[str, Any]:
    if "failed" in entry:
        return {"failed": entry["failed"]}
    starts, blocks = entry["starts"], entry["blocks"]
    mean = {key: median(s[key] for s in starts) for key in ("import_s", "load_s", "first_s", "before_mb", "peak_mb")}
    times = {key: [round(b[key], 6) for b in blocks] for key in ("low", "median", "high")}
    return {"version": starts[-1]["version"], "error": starts[-1]["error"], **mean, "blocks": times}


if __name__ == "__main__":
    done = measure(json.loads(Path(sys.argv[1]).read_text()))
    Path(sys.argv[2]).write_text(json.dumps(done, indent=1) + "\n")

"""One engine with one network in a process: reads commands as JSON lines, answers each with one line.

    PYTHON -m benchmarks.engines.worker ENGINE MODEL THREADS INPUTS.npz REFERENCE.npz

``load`` imports, loads and runs once; ``check`` compares the outputs with the reference; ``block`` times a block of
calls. The process ends with its input. What an engine prints goes to standard error.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.engines import engines

#: As in measure.py: seconds of a block at least, calls that count in it at least and at most, calls before those.
BLOCK, LEAST, MOST, UNCOUNTED = 0.05, 3, 2000, 2


class Worker:
    def __init__(self, engine: str, model: str, threads: str, inputs: str, reference: str) -> None:
        self.name, self.model, self.threads = engine, Path(model), int(threads)
        with np.load(inputs, allow_pickle=False) as data:
            self.inputs = dict(data)
        with np.load(reference, allow_pickle=False) as data:
            self.outputs = {name: data[name] for name in data.files}

    def load(self) -> dict[str, Any]:
        """Seconds to the end of the first run, with and without the import, and the peak of memory by then, in MB."""
        before = _peak_mb()
        begun = time.perf_counter()
        engines.import_engine(self.name)
        imported = time.perf_counter()
        self.engine = engines.ENGINES[self.name](self.model, self.threads, self.inputs, self.outputs)
        self.run = self.engine.bound()
        loaded = time.perf_counter()
        self.run()
        end = time.perf_counter()
        return {
            "version": self.engine.version,
            "import_s": imported - begun,
            "load_s": loaded - imported,
            "first_s": end - loaded,
            "before_mb": before,
            "peak_mb": _peak_mb(),
        }

    def check(self) -> dict[str, Any]:
        """The largest difference over the largest value of an output, the worst of the outputs."""
        found, error = self.engine.results(), 0.0
        for name, reference in self.outputs.items():
            expected = reference.astype(np.float64)
            difference = np.abs(found[name].astype(np.float64).reshape(expected.shape) - expected)
            # A comparison with NaN is false, so that NaN must not be lost in a maximum.
            worst = float(difference.max() / max(np.abs(expected).max(), 1e-30))
            error = worst if not worst <= error else error
        return {"error": error if np.isfinite(error) else "not a number"}

    def block(self) -> dict[str, Any]:
        """Milliseconds of the calls of one block."""
        run, clock = self.run, time.perf_counter
        for _ in range(UNCOUNTED):
            run()
        taken: list[float] = []
        end = clock() + BLOCK
        while len(taken) < LEAST or (len(taken) < MOST and clock() < end):
            begun = clock()
            run()
            taken.append(clock() - begun)
        low, median, high = np.percentile(taken, [10, 50, 90])
        return {"low": low * 1e3, "median": median * 1e3, "high": high * 1e3, "calls": len(taken)}


def _peak_mb() -> float:
    """The most memory this process has had. ru_maxrss would count what its parent had when it started this one."""
    status = Path("/proc/self/status")
    if status.is_file():
        return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM")) / 1e3
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    worker = Worker(*sys.argv[1:6])
    commands = {"load": worker.load, "check": worker.check, "block": worker.block}
    for line in sys.stdin:
        try:
            answer = commands[line.strip()]()
        except Exception as error:  # engines raise whatever they like; it is for the table, not for a traceback
            answer = {"failed": f"{type(error).__name__}: {error}".splitlines()[0][:200]}
        print(json.dumps(answer), file=answers, flush=True)
    os._exit(0)  # some engines hang while they are taken down


if __name__ == "__main__":
    main()

"""A model of more than 2 GB with external data: imported, built and checked, with the memory that each step took.

    python -m benchmarks.large_model [--gigabytes 3] [--weights file] [--folder DIR]

The model is random matrices, made in a folder that goes afterwards. Every step is a command in a process of its own.
"Private" is the largest anonymous memory of it and its children, as a multiple of the weights: the model's own file is
mapped, and pages of it that are in memory can be dropped. The exit code is 1 where a step fails or takes more than its
bound.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import environment
from benchmarks.large_model.making import make

#: Private memory that a step may take, as a multiple of the weights, and what Python and packages take besides.
BOUNDS = {"inspect": 0.2, "build": 2.2, "check": 2.3}
BESIDE = 400 << 20
#: Width of the matrices.
WIDTH = 8192
#: Seconds between two looks at the memory.
LOOK = 0.02


def main(arguments: list[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--gigabytes", type=float, default=3.0)
    p.add_argument("--weights", default="file", help="where the build puts them: edgec build --weights")
    p.add_argument("--width", type=int, default=WIDTH)
    p.add_argument("--folder", type=Path, help="where the model and the build lie meanwhile; they go afterwards")
    options = p.parse_args(arguments)
    layers = max(1, round(options.gigabytes * 1e9 / (4 * options.width**2)))
    with tempfile.TemporaryDirectory(prefix="edgec-large-", dir=options.folder) as scratch:
        folder = Path(scratch)
        model = make(folder, options.width, layers)
        size = model.with_name("large.onnx.data").stat().st_size
        print(f"{size:,} bytes of weights in {layers} matrices")
        out = str(folder / "out")
        steps = {
            "inspect": ("inspect", str(model)),
            "build": ("build", str(model), "-o", out, "--weights", options.weights),
            "check": ("check", out, "--samples", "1"),
        }
        ok = [_step(name, words, size) for name, words in steps.items()]
    return int(not all(ok))


def _step(name: str, words: Sequence[str], size: int) -> bool:
    """Run one command; whether it ended well and within its bound."""
    begun = time.perf_counter()
    code, private, said = measured([sys.executable, "-m", "edgec", *words])
    bound = BOUNDS[name] * size + BESIDE
    ended = "ok" if code == 0 else f"exit code {code}"
    verdict = "within" if private <= bound else "BEYOND"
    times, seconds = f"{private / size:.2f} x weights ({verdict} {bound / size:.2f})", time.perf_counter() - begun
    print(f"{name:8} {ended}, private {private >> 20:,} MiB = {times}, {seconds:.0f} s", flush=True)
    if code:
        print(said[-2000:])
    return code == 0 and private <= bound


def measured(command: Sequence[str]) -> tuple[int, int, str]:
    """Exit code of a command, the largest private memory of it and its children in bytes, and what it said."""
    with tempfile.TemporaryFile("w+") as told:
        process = subprocess.Popen(command, stdout=told, stderr=subprocess.STDOUT, env=environment())
        most = 0
        while process.poll() is None:
            most = max(most, _private(process.pid))
            time.sleep(LOOK)
        told.seek(0)
        return process.returncode, most, told.read()


def _private(pid: int, parent: str = "") -> int:
    """Anonymous memory of a process and of those that it started; one that is its ``parent`` still has no own."""
    try:
        line = Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8")
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
        children = " ".join(p.read_text() for p in Path(f"/proc/{pid}/task").glob("*/children")).split()
    except OSError:  # it ended meanwhile
        return 0
    if line == parent:  # before it becomes another program, it is in the memory of its parent
        return 0
    own = [int(row.split()[1]) << 10 for row in status.splitlines() if row.startswith("RssAnon:")]
    return sum(own) + sum(_private(int(child), line) for child in children)


if __name__ == "__main__":
    sys.exit(main())

"""Start-up times of the command line, and of a second `bench` of the same build, in fresh processes.

    python -m benchmarks.startup [--repeats 7] [--model FILE] [--budget SECONDS]

Each command runs once before it is timed, so that byte code and the compile cache are there, as for a user. The times
are seconds from the start of the process to its end: the least and the median of the repeats by the wall clock, and the
median of the processor's time, which other work on the machine lengthens less. The time of `bench` includes 0.05 s of
measuring, so it bounds the time until measuring starts from above; ``--budget`` fails above a bound of its processor
time.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks import ROOT, environment

#: The program that an installation makes.
_EDGEC = (sys.executable, "-c", "import sys; sys.argv[0] = 'edgec'; from edgec.cli.main import main; main()")
_COMPLETION = {"_EDGEC_COMPLETE": "complete_bash", "COMP_WORDS": "edgec build --qu", "COMP_CWORD": "2"}


def seconds(command: Sequence[str], variables: Mapping[str, str], repeats: int) -> tuple[list[float], list[float]]:
    """Seconds of each of some runs of a command, by the wall clock and the processor.

    Raises CalledProcessError where one fails.
    """
    wall, processor = [], []
    for k in range(repeats + 1):
        before, begun = _processor_seconds(), time.perf_counter()
        subprocess.run(command, env=dict(variables), check=True, stdout=subprocess.DEVNULL)
        if k:
            wall.append(time.perf_counter() - begun)
            processor.append(_processor_seconds() - before)
    return wall, processor


def _processor_seconds() -> float:
    """Seconds of processor time of all processes that were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--model", type=Path, default=ROOT / "apps" / "digits" / "digits.onnx")
    parser.add_argument("--budget", type=float, default=None, metavar="SECONDS")
    given = parser.parse_args()
    commands: list[tuple[str, tuple[str, ...], Mapping[str, str]]] = [
        ("python -c pass", (sys.executable, "-c", "pass"), {}),
        ("import edgec", (sys.executable, "-c", "import edgec"), {}),
        ("edgec --version", (*_EDGEC, "--version"), {}),
        ("edgec --help", (*_EDGEC, "--help"), {}),
        ("edgec build --help", (*_EDGEC, "build", "--help"), {}),
        ("edgec build --qu<TAB>", _EDGEC, _COMPLETION),
        (
            f"edgec bench {given.model.name}, the second time",
            (*_EDGEC, "bench", str(given.model), "--seconds", "0.05", "--rounds", "1"),
            {},
        ),
    ]
    with tempfile.TemporaryDirectory() as cache:
        usual = {k: v for k, v in environment().items() if k != "PYTHONDONTWRITEBYTECODE"}
        usual |= {"PYTHONPYCACHEPREFIX": os.path.join(cache, "python"), "XDG_CACHE_HOME": cache}
        print(f"{'command':42}  least  median  processor")
        for name, command, variables in commands:
            wall, processor = seconds(command, {**usual, **variables}, given.repeats)
            taken = statistics.median(processor)
            print(f"{name:42}  {min(wall):5.2f}  {statistics.median(wall):6.2f}  {taken:9.2f}", flush=True)
    if given.budget is not None and taken > given.budget:
        raise SystemExit(f"a second bench takes {taken:.2f} s of the processor, more than {given.budget}")


if __name__ == "__main__":
    main()

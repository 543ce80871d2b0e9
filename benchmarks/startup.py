"""Start-up times of the command line, and of a second `bench` of the same build, in fresh processes.

    python -m benchmarks.startup [--repeats 7] [--model FILE]

Each command runs once before it is timed, so that byte code and the compile cache are there, as for a user. The times
are seconds of the wall clock from the start of the process to its end: the least and the median of the repeats. The
time of `bench` includes 0.05 s of measuring, so it bounds the time until measuring starts from above.
"""

from __future__ import annotations

import argparse
import os
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


def seconds(command: Sequence[str], variables: Mapping[str, str], repeats: int) -> list[float]:
    """Seconds of each of some runs of a command; raises CalledProcessError where one fails."""
    found = []
    for k in range(repeats + 1):
        begun = time.perf_counter()
        subprocess.run(command, env=dict(variables), check=True, stdout=subprocess.DEVNULL)
        if k:
            found.append(time.perf_counter() - begun)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--model", type=Path, default=ROOT / "apps" / "digits" / "digits.onnx")
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
        print(f"{'command':42}  least  median")
        for name, command, variables in commands:
            found = seconds(command, {**usual, **variables}, given.repeats)
            print(f"{name:42}  {min(found):5.2f}  {statistics.median(found):6.2f}", flush=True)


if __name__ == "__main__":
    main()

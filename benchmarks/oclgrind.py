"""Kernel tests of OpenCL under oclgrind: data races, accesses out of bounds, barriers that not every work-item meets.

    python benchmarks/oclgrind.py [--kind KIND] [--group GROUP] [--jobs N] [--seconds N]   # apt install oclgrind

Every group of cases of tests/kernel_cases.py on every kind of device that tests/gpu/test_opencl_kernels.py knows, each
in a process of its own, as oclgrind ends the process on what it does not know. Prints a line each and ends with 1 where
something was found, a result was wrong, or a group did not come to its end.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

LIBRARY = Path("/usr/lib/oclgrind/liboclgrind-rt.so")
TESTS = Path(__file__).resolve().parents[1] / "tests" / "gpu" / "test_opencl_kernels.py"
KINDS = ("host_pocl", "generic_opencl", "mali_g78", "adreno_740")


def environment(log: Path) -> dict[str, str]:
    """What makes a program run under oclgrind; its findings go to ``log``."""
    found = {"EC_OPENCL_LIBRARY": str(LIBRARY), "OCLGRIND_DATA_RACES": "1", "OCLGRIND_LOG": str(log)}
    # Unoptimized, so that accesses are where the kernels have them.
    return {**os.environ, **found, "OCLGRIND_BUILD_OPTIONS": "-O0", "EDGEC_TEST_OPENCL": "1"}


def checked(kind: str, group: str, seconds: float) -> tuple[str, str]:
    """(verdict, first of what was found or said) of one group of cases on one kind of device."""
    with tempfile.TemporaryDirectory(prefix="edgec-oclgrind-") as folder:
        log = Path(folder, "log")
        which = f"{TESTS}::test_kernels_compute_their_formulas[{kind}-{group}-fp32]"
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-o", "timeout=0", which]
        try:
            done = subprocess.run(
                command, env=environment(log), capture_output=True, text=True, timeout=seconds, check=False
            )
        except subprocess.TimeoutExpired:
            return "not finished", f"{seconds:.0f} s"
        findings = log.read_text(errors="replace").strip() if log.is_file() else ""
    if findings:
        return "found", findings[:2000]
    if done.returncode < 0 or "Fatal Python error" in done.stderr:
        why = [line for line in done.stderr.splitlines() if "Assertion" in line or "LLVM ERROR" in line]
        return "oclgrind gave up", (why or done.stderr.splitlines()[-1:])[0][-200:]
    if done.returncode or not done.stdout.startswith("."):
        return "failed", done.stdout[-2000:]
    return "nothing", ""


def groups() -> list[str]:
    """Of the cases, in order."""
    sys.path[:0] = [str(TESTS.parent), str(TESTS.parents[1])]
    from kernel_cases import cases

    return [*sorted(cases()), "handed on"]


def all_checked(which: Sequence[tuple[str, str]], jobs: int, seconds: float) -> bool:
    """Check so many side by side and say what came of each; whether all ended without a finding."""

    def one(pair: tuple[str, str]) -> bool:
        begun = time.monotonic()
        verdict, words = checked(*pair, seconds)
        print(f"{pair[0]:15} {pair[1]:18} {verdict:16} {time.monotonic() - begun:6.0f} s  {words}", flush=True)
        return verdict == "nothing"

    with ThreadPoolExecutor(jobs) as pool:
        return all(list(pool.map(one, which)))


def main() -> None:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--kind", action="append", choices=KINDS)
    p.add_argument("--group", action="append")
    p.add_argument("--jobs", type=int, default=1)
    p.add_argument("--seconds", type=float, default=1800, help="for one group")
    options = p.parse_args()
    if not LIBRARY.is_file():
        sys.exit(f"there is no {LIBRARY}: apt install oclgrind")
    which = [(kind, group) for kind in options.kind or KINDS for group in options.group or groups()]
    sys.exit(not all_checked(which, options.jobs, options.seconds))


if __name__ == "__main__":
    main()

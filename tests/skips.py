"""Skipped tests, counted by reason; with `--known-skips`, a reason that is not listed here fails the run."""

from __future__ import annotations

import re
from collections import Counter

import pytest

#: Reasons for which a test may be skipped, as patterns: what a machine lacks, and what is switched on by hand.
KNOWN = (
    r"pip install [\w\[\]' -]+", r"could not import '\w[\w.]*'.*", r"[\w -]+ is not installed( here)?(: .*)?",
    r"the \w+ package is not installed", r"the extra '\w+' is not installed",
    r"the package that reads TensorFlow Lite files is not installed",
    r"\w[\w+.'s -]* (is|are) missing( and cannot be installed here)?: .*", r".* is missing", r"no OpenCL here: .*",
    r"no \w+ here; Intel's runtime has it: .*", r"no sub-groups here; Intel's runtime has them: .*",
    r"levels of x86-64 are loaded",
    r"no clang for OpenCL C here: .*", r"oclgrind is not here: .*", r"there is no (cmake|git) here",
    r"there is no Chromium: .*", r"no WebGPU adapter here: .*",
    r"no nvcc\b.*", r".*\bnvcc\b.*", r"no compiler or processor for \w+",
    r"no \w+ sanitizer here", r"needs (two cores|the ziglang package|a C compiler)", r"install gcc",
    r"sshd does not start here", r"qemu before \d+ fails .*",
    r"Linux alone tells where threads run", r"other linkers find it by themselves",
    r"the (trained|shared) models are not beside the project", r".* (is|are) not in the folder of trained models",
    r"trained models are not in .* \(EDGEC_MODELS names their folder\)",
    r"the schema of \w+ \(.*\) is not beside the project",
    r"[\w.+-]+ [\d.]+ is not in the cache, and downloads are off", r"Pillow, which reads pictures",
    r"no /\S+", r"EDGEC_DOWNLOAD=1 fetches wheels from PyPI", r"the pictures are those of scikit-image: .*",
    r".*; benchmarks/boards/web\.py downloads it", r".*(--download|downloads? it|not downloaded|is not there).*",
)  # fmt: skip
_PREFIX = "Skipped: "


def reasons(skipped: list[pytest.TestReport]) -> Counter[str]:
    """Reasons and how many tests each of them skipped."""
    found: Counter[str] = Counter()
    for report in skipped:
        told = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        found[told.removeprefix(_PREFIX).strip()] += 1
    return found


def is_known(reason: str) -> bool:
    """True for a reason of the list."""
    return any(re.fullmatch(pattern, reason, re.DOTALL) for pattern in KNOWN)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--known-skips", action="store_true", help="fail where a test is skipped for a new reason")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(session.config, "workerinput") or not session.config.getoption("--known-skips"):
        return
    if not all(map(is_known, reasons(reporter.stats.get("skipped", [])))) and session.exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    found = reasons(terminalreporter.stats.get("skipped", []))
    if found:
        terminalreporter.section("skipped, by reason")
    for reason, count in found.most_common():
        new = "" if is_known(reason) else "  NEW: make it run, or list it in tests/skips.py"
        terminalreporter.write_line(f"{count:5}  {reason}{new}")

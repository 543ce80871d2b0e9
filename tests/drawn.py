"""Costly tests are drawn: a run leaves out three of four, others each time. EDGEC_TEST_SHARE=1 runs all of them.

Costly is what `costly.txt` lists: test functions of which a case took more than a second, written by a run with
`--update-costly`. `part` draws among the cases inside of a test. What is drawn depends on EDGEC_TEST_DRAW, which the
first lines of a run tell; a test that is named with its function on the command line always runs.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable
from fractions import Fraction
from math import ceil
from pathlib import Path

import pytest

SHARE = Fraction(os.environ.get("EDGEC_TEST_SHARE", "1/4"))
#: One for all processes of a run: they inherit it.
DRAW = os.environ.setdefault("EDGEC_TEST_DRAW", os.urandom(4).hex())
COSTLY = Path(__file__).with_name("costly.txt")
SECONDS = 1.0
_LEAST = 3  # cases inside of a test


def _place(name: str) -> float:
    """A number from 0 to 1 that the draw gives to a name."""
    return zlib.crc32(f"{DRAW} {name}".encode()) / 2**32


def part(names: Iterable[str], of: str) -> list[str]:
    """The drawn names among ``names``, in their order; ``of`` is the set's name: others are drawn for another set."""
    every = list(names)
    count = min(len(every), max(_LEAST, ceil(SHARE * len(every))))
    first = set(sorted(every, key=lambda name: _place(f"{of} {name}"))[:count])
    return [name for name in every if name in first]


def _function(nodeid: str) -> str:
    return nodeid.partition("[")[0]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-costly", action="store_true", help="run all tests and list those that take long")


def pytest_report_header() -> str:
    return f"draw of costly tests: EDGEC_TEST_DRAW={DRAW} EDGEC_TEST_SHARE={SHARE}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if SHARE >= 1 or config.getoption("--update-costly") or any("::" in word for word in config.args):
        return
    costly = set(COSTLY.read_text(encoding="utf-8").split())
    left_out = [i for i in items if _function(i.nodeid) in costly and _place(i.nodeid) >= SHARE]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = {id(i) for i in left_out}
        items[:] = [i for i in items if id(i) not in gone]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not terminalreporter.config.getoption("--update-costly"):
        return
    found: dict[str, list[float]] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport) and report.when == "call":
                found.setdefault(_function(report.nodeid), []).append(report.duration)
    listed = sorted(name for name, times in found.items() if sum(times) / len(times) >= SECONDS)
    COSTLY.write_text("".join(f"{name}\n" for name in listed), encoding="utf-8")

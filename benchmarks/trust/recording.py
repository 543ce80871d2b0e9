"""A plugin of pytest that records which lines each test executes, and how long it takes.

    python -m pytest -p benchmarks.trust.recording --record RECORD.json tests/ir/test_index.py

Each line of the package keeps the quickest tests that execute it and the narrowest, those that execute the fewest lines
of the package: a test of one module says more about it than one that happens to pass through. Tests that fail are left
out. `limited` ends a session early.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from benchmarks import ROOT
from benchmarks.trust.limited import processor_seconds
from benchmarks.trust.mutants import SOURCES

#: Tests that a line keeps, of the quickest and of the narrowest.
KEPT = 8


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", metavar="FILE", help="where lines and tests are written")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--record"):
        config.pluginmanager.register(Recorder(Path(config.getoption("--record"))))


class Recorder:
    """Lines by test while pytest runs; written at the end of the session."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self.seconds: dict[str, float] = {}
        self.begun = 0.0
        import coverage  # a package that only this recorder needs

        self.coverage = coverage.Coverage(
            data_file=None, include=[str(ROOT / s / "*") for s in SOURCES], config_file=False
        )
        self.coverage.start()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        self.coverage.switch_context(item.nodeid)

    def pytest_runtest_logstart(self) -> None:
        self.begun = processor_seconds()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self.seconds[report.nodeid] = float("inf")
        elif report.when == "teardown" and report.nodeid not in self.seconds:
            self.seconds[report.nodeid] = processor_seconds() - self.begun

    def pytest_sessionfinish(self) -> None:
        self.coverage.stop()
        data = self.coverage.get_data()
        ran: dict[str, dict[int, list[str]]] = defaultdict(dict)
        for file in data.measured_files():
            name = str(Path(file).relative_to(ROOT))
            for line, tests in data.contexts_by_lineno(file).items():
                if passed := [t for t in tests if self._passed(t)]:
                    ran[name][line] = passed
        widths = Counter(t for by_line in ran.values() for tests in by_line.values() for t in tests)
        lines = {file: {n: self._kept(tests, widths) for n, tests in by_line.items()} for file, by_line in ran.items()}
        used = sorted({t for by_line in lines.values() for tests in by_line.values() for t in tests})
        record = {
            "seconds": {t: self.seconds[t] for t in used}, "widths": {t: widths[t] for t in used},
            "lines": lines,
        }  # fmt: skip
        self.target.write_text(json.dumps(record), encoding="utf-8")

    def _kept(self, tests: list[str], widths: dict[str, int]) -> list[str]:
        quick = sorted(tests, key=lambda t: (self.seconds[t], t))[:KEPT]
        narrow = sorted(tests, key=lambda t: (widths[t], t))[:KEPT]
        return list(dict.fromkeys([*narrow, *quick]))

    def _passed(self, test: str) -> bool:
        return self.seconds.get(test, float("inf")) != float("inf")

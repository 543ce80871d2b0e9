"""A plugin of pytest that records which lines each test executes, and how long it takes.

    python -m pytest -p benchmarks.trust.recording --record RECORD.json tests/ir/test_index.py

Each line of the package keeps the quickest tests that execute it and the narrowest, those that execute the fewest of
its stretches (`probes`): a test of one module says more about it than one that happens to pass through. Tests that fail
are left out. `limited` ends a session early.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path

import pytest

from benchmarks import ROOT
from benchmarks.trust.limited import processor_seconds
from benchmarks.trust.probes import install

#: Tests that a line keeps, of the quickest and of the narrowest.
KEPT = 8


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", metavar="FILE", help="where lines and tests are written")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Probes are in place before anything imports the package."""
    if early_config.known_args_namespace.record:
        install(ROOT)


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--record"):
        config.pluginmanager.register(Recorder(Path(config.getoption("--record"))))


class Recorder:
    """Stretches that ran, by test, while pytest runs; written at the end of the session.

    Those that a fixture of several tests runs belong to each of these tests.
    """

    def __init__(self, target: Path) -> None:
        self.target, self.probes = target, install(ROOT)
        self.seconds: dict[str, float] = {}
        self.begun = 0.0
        self.ran: dict[str, frozenset[int]] = {}
        self.shared: dict[str, frozenset[int]] = {}  # by fixture
        self.probes.taken()

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
        if fixturedef.scope == "function":
            return (yield)
        before = self.probes.taken()
        try:
            return (yield)
        finally:
            ran = self.probes.taken()
            self.shared[fixturedef.argname] = self.shared.get(fixturedef.argname, frozenset()) | ran
            self.probes.mark(before | ran)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self.probes.taken()
        try:
            return (yield)
        finally:
            names = getattr(item, "fixturenames", ())
            self.ran[item.nodeid] = self.probes.taken().union(*(self.shared.get(n, ()) for n in names))

    def pytest_runtest_logstart(self) -> None:
        self.begun = processor_seconds()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self.seconds[report.nodeid] = float("inf")
        elif report.when == "teardown" and report.nodeid not in self.seconds:
            self.seconds[report.nodeid] = processor_seconds() - self.begun

    def pytest_sessionfinish(self) -> None:
        widths = {test: len(ran) for test, ran in self.ran.items() if self._passed(test)}
        by_stretch: dict[int, list[str]] = defaultdict(list)
        for test in widths:
            for stretch in self.ran[test]:
                by_stretch[stretch].append(test)
        lines: dict[str, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
        for stretch, tests in sorted(by_stretch.items()):
            file, own = self.probes.places[stretch]
            kept = self._kept(tests, widths)
            for line in own:
                of_line = lines[str(Path(file).relative_to(ROOT))][line]
                of_line += [t for t in kept if t not in of_line]
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

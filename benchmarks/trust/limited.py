"""A plugin of pytest that begins no test after some seconds of the processor, and runs the quick ones first.

Before them come those whose names share rare words with ``--words``: of the hundreds of cases of one file those that
are of the operator in question.

Where there are several files, no test of one begins after it has had a third of these seconds: others may be nearer. A
test that takes many times the seconds by itself has met a loop without an end, and fails.

python -m pytest -p benchmarks.trust.limited --begin-within 20 --words resize tests/onnx
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import log
from pathlib import Path
from types import FrameType

import pytest

from benchmarks import ROOT
from benchmarks.trust.near import words_of

#: Files that share the seconds, of many.
FILES = 3
#: Times the seconds that one test may take, of its own process.
TIMES = 2.0
#: A word is rare if no more than one of so many tests has it.
COMMON = 5


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--begin-within", type=float, metavar="SECONDS", help="no test begins after so many seconds")
    parser.addoption("--words", default="", help="tests whose names share them come first")


def pytest_configure(config: pytest.Config) -> None:
    seconds = config.getoption("--begin-within")
    if seconds is not None:
        config.pluginmanager.register(Limit(seconds, config.getoption("--words").split()))


class Limit:
    """The limit of one session, from its first test on: collecting tests is no part of it.

    ``cut`` tells whether any test was left out.
    """

    def __init__(self, seconds: float, words: Sequence[str] = ()) -> None:
        self.seconds, self.until, self.words = seconds, float("inf"), frozenset(words)
        self.cut = False
        self.share = seconds
        self.spent: dict[Path, float] = {}  # by test file
        self.path: Path | None = None  # of the test that began last
        self.begun = 0.0

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        costly = set((ROOT / "tests" / "costly.txt").read_text(encoding="utf-8").split())
        turns = named_first([item.nodeid for item in items], self.words)
        items.sort(key=lambda item: (turns[item.nodeid], item.nodeid.partition("[")[0] in costly))
        self.share = self.seconds / min(FILES, max(1, len({item.path for item in items})))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        now = processor_seconds()
        self.until = min(self.until, now + self.seconds)
        if self.path is not None:
            self.spent[self.path] = self.spent.get(self.path, 0.0) + now - self.begun
        self.path, self.begun = item.path, now
        if now > self.until or self.spent.get(item.path, 0.0) > self.share:
            self.cut = True
            pytest.skip("the time is over")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Iterator[None]:
        signal.signal(signal.SIGPROF, _endless)
        signal.setitimer(signal.ITIMER_PROF, TIMES * self.seconds, self.seconds)
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)


def named_first(tests: Iterable[str], words: frozenset[str]) -> dict[str, int]:
    """The turn of each test: 0 if its name has most of the rare words that any shares, 1 if it has one, 2 if none."""
    shared = {test: words & words_of(test.partition("::")[2]) for test in tests}
    counts = Counter(w for found in shared.values() for w in found)
    rare = {w: log(len(shared) / n) for w, n in counts.items() if n <= len(shared) / COMMON}
    scores = {test: sum(rare.get(w, 0.0) for w in found) for test, found in shared.items()}
    most = max(scores.values(), default=0.0)
    return {test: 2 if not score else int(score < most / 2) for test, score in scores.items()}


def _endless(number: int, frame: FrameType | None) -> None:
    pytest.fail("a loop without an end")


def processor_seconds() -> float:
    """Of this process and those that it waited for: other work on the machine does not count."""
    return sum(os.times()[:4])

"""A plugin of pytest that begins no test after some seconds of the processor, and runs the quick ones first.

python -m pytest -p benchmarks.trust.limited --begin-within 20 tests/ir
"""

from __future__ import annotations

import os

import pytest

from benchmarks import ROOT


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--begin-within", type=float, metavar="SECONDS", help="no test begins after so many seconds")


def pytest_configure(config: pytest.Config) -> None:
    seconds = config.getoption("--begin-within")
    if seconds is not None:
        config.pluginmanager.register(Limit(seconds))


class Limit:
    """The limit of one session, from its first test on: collecting tests is no part of it.

    ``cut`` tells whether any test was left out.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds, self.until = seconds, float("inf")
        self.cut = False

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        costly = set((ROOT / "tests" / "costly.txt").read_text(encoding="utf-8").split())
        items.sort(key=lambda item: item.nodeid.partition("[")[0] in costly)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self) -> bool | None:
        self.until = min(self.until, processor_seconds() + self.seconds)
        if processor_seconds() > self.until:
            self.cut = True
            return True  # done with: it is neither run nor reported
        return None


def processor_seconds() -> float:
    """Of this process and those that it waited for: other work on the machine does not count."""
    return sum(os.times()[:4])

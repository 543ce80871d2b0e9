"""Every node test of the ONNX project gives the right result, or is refused with a message that says why."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest
from matrix import PAGE
from node_tests import Outcome, cases, outcome

from edgec.frontend.call import supported


@cache
def _outcome(name: str) -> Outcome:
    return outcome(cases()[name])


@pytest.mark.parametrize("name", cases())
def test_right_or_refused(name: str) -> None:
    found = _outcome(name)
    assert found.status in ("passed", "refused"), found.reason
    assert found.status == "passed" or found.reason


def test_most_pass() -> None:
    counts = Counter(_outcome(name).status for name in cases())
    assert counts["passed"] >= 0.8 * len(cases()), counts


def test_page_lists_every_operator() -> None:
    page = PAGE.read_text(encoding="utf-8")
    missing = [name for domain, name in supported() if not domain and f"| {name} | yes |" not in page]
    assert not missing, "run python tests/onnx/matrix.py"

"""Every node test of the ONNX project gives the right result in C, or is refused with a message that says why."""

from __future__ import annotations

from collections import Counter

import pytest
from matrix import PAGE
from node_tests import cases
from node_tests_in_c import batches, outcomes

from edgec.frontend.call import supported


@pytest.mark.parametrize("names", batches(), ids=lambda names: names[0])
def test_right_or_refused(names: list[str]) -> None:
    found = outcomes(names)
    assert set(found) == set(names)
    wrong = {name: o.reason for name, o in found.items() if o.status == "failed"}
    assert not wrong
    assert all(o.reason for o in found.values() if o.status == "refused")
    # No batch may pass by refusing what it should compute: in every one some tests run.
    assert Counter(o.status for o in found.values())["passed"] > 0


def test_page_lists_every_operator() -> None:
    page = PAGE.read_text(encoding="utf-8")
    missing = [name for domain, name in supported() if not domain and f"| {name} | yes |" not in page]
    assert not missing, "run python tests/onnx/matrix.py"


def test_page_counts_every_test() -> None:
    assert f" of {len(cases())} pass" in PAGE.read_text(encoding="utf-8"), "run python tests/onnx/matrix.py"

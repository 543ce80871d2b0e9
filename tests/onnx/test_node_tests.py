"""Every node test of the ONNX project gives the right result in C, or is refused with a message that says why."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import onnx
import pytest
from matrix import PAGE, short
from node_tests import SUITES, Outcome, cases
from node_tests_in_c import all_outcomes, batches, outcomes

from edgec.frontend.onnx.call import supported

#: The tests that are refused and why, one a line, below the release of onnx that has them; all others pass.
REFUSED = Path(__file__).with_name("refused.txt")
RERUN = "run tests/onnx/matrix.py, as it says"


def refusals() -> tuple[dict[str, str], str]:
    """Reasons by the names of the tests, and the release of onnx."""
    first, *lines = REFUSED.read_text(encoding="utf-8").splitlines()
    return {name: reason for name, _, reason in (line.partition("\t") for line in lines)}, first.split()[-1]


def test_refused_tests_are_there() -> None:
    listed, release = refusals()
    assert release != onnx.__version__ or set(listed) <= set(cases())


@pytest.mark.parametrize("names", batches(), ids=lambda names: names[0])
def test_right_or_refused(names: list[str]) -> None:
    found = outcomes(names)
    assert set(found) == set(names)
    wrong = {name: o.reason for name, o in found.items() if o.status == "failed"}
    assert not wrong
    assert all(o.reason for o in found.values() if o.status == "refused")
    listed, release = refusals()
    new = {n: short(o.reason) for n, o in found.items() if o.status == "refused" and n not in listed}
    if release == onnx.__version__:
        assert not new, "refused, and not listed in refused.txt"
        assert not {n for n in names if n in listed and found[n].status == "passed"}, "passed: remove it from the list"
    assert set(new.values()) <= set(listed.values())  # tests of another release: for reasons that are known
    # No batch may pass by refusing what it should compute: in every one some tests run.
    assert Counter(o.status for o in found.values())["passed"] > 0


@pytest.mark.parametrize("suite, passing", [("simple", 23), ("pytorch-converted", 82), ("pytorch-operator", 35)])
def test_models_of_the_suites(suite: str, passing: int) -> None:
    """Nothing is refused."""
    found = all_outcomes(suite)
    assert not {name: o.reason for name, o in found.items() if o.status == "failed"}
    assert Counter(o.status for o in found.values()) == {"passed": len(found)}
    assert len(found) >= passing


@pytest.mark.parametrize("name", ["test_squeezenet", "test_zfnet512", "test_vgg19"])
def test_networks_without_trained_weights(name: str) -> None:
    """The quickest three; the page has all of them."""
    assert outcomes([name], "light") == {name: Outcome("passed")}


def test_page_lists_every_operator() -> None:
    page = PAGE.read_text(encoding="utf-8")
    missing = [name for domain, name in supported() if not domain and f"| {name} | yes |" not in page]
    assert not missing, RERUN
    beyond = [name for domain, name in supported() if domain == "com.microsoft" and name not in page]
    assert not beyond, RERUN


def test_page_counts_every_test() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert all(f"| {suite} | {len(cases(suite))} |" in page for suite in ("node", *SUITES)), RERUN

"""Measurements that the machine spoiled are told, by one rule for all engines."""

from __future__ import annotations

import pytest

from benchmarks.measure import Measured, Timed
from benchmarks.spoiled import Times, reasons
from edgec.bench.timing import Timing

STEADY = Times(10.0, 9.8, 10.4)


@pytest.mark.parametrize(
    ("two", "why"),
    [
        (Times(6.0, 5.9, 6.2), ""),
        (Times(9.2, 9.1, 9.3), "peer on 2 threads: 0.92 of its time on one"),
        (Times(6.0, 5.5, 7.0), "peer on 2 threads: times vary by 25%"),
    ],
)
def test_a_peer_that_does_not_scale_or_varies(two: Times, why: str) -> None:
    by_threads = {1: {"edgec": STEADY, "peer": STEADY}, 2: {"edgec": STEADY, "peer": two}}
    assert reasons(by_threads, {"peer"}) == ([why] if why else [])


def test_small_networks_need_not_scale() -> None:
    small = Times(0.02, 0.02, 0.021)
    assert not reasons({1: {"peer": small}, 2: {"peer": small}}, {"peer"})


def test_one_thread_alone_is_judged_by_its_spread() -> None:
    assert not reasons({1: {"peer": STEADY}}, {"peer"})
    assert reasons({1: {"edgec": Times(1.0, 0.9, 1.2)}}, {"peer"}) == ["edgec on 1 thread: times vary by 30%"]


def test_a_row_of_the_latency_page_knows() -> None:
    def row(theirs: float) -> Measured:
        steady = Timing(10, 10, 10, 9)
        timed = (Timed(1, steady, steady), Timed(2, Timing(5, 5, 5, 9), Timing(theirs, theirs, theirs, 9)))
        return Measured("n", "s", 1, 1, 1, timed, 1, 0.0, None, None, 1, 1, 1, 0.0, 0.0)

    assert row(9.5).spoiled() == ["onnxruntime on 2 threads: 0.95 of its time on one"]
    assert not row(5.5).spoiled()

"""The trace of a document: kernels one after the other, in microseconds, beside the stages of the build."""

from __future__ import annotations

from typing import Any

import pytest

from edgec.report.trace import trace


def kernel(number: int, measured: float | None) -> dict[str, Any]:
    return {
        "kernel": number, "nodes": ["a", "b", "c"][number:], "operators": ["add"], "template": "map", "kind": "map",
        "flops": 3000, "bytes_read": 1, "bytes_written": 2, "measured_us": measured, "predicted_us": 4.0,
    }  # fmt: skip


@pytest.mark.parametrize("measured", [True, False])
def test_events_lie_one_behind_the_other(measured: bool) -> None:
    times = [1.5, None, 2.0] if measured else [None] * 3
    found = trace({
        "build": {"device": "here", "seconds": {"fuse": 0.25, "emit": 2.0, "total": 9.0}}, "model": "net",
        "kernels": [kernel(k, us) for k, us in enumerate(times)], "edgec": "1",
    })  # fmt: skip
    events = [(e["name"], e["pid"], e["ts"], e["dur"]) for e in found["traceEvents"] if e["ph"] == "X"]
    kernels = [("b, c", 1, 0, 1.5), ("c", 1, 1.5, 2)] if measured else [
        ("b, c", 1, 0, 4), ("b, c", 1, 4, 4), ("c", 1, 8, 4),
    ]  # fmt: skip
    assert events == [*kernels, ("fuse", 2, 0, 0.25e6), ("emit", 2, 0.25e6, 2e6)]
    names = [e["args"]["name"] for e in found["traceEvents"] if e["ph"] == "M"]
    assert names == [f"net: one run, {'measured' if measured else 'predicted'}", "edgec: the build"]
    rates = [e["args"].get("gflops") for e in found["traceEvents"] if e["pid"] == 1 and e["ph"] == "X"]
    assert rates == ([2.0, 1.5] if measured else [0.75] * 3)
    assert found["displayTimeUnit"] == "ms" and found["otherData"] == {"model": "net", "device": "here", "edgec": "1"}
